"""An engine profile: how an engine turns the graph's nodes into kernels, as a YAML file.

`find_profile("ideal")` reads one that ships here; a path to a YAML file of the same form works.
`kernels` is a list, or the name of a kernel section that several versions share. `layout` says how
the cache is stored, or names the profile whose layout it shares; left out, it is that of `ideal`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.basis.data_files import (
    find_data_file,
    is_path,
    list_data_names,
    named_after,
    path_beside,
)
from simulator.basis.errors import InputError
from simulator.basis.yaml_loader import StrictModel, compose_yaml, validate_data
from simulator.engine.cache_layout import CacheLayout
from simulator.engine.cited import Cited
from simulator.engine.kernel_section import (
    AttentionTiles,
    ElementwiseTiles,
    FusedKernel,
    KernelSection,
    MatrixTiles,
    find_section,
)
from simulator.engine.serving_section import Batching, HostSection

__all__ = [
    "AttentionTiles",
    "ElementwiseTiles",
    "EngineProfile",
    "FusedKernel",
    "MatrixTiles",
    "find_profile",
    "layout_of",
    "list_profiles",
    "on_cores",
]

DEFAULT_LAYOUT = "ideal"
_PROFILES = Path(__file__).parent / "profiles"


class DraftRule(StrictModel):
    """What an engine does with draft heads of whole blocks (DSpark).

    `beyond_block`: it drafts more tokens than the model's block has.
    """

    beyond_block: bool
    source: Annotated[str, Field(min_length=1)]


class ExpertRule(Cited):
    """What an engine does with FP4 experts on chips that multiply no FP4.

    `kept`: they stay as the checkpoint has them and are turned in the kernel; else they are
    repacked to FP8.
    """

    kept: bool


class TableRule(Cited):
    """How a fresh allocator hands out pages and request rows, in ascending order.

    `reserved_pages` and `reserved_rows` are never given to a request (a null block, rows of padded
    batches). `freed`: what a page table says where a page was returned. `least_compressed`: kernels
    are told at least so many compressed entries, with an id of -1 for one that is not there.
    """

    reserved_pages: Annotated[int, Field(ge=0)] = 0
    reserved_rows: Annotated[int, Field(ge=0)] = 0
    freed: int = -1
    least_compressed: Annotated[int, Field(ge=0)] = 0


NO_TABLES = TableRule(guess="nothing is set aside: the engine's own tables were not read")


class EngineProfile(KernelSection):
    """One engine, at one version; `architecture` of the chip that it runs on, where that counts."""

    def __hash__(self) -> int:
        return id(self)

    name: Annotated[str, Field(min_length=1)]
    version: str
    note: str | None = None
    layout: CacheLayout | str = DEFAULT_LAYOUT
    drafts: DraftRule | None = None
    experts: ExpertRule | None = None
    tables: TableRule = NO_TABLES
    batching: Batching | None = None
    host: HostSection | None = None
    architecture: str = ""

    @property
    def measured_name(self) -> str:
        """Engine and version as tables of measured kernels name them; `name` is the user's word."""
        return f"{self.measured_as or 'own'}-{self.version}"


class _SharedKernels(StrictModel):
    """Form of a profile whose kernels are in a section of their own, but for a few more."""

    name: Annotated[str, Field(min_length=1)]
    version: str
    note: str | None = None
    layout: CacheLayout | str = DEFAULT_LAYOUT
    drafts: DraftRule | None = None
    experts: ExpertRule | None = None
    tables: TableRule = NO_TABLES
    batching: Batching | None = None
    host: HostSection | None = None
    kernels: Annotated[str, Field(min_length=1)]
    more_kernels: tuple[FusedKernel, ...] = ()


def list_profiles() -> list[str]:
    """Names of the engine profiles that ship with the package."""
    return list_data_names(_PROFILES)


