"""An engine profile: how an engine fuses the graph's nodes into kernels, as a YAML file.

`find_profile("ideal")` reads one that ships here; a path to a YAML file of the same form works.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from simulator.basis.data_files import find_data_file, list_data_names
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml

_PROFILES = Path(__file__).parent / "profiles"

Positive = Annotated[int, Field(gt=0)]
Sizes = Annotated[tuple[Positive, ...], Field(min_length=1)]


class MatrixTiles(StrictModel):
    """Output tiles of matrix products: sizes to choose from, `depth` values a step of the loop.

    A tile covers at most `largest_area` outputs; the depth is cut in at most `largest_split` parts.
    `cluster` tiles a side share what they fetch.
    """

    rows: Sizes
    columns: Sizes
    largest_area: Positive
    depth: Positive
    largest_split: Positive
    cluster: Positive


class AttentionTiles(StrictModel):
    """Blocks of attention and of index scores: `heads` of a query, `keys` a step of the loop.

    Heads are padded to `head_multiple`. Where all queries see the same entries in order,
    `scan_queries` of them share one fetch.
    """

    heads: Positive
    head_multiple: Positive
    keys: Positive
    scan_queries: Positive
    largest_split: Positive


class ElementwiseTiles(StrictModel):
    """One block of a kernel without matrix products: at most so many operations and bytes."""

    operations: Positive
    bytes: Positive


class FusedKernel(StrictModel):
    """A kernel by name: the nodes that it fuses, by their path without the layer.

    `about` says in a few plain words what it does. Kernels of one `stream` run one after the
    other, those of different streams side by side.
    """

    name: Annotated[str, Field(min_length=1)]
    about: str = ""
    family: Annotated[str, Field(min_length=1)]
    nodes: Annotated[tuple[str, ...], Field(min_length=1)]
    stream: Annotated[int, Field(ge=0)] = 0


class EngineProfile(StrictModel):
    """One engine, at one version."""

    name: Annotated[str, Field(min_length=1)]
    version: str
    note: str | None = None
    matrix_tiles: MatrixTiles
    attention_tiles: AttentionTiles
    elementwise_tiles: ElementwiseTiles
    kernels: Annotated[tuple[FusedKernel, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        _refuse_repeated("kernel", (kernel.name for kernel in self.kernels))
        _refuse_repeated("node", (node for kernel in self.kernels for node in kernel.nodes))
        return self

    def kernel_of_node(self) -> dict[str, FusedKernel]:
        """The kernel of every node, by the node's path without the layer."""
        return {node: kernel for kernel in self.kernels for node in kernel.nodes}


def _refuse_repeated(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise KeyFaultError(("kernels",), f"{what} {name!r} is listed twice, expected once")
        seen.add(name)


def list_profiles() -> list[str]:
    """Names of the engine profiles that ship with the package."""
    return list_data_names(_PROFILES)


def find_profile(name_or_path: str | Path) -> EngineProfile:
    """Engine profile by name (`ideal`) or by path to a YAML file of the same form."""
    path = find_data_file("engine", name_or_path, _PROFILES)
    return _load(path, path.resolve(), path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _load(path: Path, _resolved: Path, _changed_ns: int) -> EngineProfile:
    """Profile of a file that has not changed since; errors name the path as the user gave it."""
    return load_yaml(path, EngineProfile)
