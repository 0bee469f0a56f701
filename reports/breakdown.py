"""Where a step's time and bytes go: launches summed by operation, by kind of layer, and in all.

`critical_ps` adds up to the step; `duration_ps` adds up the launches, overlapped ones included.
Every table, page and terminal view takes its sums from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simulator.cost.critical_path import critical_ps_of
from simulator.cost.result import RESOURCES, KernelRecord, StepResult
from simulator.kernels.causes import CAUSES, shared_out, waits_by_resource

# What questions about V4 are about: never in a row of others.
ASKED_ABOUT = ("experts", "core", "index_score", "top_k")
BETWEEN_LAUNCHES = "(between launches)"
SUMMED_FIELDS = (
    "vector_ops",
    "special_ops",
    "weight_bytes",
    "activation_bytes",
    "cache_read_bytes",
    "cache_write_bytes",
    "dram_read_bytes",
    "dram_write_bytes",
    "link_bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotal:
    """Sums over the launches of one group, which begins with the launch `first_path`.

    `scopes` counts the layers that it occurs in; `amounts` is by the names in `SUMMED_FIELDS`.
    `low_ps` to `high_ps` is where the group's part of the step is expected on silicon.
    """

    key: str
    first_path: str
    launches: int
    scopes: int
    critical_ps: int
    duration_ps: int
    critical_ps_by_bound: Mapping[str, int]
    duration_ps_by_bound: Mapping[str, int]
    critical_ps_by_cause: Mapping[str, int]
    low_ps: int
    high_ps: int
    flops: Mapping[str, int]
    amounts: Mapping[str, int]

    @property
    def total_flops(self) -> int:
        """Matrix FLOP of every class."""
        return sum(self.flops.values())

    @property
    def dram_bytes(self) -> int:
        """Bytes read and written after the LLC."""
        return self.amounts["dram_read_bytes"] + self.amounts["dram_write_bytes"]

    @property
    def bound(self) -> str:
        """Resource that decides most of the group's time; of its launches' if all is hidden."""
        parts = self.critical_ps_by_bound if self.critical_ps else self.duration_ps_by_bound
        return max(parts, key=lambda name: parts[name]) if parts else "launch"


class StepBreakdown:
    """The groups of one step, summed when first asked for; `critical_ps[i]` is launch i's part."""

    def __init__(self, result: StepResult) -> None:
        self.result = result
        self.critical_ps, self.between_ps = critical_ps_of(result.kernels, result.total_ps)

    @cached_property
    def by_operation(self) -> tuple[GroupTotal, ...]:
        """Launches of one name together, the largest part of the step first."""
        return self._with_between(self.group_by([kernel.name for kernel in self.result.kernels]))

    @cached_property
    def by_layer_kind(self) -> tuple[GroupTotal, ...]:
        """Launches of one kind of layer together, the largest part of the step first."""
        return self._with_between(self.group_by([kernel.kind for kernel in self.result.kernels]))

    @cached_property
    def total(self) -> GroupTotal:
        """The whole step, the time between launches included."""
        whole = self._sum("total", range(len(self.result.kernels)), self.between_ps)
        return replace(whole, low_ps=self.result.low_ps, high_ps=self.result.high_ps)

    def group_by(self, keys: Sequence[str]) -> tuple[GroupTotal, ...]:
        """Launches of one key together (`keys[i]` is launch i's), largest part first."""
        members: dict[str, list[int]] = {}
        for index, (key, _) in enumerate(zip(keys, self.result.kernels, strict=True)):
            members.setdefault(key, []).append(index)
        return _largest_first(self._sum(key, indexes, 0) for key, indexes in members.items())

    def _with_between(self, groups: tuple[GroupTotal, ...]) -> tuple[GroupTotal, ...]:
        if not self.between_ps:
            return groups
        return _largest_first([*groups, self._sum(BETWEEN_LAUNCHES, (), self.between_ps)])

    def _sum(self, key: str, indexes: Iterable[int], between_ps: int) -> GroupTotal:
        causes: Counter[str] = Counter()
        alone: Counter[str] = Counter()
        low = high = float(between_ps)
        flops: Counter[str] = Counter()
        chosen = list(indexes)
        kernels = [self.result.kernels[index] for index in chosen]
        for index, kernel in zip(chosen, kernels, strict=True):
            causes.update(self._critical_causes(index))
            alone.update(kernel.causes_ps)
            share = self.critical_ps[index] / (kernel.duration_ps or 1)
            low, high = low + share * kernel.low_ps, high + share * kernel.high_ps
            flops.update(kernel.flops)
        if between_ps:
            causes["launch"] += between_ps
        return GroupTotal(
            key=key,
            first_path=kernels[0].path if kernels else "",
            launches=len(kernels),
            scopes=len({kernel.scope for kernel in kernels}),
            critical_ps=causes.total(),
            duration_ps=alone.total(),
            critical_ps_by_bound=_by_resource(causes),
            duration_ps_by_bound=_by_resource(alone),
            critical_ps_by_cause={name: causes[name] for name in CAUSES if causes[name]},
            low_ps=round(low),
            high_ps=round(high),
            flops=dict(sorted(flops.items())),
            amounts={name: _amount(kernels, name) for name in SUMMED_FIELDS},
        )

    def _critical_causes(self, index: int) -> Mapping[str, int]:
        """What the part of a launch that decides the step waits for.

        Assumes: the part of a launch that nothing covers has the causes of the whole launch.
        """
        kernel, part_ps = self.result.kernels[index], self.critical_ps[index]
        if part_ps == kernel.duration_ps:
            return kernel.causes_ps
        return shared_out(part_ps, kernel.causes_ps)


def shown_groups(
    groups: Sequence[GroupTotal], most: int, least_share: float = 1.0
) -> list[GroupTotal]:
    """The largest groups, and of the others those that have a share of the step or are asked about.

    One group alone is not hidden behind the word others.
    """
    if len(groups) <= most + 1:
        return list(groups)
    total_ps = sum(group.critical_ps for group in groups)
    return [
        group
        for place, group in enumerate(groups)
        if place < most or group.key in ASKED_ABOUT or group.critical_ps > least_share * total_ps
    ]


def math_classes(result: StepResult) -> tuple[str, ...]:
    """Math classes of which any launch has FLOP, in order of name."""
    return tuple(sorted({name for k in result.kernels for name, count in k.flops.items() if count}))


def _largest_first(groups: Iterable[GroupTotal]) -> tuple[GroupTotal, ...]:
    return tuple(sorted(groups, key=lambda g: (-g.critical_ps, -g.duration_ps, g.key)))


def _amount(kernels: list[KernelRecord], field: str) -> int:
    return sum(getattr(kernel, field) for kernel in kernels)


def _by_resource(causes_ps: Mapping[str, int]) -> dict[str, int]:
    """Time by the resource that it waits for, in the order of `RESOURCES`."""
    waits = waits_by_resource(causes_ps)
    return {name: waits[name] for name in RESOURCES if name in waits}
