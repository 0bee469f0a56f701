"""A kernel section: how the kernels of an engine cover the graph, and how each is priced.

Versions of an engine that differ only in how they store the cache share one section.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.data_files import find_data_file, list_data_names
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml

_SECTIONS = Path(__file__).parent / "profiles" / "kernels"

Positive = Annotated[int, Field(gt=0)]
Sizes = Annotated[tuple[Positive, ...], Field(min_length=1)]
Name = Annotated[str, Field(min_length=1)]
Program = Literal[
    "tile",
    "attention",
    "gemm",
    "moe",
    "mhc_pre",
    "mhc_post",
    "elementwise",
    "all_reduce",
    "gather_scatter",
    "exchange",
]


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

    @model_validator(mode="after")
    def _check(self) -> Self:
        smallest = min(self.rows) * min(self.columns)
        if self.largest_area < smallest:
            raise KeyFaultError(
                ("largest_area",),
                f"largest_area is {self.largest_area}, expected at least the {smallest} of the "
                "smallest tile",
            )
        return self


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


class FamilyRule(StrictModel):
    """Which calibrated family prices a kernel; the first rule that fits counts.

    `math`: only kernels whose products are of one of these classes; `cores`: only chips of these
    core architectures. `borrowed`: fitted on another engine's kernel of the same kind.
    """

    family: Name
    math: tuple[str, ...] | None = None
    cores: tuple[str, ...] | None = None
    borrowed: bool = False

    def fits(self, math: Iterable[str], cores: str) -> bool:
        """Whether the rule holds for products of some math classes on a core architecture."""
        classes = set(math)
        if self.math is not None and not (classes and classes <= set(self.math)):
            return False
        return self.cores is None or cores in self.cores


class AttentionDecisions(StrictModel):
    """What an engine decides about its attention modules.

    `family` has the module's own constants; the other families are those of its GEMMs, index
    logits and top-k. `prefill_kernels`: small kernels that prepare the lists of ids of a prefill.
    `short_rows`: what prefill leaves out where no row has more entries than the indexer selects:
    all kernels of its queries, their scores and top-k, or none. `regroup_launches`: launches around
    the first half of the output projection where several groups of heads and several tokens are
    permuted into a batched GEMM and back. By core architecture: `fp8_output_group` (the first half
    of the output projection runs in FP8), `head_tile` (heads that one tile of the core holds; fewer
    are padded), `gather_above_tokens` (more tokens are attended over keys gathered in BF16).
    """

    family: Name
    fp8_gemm: Name
    index_logits: Name
    top_k_decode: Name
    top_k_prefill: Name
    prefill_kernels: Annotated[int, Field(ge=0)]
    short_rows: Literal["all", "scores", "none"]
    regroup_launches: Annotated[int, Field(ge=0)]
    fp8_output_group: tuple[str, ...]
    head_tile: dict[str, Positive]
    gather_above_tokens: dict[str, Positive]

    @property
    def families(self) -> tuple[str, ...]:
        """Families whose constants the module uses besides its own."""
        found = ("gemm_bf16", self.fp8_gemm, self.index_logits)
        return tuple(dict.fromkeys((*found, self.top_k_decode, self.top_k_prefill)))


class FusedKernel(StrictModel):
    """A kernel by name: the nodes that it fuses, by their path without the layer.

    `about` says in a few plain words what it does. `program` names how it is priced: by the tile
    model, or by a form of the calibrated `families`; `part` is a kernel of the attention module.
    Kernels of one `stream` run one after the other, those of different streams side by side, up to
    `stream_tokens` tokens a step; a step of more runs all on stream 0. A kernel of a later `stage`
    waits for all of the stage before. One without nodes occurs right before the kernel `before`.
    `math` is the class that the engine multiplies in, where it is not the model's.
    """

    name: Name
    about: str = ""
    family: Name
    program: Program = "tile"
    part: str | None = None
    families: tuple[FamilyRule, ...] = ()
    nodes: tuple[str, ...] = ()
    before: str | None = None
    math: str | None = None
    stream: Annotated[int, Field(ge=0)] = 0
    stream_tokens: Positive | None = None
    stage: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.nodes) == (self.before is not None):
            raise KeyFaultError(
                ("nodes",), f"kernel {self.name!r} has to have either 'nodes' or 'before'"
            )
        if (self.program == "attention") != (self.part is not None):
            raise KeyFaultError(
                ("part",),
                f"kernel {self.name!r} has program {self.program!r} and part {self.part!r}; "
                "expected a part for program 'attention' and for no other",
            )
        return self

    def runs_beside(self, tokens: int, *, decode: bool) -> bool:
        """Whether a step of so many tokens puts the kernel on its own stream.

        Assumes: kernels of an attention module run on side streams in decode steps only.
        """
        few = self.stream_tokens is None or tokens <= self.stream_tokens
        return few and (decode or self.program != "attention")


class KernelSection(StrictModel):
    """Kernels of an engine, and the tiles of those that the tile model prices.

    `measured_as`: the engine in tables of measured kernels whose kernels these are.
    """

    measured_as: Literal["sglang", "trtllm", "vllm"] | None = None
    matrix_tiles: MatrixTiles
    attention_tiles: AttentionTiles
    elementwise_tiles: ElementwiseTiles
    attention: AttentionDecisions | None = None
    kernels: Annotated[tuple[FusedKernel, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_kernels(self) -> Self:
        _refuse_repeated("kernel", (kernel.name for kernel in self.kernels))
        _refuse_repeated("node", (node for kernel in self.kernels for node in kernel.nodes))
        names = {kernel.name for kernel in self.kernels}
        for kernel in self.kernels:
            if kernel.before is not None and kernel.before not in names:
                raise KeyFaultError(
                    ("kernels",),
                    f"kernel {kernel.name!r} is before {kernel.before!r}, which is none",
                )
            if kernel.program == "attention" and self.attention is None:
                raise KeyFaultError(
                    ("kernels",), f"kernel {kernel.name!r} needs the decisions in 'attention'"
                )
        return self

    def kernel_of_node(self) -> dict[str, FusedKernel]:
        """The kernel of every node, by the node's path without the layer."""
        return {node: kernel for kernel in self.kernels for node in kernel.nodes}

    def attention_kernels(self) -> Mapping[str, FusedKernel]:
        """Kernels of the attention module by their part, in order."""
        return {kernel.part: kernel for kernel in self.kernels if kernel.part is not None}


def _refuse_repeated(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise KeyFaultError(("kernels",), f"{what} {name!r} is listed twice, expected once")
        seen.add(name)


def list_sections() -> list[str]:
    """Names of the kernel sections that ship with the package."""
    return list_data_names(_SECTIONS)


def find_section(name_or_path: str | Path) -> KernelSection:
    """Kernel section by name (`vllm`) or by path to a YAML file of the same form."""
    path = find_data_file("kernel section", name_or_path, _SECTIONS)
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _load(path: Path, _changed_ns: int) -> KernelSection:
    return load_yaml(path, KernelSection)
