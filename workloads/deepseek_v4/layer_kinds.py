"""Kinds of attention layers: window only, CSA or HCA, each with its compression ratio.

CSA compresses overlapping windows and has an indexer, HCA neither. The kind comes from the
configuration's `layer_types` where it has them, else from the ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from simulator.basis.yaml_loader import KeyFaultError

LayerKind = Literal["swa", "csa", "hca"]
LayerType = Literal[
    "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
]
# Names in a Hugging Face configuration.
KIND_OF_TYPE: dict[str, LayerKind] = {
    "sliding_attention": "swa",
    "compressed_sparse_attention": "csa",
    "heavily_compressed_attention": "hca",
}
TYPE_OF_KIND = {kind: name for name, kind in KIND_OF_TYPE.items()}
# Ratios of published models, whose kind nobody needs to be told.
PUBLISHED_RATIOS = (0, 4, 128)
LARGEST_CSA_RATIO = 32
LARGEST_RATIO = 1024


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """Attention of one layer; `ratio` tokens make one compressed entry (0: window only)."""

    kind: LayerKind
    ratio: int

    @property
    def halves(self) -> int:
        """Projections that an entry pools: CSA's windows overlap, with two halves a token."""
        return 2 if self.kind == "csa" else 1

    @property
    def indexed(self) -> bool:
        """Whether an indexer picks the entries that a query reads."""
        return self.kind == "csa"

    @property
    def pool(self) -> str:
        """Name of the pool of compressed entries: by ratio, and by kind where it is not usual.

        `c4` and `c128`; CSA with a ratio of 64 is `csa64`, since 64 alone would say HCA.
        """
        usual = usual_kind(self.ratio) == self.kind
        return f"c{self.ratio}" if usual else f"{self.kind}{self.ratio}"


WINDOW_ONLY = LayerAttention("swa", 0)


def usual_kind(ratio: int) -> LayerKind:
    """Kind that a ratio stands for where the configuration names none."""
    if ratio <= 1:
        return "swa"
    return "csa" if ratio <= LARGEST_CSA_RATIO else "hca"


def layer_attention(ratio: int, layer_type: str | None = None) -> LayerAttention:
    """Attention of a layer of a checked configuration; a ratio of 1 compresses nothing."""
    kind = usual_kind(ratio) if layer_type is None else KIND_OF_TYPE[layer_type]
    return WINDOW_ONLY if kind == "swa" else LayerAttention(kind, ratio)


def check_ratios(ratios: Sequence[int], types: Sequence[str] | None) -> None:
    """Raise KeyFaultError for a ratio out of range, or one that its layer's type cannot have."""
    for layer, ratio in enumerate(ratios):
        if not 0 <= ratio <= LARGEST_RATIO:
            raise KeyFaultError(
                ("compress_ratios", layer),
                f"compress_ratios[{layer}] is {ratio:,}, expected 0 or 1 (window only) or 2 to "
                f"{LARGEST_RATIO:,} tokens an entry",
            )
    for layer, (ratio, name) in enumerate(zip(ratios, types or (), strict=False)):
        if (ratio <= 1) != (KIND_OF_TYPE[name] == "swa"):
            wanted = "0" if KIND_OF_TYPE[name] == "swa" else "2 or more"
            raise KeyFaultError(
                ("layer_types", layer),
                f"layer_types[{layer}] is {name!r} but compress_ratios[{layer}] is {ratio}, "
                f"expected a ratio of {wanted}",
            )


def ratios_of_types(types: Any, rates: Any, known: Any) -> list[int] | None:
    """Compression ratios by layer from `layer_types` and `compress_rates`; None without both.

    `known` are the `compress_ratios` that the same file gives, if any. Raises KeyFaultError where
    the three contradict each other; what has another form is left to the schema.
    """
    if not isinstance(rates, Mapping) or not isinstance(types, list | tuple):
        return None
    for name, rate in rates.items():
        whole = isinstance(rate, int) and not isinstance(rate, bool)
        if name not in KIND_OF_TYPE or not whole:
            raise KeyFaultError(
                ("compress_rates", str(name)),
                f"compress_rates has {name!r}: {rate!r}, expected tokens an entry by layer type: "
                f"{', '.join(KIND_OF_TYPE)}",
            )
    found = []
    for layer, name in enumerate(types):
        if not isinstance(name, str):
            return None
        if KIND_OF_TYPE.get(name) == "swa":
            found.append(0)
        elif name in rates:
            found.append(rates[name])
        else:
            raise KeyFaultError(
                ("layer_types", layer),
                f"layer_types[{layer}] is {name!r}, which has no rate in compress_rates "
                f"({', '.join(map(str, rates)) or 'empty'})",
            )
    if isinstance(known, list | tuple) and list(known[: len(found)]) != found:
        layer = next(
            (i for i, pair in enumerate(zip(known, found, strict=False)) if pair[0] != pair[1]),
            len(known),
        )
        raise KeyFaultError(
            ("compress_ratios",),
            f"compress_ratios contradicts layer_types and compress_rates at layer {layer}, where "
            f"these give {found[layer]}; leave one of the two out",
        )
    return found