def find_profile(name_or_path: str | Path, page_tokens: int | None = None) -> EngineProfile:
    """Engine profile by name (`ideal`) or by path to a YAML file of the same form.

    The name of a file's profile tells the file; kernels and a layout that it names by a relative
    path are found beside it. `page_tokens` stands in for the engine's own logical page.
    """
    path = find_data_file("engine", name_or_path, _PROFILES)
    found = _load(path, path.resolve(), path.stat().st_mtime_ns, is_path(name_or_path))
    return found if page_tokens is None else _paged(found, page_tokens)


@lru_cache(maxsize=64)
def on_cores(profile: EngineProfile, architecture: str) -> EngineProfile:
    """The profile as it runs on chips of an architecture, where kernels ask for one."""
    if not any(architecture in kernel.fp8_as for kernel in profile.kernels):
        return profile
    return profile.model_copy(update={"architecture": architecture})


@lru_cache(maxsize=64)
def _paged(profile: EngineProfile, page_tokens: int) -> EngineProfile:
    """The profile with pages of so many tokens.

    Pools that keep the context take the size itself; pages of the window and of compressor rows
    keep their proportion to the logical page, and hold a row at least. Where a hit is a number of
    pages (`hit_scales`), it grows with them, and so do pools of one page a hit. Whether a page
    holds whole entries depends on the model: `check_pages`.
    """
    if page_tokens < 1:
        raise InputError(f"--page-tokens is {page_tokens:,}, expected at least 1 token")
    layout = layout_of(profile)
    if page_tokens == layout.page_tokens:
        return profile
    pages = layout.hit_tokens // layout.page_tokens
    pools = {}
    for name, rule in layout.pools.items():
        own = rule.page_tokens
        if own is not None:
            scaled = max(1, own * page_tokens // layout.page_tokens)
            own = page_tokens if rule.lives == "context" else scaled
            if layout.hit_scales and rule.page_tokens == layout.hit_tokens:
                own = page_tokens * pages
        pools[name] = rule.model_copy(update={"page_tokens": own})
    changes = {
        "page_tokens": page_tokens,
        "hit_tokens": page_tokens * pages
        if layout.hit_scales
        else math.lcm(page_tokens, layout.hit_tokens),
        "pools": pools,
    }
    return profile.model_copy(update={"layout": layout.model_copy(update=changes)})


def layout_of(profile: EngineProfile) -> CacheLayout:
    """The profile's layout, or that of the profile which it names."""
    if isinstance(profile.layout, CacheLayout):
        return profile.layout
    named = find_profile(profile.layout).layout
    if isinstance(named, str):
        raise InputError(
            f"layout of engine {profile.name!r} is that of {profile.layout!r}, which has none of "
            f"its own but names {named!r}; name that one"
        )
    return named


@lru_cache(maxsize=16)
def _load(path: Path, _resolved: Path, _changed_ns: int, own: bool) -> EngineProfile:
    """Profile of a file that has not changed since; errors name the path as the user gave it."""
    profile = _read(path)
    if not own:
        return profile
    changes: dict[str, object] = {"name": named_after(profile.name, path)}
    if isinstance(profile.layout, str):
        changes["layout"] = path_beside(path, profile.layout)
    return profile.model_copy(update=changes)


def _read(path: Path) -> EngineProfile:
    data, lines = compose_yaml(path)
    if not isinstance(data.get("kernels"), str):
        return validate_data(data, lines, EngineProfile)
    own = validate_data(data, lines, _SharedKernels)
    try:
        section = find_section(path_beside(path, own.kernels))
    except InputError as error:
        raise InputError(f"{path}:{lines(('kernels',))}: {error.message}") from None
    shared = {name: getattr(section, name) for name in KernelSection.model_fields}
    shared["kernels"] = (*section.kernels, *own.more_kernels)
    apart = ("kernels", "more_kernels")
    kept = {name: getattr(own, name) for name in _SharedKernels.model_fields if name not in apart}
    return EngineProfile(**kept, **shared)
