"""Why a step takes what it takes: its largest causes, and the numbers that would move it most.

Numbers are those of the chip's file and the fitted constants of the engine's kernels; fields of the
engine's profile, which step too far for that, are halved and doubled. Each number is
raised a little, all else equal, and the step costed again: a finite difference, from which the
change for 5 % more follows. The largest ones are costed at 5 % too, so that a reader sees where a
straight line would mislead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from hwmodels.chip_edits import edited_chip, number_keys, number_of
from simulator.basis.errors import InputError, UnsupportedError
from simulator.cost.critical_path import critical_ps_of
from simulator.cost.question import AskedStep
from simulator.cost.result import StepResult
from simulator.kernels.causes import shared_out
from simulator.kernels.constants_file import constants_for, fresh_constants, read_constants
from simulator.kernels.fitted import FamilyFile, Fitted
from simulator.kernels.registry import FAMILIES
from simulator.whatif.change import Costed, on_chip
from simulator.whatif.engine_fields import FieldChange, field_changes

CHIP, ENGINE = "chip", "engine"
PROBED, SAID = 0.02, 0.05
# A whole number that steps by more than this has no difference that is small.
_COARSE = 0.08
# Families of less than this share of the launches' time are left as they are.
_SMALL_SHARE = 0.005
# How far a re-run may be from the straight line before a reader is told.
LINEAR = 0.1

# Formats that are tried in place of those asked for.
FORMATS = {"index": ("fp8", "fp4", "bf16"), "kv": ("fp8", "bf16"), "expert": ("fp4", "fp8")}

_Change = tuple[AskedStep, AbstractContextManager[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number that can be raised: of the chip, by its key, or of a kernel family of the engine."""

    name: str
    of: str
    value: float
    unit: str
    whole: bool = False
    meaning: str = ""

    def raised(self, share: float) -> float:
        """The value raised by about a share; whole numbers by at least one."""
        if not self.whole:
            return self.value * (1 + share)
        return float(max(round(self.value * (1 + share)), self.value + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """What raising a number does: `change_ps` at `ratio` more, and costed again at about 5 % more.

    `causes_ps` are the changes by cause at `ratio`, the largest first; `moved_cause` changes most
    over all launches, whichever of those side by side ends last.
    """

    number: Number
    ratio: float
    change_ps: int
    causes_ps: Mapping[str, int] = field(default_factory=dict)
    moved_cause: str = ""
    rerun_ratio: float | None = None
    rerun_ps: int | None = None

    def predicted_ps(self, ratio: float = SAID) -> int:
        """Change of the step by a straight line."""
        return round(self.change_ps / self.ratio * ratio)

    @property
    def said_ps(self) -> int:
        """Change for 5 % more as it was costed, or where that is refused by a straight line."""
        return self.predicted_ps() if self.rerun_ps is None else self.rerun_ps

    @property
    def is_linear(self) -> bool | None:
        """Whether the re-run is within a tenth of the prediction; None without a re-run."""
        if self.rerun_ps is None or self.rerun_ratio is None:
            return None
        return abs(self.predicted_ps(self.rerun_ratio) - self.rerun_ps) <= LINEAR * abs(
            self.rerun_ps
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatChange:
    """The step with cache rows, index keys or experts stored in another format.

    `notes`: what its kernels are priced as, where nobody measured them so.
    """

    what: str
    before: str
    after: str
    change_ps: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseShare:
    """A cause of the step's time, and the operations that wait for it most."""

    name: str
    time_ps: int
    operations: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A step, its largest causes, and its levers, the strongest first.

    `fields` of the engine's profile, halved and doubled. `coarse` numbers step by too much for a
    difference; `still` ones move nothing.
    """

    asked: AskedStep
    base: StepResult
    causes: tuple[CauseShare, ...]
    levers: tuple[Lever, ...]
    formats: tuple[FormatChange, ...]
    fields: tuple[FieldChange, ...]
    coarse: tuple[str, ...]
    still: tuple[str, ...]


def explain(
    asked: AskedStep,
    costed: Costed,
    screened: Costed | None = None,
    *,
    shown: int = 8,
    note: Callable[[str], None] = lambda text: None,
) -> Explanation:
    """The three largest causes of a step and its strongest levers.

    `costed` prices the step; `screened`, where given, prices a quicker one by which numbers are
    ranked before the strongest `shown` are costed in full.
    """
    base = costed(asked)
    numbers, coarse = step_numbers(asked, base)
    screen = screened or costed
    ranked: list[tuple[int, Number]] = []
    before = screen(asked).total_ps
    for place, number in enumerate(numbers, 1):
        note(f"number {place} of {len(numbers)}: {number.name}")
        found = _cost(asked, number, number.raised(PROBED), screen)
        if found is not None:
            change = (found.total_ps - before) / (number.raised(PROBED) / number.value - 1)
            ranked.append((round(abs(change)), number))
    ranked.sort(key=lambda own: (-own[0], own[1].name))
    levers = []
    for place, (size, number) in enumerate(ranked[:shown], 1):
        note(f"lever {place} of {min(shown, len(ranked))}: {number.name}")
        lever = lever_of(asked, base, number, costed) if size else None
        if lever is not None and lever.change_ps:
            levers.append(lever)
    levers.sort(key=lambda own: -abs(own.said_ps))
    return Explanation(
        asked=asked,
        base=base,
        causes=largest_causes(base),
        levers=tuple(levers),
        formats=tuple(format_changes(asked, base, costed)),
        fields=field_changes(asked, costed, screened, shown=shown, note=note),
        coarse=coarse,
        still=tuple(number.name for size, number in ranked if not size),
    )


def format_changes(
    asked: AskedStep, base: StepResult, costed: Costed
) -> Generator[FormatChange, None, None]:
    """Other formats, one at a time; those that are refused are left out."""
    for what, others in FORMATS.items():
        before = getattr(asked.deployment.formats, what)
        for after in others:
            if after == before:
                continue
            try:
                result = costed(asked.changed(**{what: after}))
            except (InputError, UnsupportedError):
                continue
            change_ps = result.total_ps - base.total_ps
            yield FormatChange(
                what=what,
                before=before,
                after=after,
                change_ps=change_ps,
                notes=tuple(text for text in result.priced_as if text not in base.priced_as),
            )


def lever_of(asked: AskedStep, base: StepResult, number: Number, costed: Costed) -> Lever | None:
    """One number as a lever, with its re-run; None where the raised value is refused."""
    value = number.raised(PROBED)
    probe = _cost(asked, number, value, costed)
    if probe is None:
        return None
    own, other = cause_parts(base), cause_parts(probe)
    moved = {cause: other.get(cause, 0) - own.get(cause, 0) for cause in {*own, *other}}
    lever = Lever(
        number=number,
        ratio=value / number.value - 1,
        change_ps=probe.total_ps - base.total_ps,
        moved_cause=_moved_cause(base, probe),
        causes_ps=dict(sorted(moved.items(), key=lambda item: (-abs(item[1]), item[0]))),
    )
    value = number.raised(SAID)
    rerun = _cost(asked, number, value, costed)
    if rerun is None:
        return lever
    return replace(
        lever, rerun_ratio=value / number.value - 1, rerun_ps=rerun.total_ps - base.total_ps
    )


def _moved_cause(base: StepResult, probe: StepResult) -> str:
    """The cause whose time over all launches changes most; empty where none does."""
    moved: dict[str, int] = {}
    for sign, result in ((-1, base), (1, probe)):
        for kernel in result.kernels:
            for cause, time_ps in kernel.causes_ps.items():
                moved[cause] = moved.get(cause, 0) + sign * time_ps
    cause = max(moved, key=lambda name: abs(moved[name]))
    return cause if moved[cause] else ""


def step_numbers(asked: AskedStep, base: StepResult) -> tuple[list[Number], tuple[str, ...]]:
    """Numbers that can be raised a little, and the names of those that step by too much."""
    found = [*_chip_numbers(asked), *_engine_numbers(asked, base)]
    fine = [n for n in found if n.raised(PROBED) / n.value - 1 <= _COARSE]
    return fine, tuple(n.name for n in found if n not in fine)


def largest_causes(result: StepResult, count: int = 3) -> tuple[CauseShare, ...]:
    """The causes that most of the step waits for, each with its three largest operations."""
    by_cause: dict[str, dict[str, int]] = {}
    for name, cause, time_ps in _parts(result):
        own = by_cause.setdefault(cause, {})
        own[name] = own.get(name, 0) + time_ps
    found = [
        CauseShare(
            name=cause,
            time_ps=sum(operations.values()),
            operations=tuple(sorted(operations.items(), key=lambda item: -item[1])[:3]),
        )
        for cause, operations in by_cause.items()
    ]
    return tuple(sorted(found, key=lambda own: -own.time_ps)[:count])


def cause_parts(result: StepResult) -> dict[str, int]:
    """Picoseconds of the step by cause; they add up to it."""
    parts: dict[str, int] = {}
    for _, cause, time_ps in _parts(result):
        parts[cause] = parts.get(cause, 0) + time_ps
    return parts


def _parts(result: StepResult) -> Generator[tuple[str, str, int], None, None]:
    """(operation, cause, picoseconds), which add up to the step."""
    critical_ps, between_ps = critical_ps_of(result.kernels, result.total_ps)
    for kernel, part_ps in zip(result.kernels, critical_ps, strict=True):
        whole = part_ps == kernel.duration_ps
        causes = kernel.causes_ps if whole else shared_out(part_ps, kernel.causes_ps)
        for cause, time_ps in causes.items():
            yield kernel.name, cause, time_ps
    if between_ps:
        yield "(between launches)", "launch", between_ps


def _chip_numbers(asked: AskedStep) -> list[Number]:
    found = []
    for key in number_keys():
        number = number_of(asked.chip, key, stated=True)
        if number is not None and number.value > 0:
            whole = isinstance(number.value, int) and number.unit in ("1", "clk")
            found.append(
                Number(name=key, of=CHIP, value=float(number.value), unit=number.unit, whole=whole)
            )
    return found


def _engine_numbers(asked: AskedStep, base: StepResult) -> list[Number]:
    """Fitted constants of the families that price the step, but for those of hardly any time."""
    times: dict[str, int] = {}
    for kernel in base.kernels:
        times[kernel.priced_by] = times.get(kernel.priced_by, 0) + kernel.duration_ps
    least = _SMALL_SHARE * sum(times.values())
    found = []
    for family in sorted(times):
        if family not in FAMILIES or times[family] < least:
            continue
        values = constants_for(family, asked.chip).values
        found += [
            Number(
                name=f"{family}.{constant.name}",
                of=ENGINE,
                value=values[constant.name],
                unit=constant.unit,
                meaning=constant.meaning,
            )
            for constant in FAMILIES[family].constants
            if values.get(constant.name)
        ]
    return found


def _cost(asked: AskedStep, number: Number, value: float, costed: Costed) -> StepResult | None:
    """The step with a number at another value; None where that is refused."""
    try:
        changed, within = _changed(asked, number, value)
        with within:
            return costed(changed)
    except InputError:
        return None


def _changed(asked: AskedStep, number: Number, value: float) -> _Change:
    if number.of == CHIP:
        amount = f"{value:.0f}" if number.whole else f"{value:.12g}"
        unit = "" if number.unit == "1" else number.unit
        chip = edited_chip(asked.chip, [f"{number.name}={amount}{unit}"])
        # The name tells which constants are the chip's own: an edit of one number keeps them.
        return on_chip(asked, chip), nullcontext()
    family, _, name = number.name.partition(".")
    stored = constants_for(family, asked.chip)
    fit = stored.fit.model_copy(update={"constants": {**stored.values, name: value}})
    return asked, fresh_constants([_with(read_constants(family), asked, stored.architecture, fit)])


def _with(content: FamilyFile, asked: AskedStep, architecture: str, fit: Fitted) -> FamilyFile:
    """A family's file in which one layer, the one that prices the chip, is another."""
    named = asked.chip.plain_name
    if named in content.chips:
        return content.model_copy(update={"chips": {**content.chips, named: fit}})
    layers = {**content.architectures, architecture: fit}
    return content.model_copy(update={"architectures": layers})
