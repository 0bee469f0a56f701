"""Numbers of a chip halved and doubled one at a time, and what each does to a step."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from hwmodels.chip_edits import check_number_key, edited_chip, number_keys, number_of
from simulator.basis.errors import InputError
from simulator.basis.sourced import Sourced
from simulator.cost.question import AskedStep
from simulator.cost.result import StepResult
from simulator.whatif.change import Costed, kernel_changes, on_chip, step_parts

ALL = "all"
FACTORS = {"halved": 0.5, "doubled": 2.0}
# Values that are tried where half or double is not legal, as many steps towards the number itself.
_STEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A step with one number of its chip changed.

    `edit` is the change as `--set` takes it, empty where no value is legal; `kernel` is what moves
    most, by `kernel_change_ps`. With a `fault` there is no such step.
    """

    field: str
    direction: str
    before: str
    edit: str
    total_ps: int = 0
    change_ps: int = 0
    kernel: str = ""
    kernel_change_ps: int = 0
    fault: str = ""


def chosen_fields(chip: ChipSpec, words: Sequence[str]) -> tuple[str, ...]:
    """Keys of numbers: those named, or with `all` every one that the chip's file gives.

    Timings and organisation of the memory's preset may be named where the file gives none.
    """
    named = dict.fromkeys(part.strip() for word in words for part in word.split(","))
    if ALL in named:
        if len(named) > 1:
            raise InputError("--fields all has every number of the chip: give no others beside it")
        return tuple(key for key in number_keys() if number_of(chip, key, stated=True) is not None)
    for key in named:
        try:
            check_number_key(key)
        except InputError as error:
            raise InputError(f"--fields: {error.message}; or all") from None
        if number_of(chip, key) is None:
            raise InputError(
                f"--fields: {chip.name} gives no {key} to halve and double; give it by --set "
                f"{key}=VALUE, or leave it out"
            )
    return tuple(named)


def field_changes(
    asked: AskedStep, base: StepResult, fields: Sequence[str], costed: Costed
) -> Generator[FieldChange, None, None]:
    """Every number halved and then doubled, on the chip of the step, which costs `base`."""
    parts = step_parts(base)
    for field in fields:
        for direction, factor in FACTORS.items():
            yield _field_change(asked, base, parts, field, (direction, factor), costed)


def _field_change(
    asked: AskedStep,
    base: StepResult,
    parts: dict[str, int],
    field: str,
    way: tuple[str, float],
    costed: Costed,
) -> FieldChange:
    number = number_of(asked.chip, field)
    assert number is not None
    direction, factor = way
    found = _legal(asked.chip, field, number, factor)
    before = _amount(number.value, number.unit)
    if found is None:
        nearer = "smaller" if factor < 1 else "larger"
        fault = f"no {nearer} value is legal"
        return FieldChange(field=field, direction=direction, before=before, edit="", fault=fault)
    edit, chip = found
    try:
        result = costed(on_chip(asked, chip))
    except InputError as error:
        return FieldChange(
            field=field, direction=direction, before=before, edit=edit, fault=error.message
        )
    moved = kernel_changes(parts, step_parts(result))[0]
    return FieldChange(
        field=field,
        direction=direction,
        before=before,
        edit=edit,
        total_ps=result.total_ps,
        change_ps=result.total_ps - base.total_ps,
        kernel=moved.name if moved.change_ps else "",
        kernel_change_ps=moved.change_ps,
    )


def _legal(
    chip: ChipSpec, field: str, number: Sourced, factor: float
) -> tuple[str, ChipSpec] | None:
    """The edit that comes nearest to the factor and is taken, and the chip with it.

    Between whole values of which one is refused and one is taken, the limit is looked for.
    """

    def edited(value: int | float) -> tuple[str, ChipSpec] | None:
        edit = f"{field}={_amount(value, number.unit).replace(' ', '')}"
        try:
            return edit, edited_chip(chip, [edit])
        except InputError:
            return None

    refused: int | float | None = None
    for value in _values(number, factor):
        found = edited(value)
        if found is None:
            refused = value
            continue
        if isinstance(value, int) and isinstance(refused, int):
            while abs(value - refused) > 1:
                middle = (value + refused) // 2
                nearer = edited(middle)
                if nearer is None:
                    refused = middle
                else:
                    value, found = middle, nearer
        return found
    return None


def _values(number: Sourced, factor: float) -> Iterator[int | float]:
    """Half or double, then values ever nearer to the number; each also as a whole number."""
    tried = {number.value}
    for step in range(_STEPS):
        exact = number.value * factor ** (1 - step / _STEPS)
        for value in (int(exact) if float(exact).is_integer() else exact, round(exact)):
            # Rounding goes past the number where that is small.
            if value not in tried and value > 0 and (value < number.value) == (factor < 1):
                tried.add(value)
                yield value
    if isinstance(number.value, int):
        yield number.value + (1 if factor > 1 else -1)


def _amount(value: int | float, unit: str) -> str:
    """`148`, `7,700 GB/s` without the comma: as an edit takes it, to nine digits."""
    text = str(value) if isinstance(value, int) else f"{value:.9g}"
    return f"{text} {unit}".removesuffix(" 1")
