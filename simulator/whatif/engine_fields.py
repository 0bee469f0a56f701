"""Fields of an engine's profile that decide how its kernels are cut, one at a time otherwise.

They are tile shapes, thresholds, stages and pages: whole numbers that step too far for a small
change, so each is halved and doubled, and the step costed again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from simulator.basis.errors import V4SimError
from simulator.cost.question import AskedStep
from simulator.cost.result import StepResult
from simulator.engine.kernel_section import KernelSection
from simulator.engine.profile import EngineProfile, find_profile, layout_of, on_cores
from simulator.whatif.change import Costed

_Path = tuple[str | int, ...]
_PAGE = "layout.page_tokens"
# Places in an order, not sizes.
_ORDER = ("stage", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """The step with a field of the engine's profile at another value."""

    field: str
    before: float
    after: float
    change_ps: int


def field_changes(
    asked: AskedStep,
    costed: Costed,
    screened: Costed | None = None,
    *,
    shown: int = 8,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[FieldChange, ...]:
    """The `shown` strongest numeric fields of the kernels that the step launches, and the cache
    page, halved and doubled; the largest change first.

    Values that the profile refuses are left out. `screened`, where given, prices a quicker step by
    which they are ranked.
    """
    screen = screened or costed
    before = screen(asked)
    ranked: list[tuple[int, str, float, float, EngineProfile]] = []
    fields = list(_fields(asked, before))
    for place, (name, value, make) in enumerate(fields, 1):
        note(f"field {place} of {len(fields)}: {name}")
        for after in _others(value):
            profile = make(after)
            result = None if profile is None else _costed(asked, profile, screen)
            if profile is not None and result is not None and result.total_ps != before.total_ps:
                size = abs(result.total_ps - before.total_ps)
                ranked.append((size, name, value, after, profile))
    ranked.sort(key=lambda own: (-own[0], own[1], own[3]))
    base, found = costed(asked), []
    for _, name, value, after, profile in ranked[:shown]:
        result = _costed(asked, profile, costed)
        if result is not None and result.total_ps != base.total_ps:
            change_ps = result.total_ps - base.total_ps
            found.append(FieldChange(field=name, before=value, after=after, change_ps=change_ps))
    return tuple(sorted(found, key=lambda own: (-abs(own.change_ps), own.field, own.after)))


_Make = Callable[[float], EngineProfile | None]


def _fields(asked: AskedStep, base: StepResult) -> Generator[tuple[str, float, _Make], None, None]:
    """Name, value, and what makes the profile with another one."""
    profile = asked.deployment.profile
    launched = {kernel.name for kernel in base.kernels}
    for name in KernelSection.model_fields:
        for path, value in _numbers(getattr(profile, name), (name,)):
            words = [str(part) for part in path]
            if name == "kernels":
                kernel = profile.kernels[int(path[1])]
                if kernel.name not in launched:
                    continue
                words[:2] = [kernel.name]
            yield ".".join(words), value, lambda after, at=path: _changed(profile, at, after)  # type: ignore[misc]
    yield _PAGE, asked.deployment.layout.page_tokens, lambda after: _paged(asked, int(after))


def _numbers(value: Any, at: _Path) -> Iterator[tuple[_Path, float]]:
    """Positive numbers below a value, with their paths."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if name not in _ORDER:
                yield from _numbers(getattr(value, name), (*at, name))
    elif isinstance(value, dict):
        for key, own in value.items():
            yield from _numbers(own, (*at, key))
    elif isinstance(value, tuple):
        for place, own in enumerate(value):
            yield from _numbers(own, (*at, place))
    elif isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        yield at, value


def _others(value: float) -> tuple[float, ...]:
    """Half and twice; a whole number stays one."""
    if isinstance(value, int):
        return (value // 2, 2 * value) if value > 1 else (2,)
    return (value / 2, 2 * value)


def _costed(asked: AskedStep, profile: EngineProfile, costed: Costed) -> StepResult | None:
    try:
        return costed(asked.changed(profile=profile, layout=_layout(asked, profile)))
    except V4SimError:
        return None


def _layout(asked: AskedStep, profile: EngineProfile) -> Any:
    """The deployment's layout, but for its pages, which are the profile's."""
    own, new = asked.deployment.layout, layout_of(profile)
    if own.page_tokens == new.page_tokens:
        return own
    return new.model_copy(update={"sizing": own.sizing})


def _paged(asked: AskedStep, page_tokens: int) -> EngineProfile | None:
    try:
        found = find_profile(asked.deployment.engine, page_tokens)
    except V4SimError:
        return None
    return on_cores(found, asked.chip.architecture)


def _changed(profile: EngineProfile, at: _Path, value: float) -> EngineProfile | None:
    """The profile with one field of its kernels at another value; None where it may not be."""
    data = _listed(profile.model_dump(include=set(KernelSection.model_fields)))
    inner = data
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    try:
        section = KernelSection.model_validate(data, strict=False)
    except (ValidationError, V4SimError):
        return None
    changes = {name: getattr(section, name) for name in KernelSection.model_fields}
    return profile.model_copy(update=changes)


def _listed(data: Any) -> Any:
    """Tuples as lists, so that they can be changed."""
    if isinstance(data, dict):
        return {key: _listed(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return [_listed(value) for value in data]
    return data
