"""A kernel section: how the kernels of an engine cover the graph, and how each is priced.

Versions of an engine that differ only in how they store the cache share one section.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.basis.data_files import find_data_file, list_data_names
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml
from simulator.engine.phase import Phase

_SECTIONS = Path(__file__).parent / "profiles" / "kernels"

Positive = Annotated[int, Field(gt=0)]
Sizes = Annotated[tuple[Positive, ...], Field(min_length=1)]
Name = Annotated[str, Field(min_length=1)]
Program = Literal[
    "tile",
    "launch",
    "pad",
    "index_logits",
    "top_k",
    "core",
    "gemm",
    "moe",
    "mhc_pre",
    "mhc_post",
    "elementwise",
    "all_reduce",
    "gather_scatter",
    "exchange",
    "fused_moe",
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
    """One step of a core in a kernel without matrix products: at most so many bytes."""

    bytes: Positive


# When an engine launches a kernel that it has: always, or where there is something to do.
When = Literal["always", "long_prefill_rows", "few_heads", "several_groups"]


class FamilyRule(StrictModel):
    """Which calibrated family prices a kernel; the first rule that fits counts.

    `math`: only kernels whose products (of a core: whose rows) are of these classes; `cores`: only
    chips of these core architectures; `decode`: only decode steps, or only others. `borrowed`:
    fitted on another kernel of the same kind, of another engine or in another format.
    """

    family: Name
    math: tuple[str, ...] | None = None
    cores: tuple[str, ...] | None = None
    decode: bool | None = None
    borrowed: bool = False

    def fits(self, math: Iterable[str], cores: str, decode: bool) -> bool:
        """Whether the rule holds for products of some math classes on a core architecture."""
        classes = set(math)
        if self.math is not None and not (classes and classes <= set(self.math)):
            return False
        if self.decode is not None and self.decode != decode:
            return False
        return self.cores is None or cores in self.cores


class CoreRule(StrictModel):
    """How an engine runs sparse attention.

    `form`: `dealt` deals the key blocks of all queries to the cores as FlashMLA's decode kernel
    does; `two_lists` does so in decode and gathers keys before a prefill, as vLLM does; `waves`
    runs a tile of heads a core. By core architecture: `head_tile` (heads that one tile holds; fewer
    are padded), `gather_above_tokens` (more tokens are attended over keys gathered in BF16, by a
    kernel of `gathered_head_tile`).
    """

    form: Literal["dealt", "two_lists", "waves"]
    head_tile: dict[str, Positive]
    gather_above_tokens: dict[str, Positive] = Field(default_factory=dict)
    gathered_head_tile: dict[str, Positive] = Field(default_factory=dict)


class FusedKernel(StrictModel):
    """A kernel by name: the nodes that it fuses, by their path without the layer.

    `about` says in a few plain words what it does. `program` names how it is priced: by the tile
    model, or by a form of the calibrated `families`. Kernels of one `stream` run one after the
    other, those of different streams side by side, up to `stream_tokens` tokens a step; a step of
    more runs all on stream 0. A kernel of a later `stage` waits for all of the stage before; those
    with a stage make up the attention module, which was measured whole. One without nodes occurs
    right before the kernel `before`. `when`: the engine launches it always, or leaves it out of a
    prefill none of whose rows has more entries than the indexer picks (`long_prefill_rows`), where
    heads fill the tile (`few_heads`), or where there is one group of heads or one token
    (`several_groups`). `math` is the class that the engine multiplies in, where it is not the
    model's, and `math_on` that on some cores; `fp8_as` is that
    of what is FP8 in the model, on chips of some architectures. `quantised`: its operand arrives in
    the format.
    `launches` of plain kernels, and `prefill_launches` more in a prefill; `pads_to` so many heads.
    `one_token_stream`: on its stream also where a prefill adds one token a request.
    """

    name: Name
    about: str = ""
    family: Name
    program: Program = "tile"
    families: tuple[FamilyRule, ...] = ()
    nodes: tuple[str, ...] = ()
    before: str | None = None
    when: When = "always"
    math: str | None = None
    math_on: dict[str, str] = Field(default_factory=dict)
    fp8_as: dict[str, str] = Field(default_factory=dict)
    quantised: bool = False
    launches: Annotated[int, Field(ge=0)] = 0
    prefill_launches: Annotated[int, Field(ge=0)] = 0
    pads_to: Positive | None = None
    core: CoreRule | None = None
    stream: Annotated[int, Field(ge=0)] = 0
    stream_tokens: Positive | None = None
    one_token_stream: bool = False
    stage: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.nodes) == (self.before is not None):
            raise KeyFaultError(
                ("nodes",), f"kernel {self.name!r} has to have either 'nodes' or 'before'"
            )
        if (self.program == "core") != (self.core is not None):
            raise KeyFaultError(
                ("core",),
                f"kernel {self.name!r} has program {self.program!r}; the rule 'core' belongs to "
                "program 'core' and to no other",
            )
        if (self.program == "pad") != (self.pads_to is not None):
            raise KeyFaultError(
                ("pads_to",),
                f"kernel {self.name!r} has program {self.program!r}; 'pads_to' belongs to program "
                "'pad' and to no other",
            )
        beside = [name for name in ("stream_tokens", "one_token_stream") if getattr(self, name)]
        if beside and not self.stream:
            raise KeyFaultError(
                (beside[0],),
                f"kernel {self.name!r} has {beside[0]!r} but no 'stream' beside the main one; "
                "give one, or leave it out",
            )
        return self

    def runs_beside(self, tokens: int, phase: Phase) -> bool:
        """Whether a step of so many tokens puts the kernel on its own stream.

        Assumes: kernels of an attention module run on side streams in decode steps only.
        """
        few = self.stream_tokens is None or tokens <= self.stream_tokens
        if not self.stage or phase.decode:
            return few
        return few and phase.single and self.one_token_stream


class KernelSection(StrictModel):
    """Kernels of an engine, and the tiles of those that the tile model prices: matrix products,
    attention, and kernels without products. An engine without the latter two has programs for all.

    `module`: family of the attention modules that were measured whole, whose interval holds for
    each of their kernels.

    `measured_as`: the engine in tables of measured kernels whose kernels these are.
    """

    measured_as: Literal["aiter", "sglang", "trtllm", "vllm"] | None = None
    matrix_tiles: MatrixTiles
    attention_tiles: AttentionTiles | None = None
    elementwise_tiles: ElementwiseTiles | None = None
    module: Name | None = None
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
