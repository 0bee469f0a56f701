"""Window policies by name: `full`, `periodic:4096+boundary`, `zero:trimmed`, `vllm:0`.

Parts joined by `+` are all kept; a hit uses the best of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.basis.errors import InputError, unknown_name
from simulator.prefix.engine_policies import ENGINE_POLICIES, Reader
from simulator.prefix.window_geometry import ReplayWork, WindowGeometry
from simulator.prefix.window_parts import (
    Boundary,
    Bounded,
    Full,
    Junction,
    Periodic,
    StoredSpan,
    WindowPart,
    Zero,
    no_value,
    tokens_value,
)

# Compressed entries of 128 tokens are whole at multiples of 128: the finest boundary of a hit.
FINEST_GRANULE_TOKENS = 128
ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """A sum of parts.

    `granule_tokens`: hits are cut to multiples of it, or None where the cache decides. `by_tier`:
    what single tiers keep, by their names, where they differ; `parts` are then those of all.
    """

    name: str
    parts: tuple[WindowPart, ...]
    granule_tokens: int | None = None
    by_tier: tuple[tuple[str, WindowPolicy], ...] = ()

    def of(self, tier: str) -> WindowPolicy:
        """What a tier keeps; one that is not named keeps what the last of those named keeps."""
        if not self.by_tier:
            return self
        return dict(self.by_tier).get(tier, self.by_tier[-1][1])

    @property
    def exact(self) -> bool:
        """Whether the resumed run equals an uncached one in exact arithmetic."""
        return all(part.exact for part in self.parts)

    @property
    def everywhere(self) -> bool:
        """Whether a window is live at any boundary, in every tier."""
        if self.by_tier:
            return all(policy.everywhere for _, policy in self.by_tier)
        return any(part.everywhere for part in self.parts)

    @property
    def stores_windows(self) -> bool:
        """Whether windows are kept apart from the pages."""
        return not self.everywhere and any(part.stores_windows for part in self.parts)

    @property
    def marks(self) -> tuple[str, ...]:
        """Kinds of places that must be remembered."""
        return tuple(dict.fromkeys(mark for part in self.parts for mark in part.marks))

    def boundary(self, run: int) -> int:
        """Largest boundary up to `run` known tokens that holds a window by its position alone."""
        return max(part.boundary(run) for part in self.parts)

    def kept(self, span: StoredSpan, granule: int) -> list[int]:
        """Boundaries at which a request leaves a window, ascending.

        Engines of larger granules than the finest keep windows at their ends alone.
        """
        found = {at for part in self.parts for at in part.kept(span, granule)}
        if granule > FINEST_GRANULE_TOKENS:
            found = {at for at in found if at % granule == 0}
        return sorted(found)

    def check(self, granule: int) -> None:
        """Raise InputError for a part that does not go with hits of whole `granule` tokens."""
        if granule <= FINEST_GRANULE_TOKENS:
            return
        for part in self.parts:
            fault = part.fault(granule)
            if fault is not None:
                raise InputError(f"window policy {self.name!r}: {fault}")

    def replay(self, distance: int, geometry: WindowGeometry) -> ReplayWork | None:
        """Least work that makes up for a window missing `distance` tokens, if any part can."""
        offers = [part.replay(distance, geometry) for part in self.parts]
        possible = [work for work in offers if work is not None]
        return min(possible, key=lambda work: (work.tokens, work.token_layers), default=None)

    def clip(self, distance: int, geometry: WindowGeometry) -> ReplayWork | None:
        """Replay instead of a longer way from the last window, if any part allows it."""
        offers = [part.clip(distance, geometry) for part in self.parts]
        return next((work for work in offers if work is not None), None)


def _periodic(value: str | None) -> tuple[tuple[WindowPart, ...], None]:
    return (Periodic(tokens_value("periodic", value, 1)),), None


def _bounded(value: str | None) -> tuple[tuple[WindowPart, ...], None]:
    return (Bounded(tokens_value("bounded", value, 1)),), None


def _plain(part: type[WindowPart], name: str) -> Reader:
    return lambda value: ((no_value(part, name, value),), None)


def _zero(value: str | None) -> tuple[tuple[WindowPart, ...], None]:
    if value not in (None, "trimmed"):
        raise InputError(f"window policy 'zero:{value}': write 'zero' or 'zero:trimmed'")
    return (Zero(trimmed=value == "trimmed"),), None


WINDOW_POLICIES: dict[str, Reader] = {
    "full": _plain(Full, "full"),
    "periodic": _periodic,
    "boundary": _plain(Boundary, "boundary"),
    "junction": _plain(Junction, "junction"),
    "zero": _zero,
    "bounded": _bounded,
    **{name: engine.read for name, engine in ENGINE_POLICIES.items()},
}
FORMS = (
    "full, periodic:TOKENS, boundary, junction, zero, zero:trimmed, bounded:TOKENS, sglang, "
    "vllm:none, vllm:0, vllm:TOKENS, lmcache, hicache, hicache:tail, mooncake, mooncake:none, "
    "mooncake:TOKENS, engine (its own), a sum such as periodic:4096+boundary, or one a tier such "
    "as hbm=full/dram=boundary"
)


def parse_window_policy(text: str, engine: str | None = None) -> WindowPolicy:
    """Policy of a name; raises `InputError` with the nearest name for a typo.

    `engine` is the policy of the engine that stores, for which the word stands.
    """
    if text.strip().lower() == ENGINE:
        if engine is None:
            raise InputError(
                f"window policy {ENGINE!r} is that of the engine that stores, and none does here; "
                f"known are {FORMS}"
            )
        return parse_window_policy(engine)
    parts: list[WindowPart] = []
    granules: set[int] = set()
    for word in text.split("+"):
        name, colon, value = word.strip().lower().partition(":")
        if not name:
            raise InputError(f"window policy {text!r} has an empty part; known are {FORMS}")
        reader = WINDOW_POLICIES.get(name)
        if reader is None:
            hint = unknown_name("window policy", name, WINDOW_POLICIES)
            raise InputError(f"{hint.partition('known are')[0]}known are {FORMS}")
        read, granule = reader(value if colon else None)
        parts += read
        granules |= {granule} if granule else set()
    name = "+".join(word.strip().lower() for word in text.split("+"))
    return WindowPolicy(name, tuple(parts), max(granules, default=None))


def parse_window_policies(text: str, engine: str | None = None) -> list[WindowPolicy]:
    """Policies of a list with commas or semicolons; a name given twice counts once.

    `hbm=boundary/dram=periodic:4096/nvme=zero` keeps something else in every tier; such a policy is
    set apart by semicolons. `engine` as of `parse_window_policy`.
    """
    words = [
        word
        for group in text.split(";")
        for word in ([group] if "=" in group else group.split(","))
        if word.strip()
    ]
    if not words:
        raise InputError(f"no window policy given; known are {FORMS}")
    policies = [
        _by_tier(word.strip(), engine) if "=" in word else parse_window_policy(word, engine)
        for word in words
    ]
    return list({policy.name: policy for policy in policies}.values())


def _by_tier(text: str, engine: str | None) -> WindowPolicy:
    """Policies of single tiers, with slashes between them."""
    own: dict[str, WindowPolicy] = {}
    for word in text.split("/"):
        tier, equals, policy = (piece.strip() for piece in word.partition("="))
        if not (tier and equals and policy):
            raise InputError(
                f"window policy {text!r}: {word.strip()!r} is no TIER=POLICY; write "
                "hbm=boundary/dram=zero, and semicolons between policies that are compared"
            )
        if tier in own:
            raise InputError(f"window policy {text!r} names tier {tier!r} twice")
        own[tier] = parse_window_policy(policy, engine)
    parts = dict.fromkeys(part for policy in own.values() for part in policy.parts)
    granules = [policy.granule_tokens or 1 for policy in own.values()]
    name = "/".join(f"{tier}={policy.name}" for tier, policy in own.items())
    return WindowPolicy(
        name, tuple(parts), None if max(granules) == 1 else max(granules), tuple(own.items())
    )


def engine_rules(policies: Sequence[WindowPolicy]) -> list[str]:
    """A sentence for every engine that is named: its rule and its source."""
    single = [one for policy in policies for _, one in policy.by_tier or (("", policy),)]
    words = (word.partition(":")[0] for policy in single for word in policy.name.split("+"))
    return [
        f"policy {name}: {ENGINE_POLICIES[name].rule}"
        for name in dict.fromkeys(words)
        if name in ENGINE_POLICIES
    ]
