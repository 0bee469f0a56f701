"""Which parallel layouts a model allows: heads, experts and quantisation blocks must divide.

A quantised weight may only be cut between blocks that share a scale. Where the unsharded extent
is no multiple of the block either (toy models), the last block is partial anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.basis.errors import UnsupportedError
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.parallel import ParallelLayout
from workloads.sharding import TENSOR_AXES
from workloads.step_shape import StepShape
from workloads.tensor_type import Axis, TensorType

_LARGEST_DEGREE = 1024


def check_layout(config: ModelConfig, precision: Precision, layout: ParallelLayout) -> None:
    """Raise `UnsupportedError` when the layout cannot cut the model's weights.

    The message names the tensor, the numbers and the nearest degree that works.
    """
    params = distinct_parameters(config, precision)
    fault = next(_faults(params, layout), None)
    if fault is None:
        return
    axis, sentence = fault
    raise UnsupportedError(
        f"{config.name} at {layout}: {sentence}; {_advice(params, layout, axis)}"
    )


def fits_layout(params: dict[str, TensorType], layout: ParallelLayout) -> bool:
    """Whether the layout cuts all of these parameters evenly and between scales."""
    return next(_faults(params, layout), None) is None


def reduced_config(config: ModelConfig) -> ModelConfig:
    """The model with one layer of every kind: the same layers, cheap to build."""
    first = [config.layers.index(kind) for kind in dict.fromkeys(config.layers)]
    return config.cut(first, num_hash_layers=min(config.num_hash_layers, 1))


def distinct_parameters(config: ModelConfig, precision: Precision) -> dict[str, TensorType]:
    """Parameters by their name without the layer, unsharded."""
    graph = build_graph(reduced_config(config), StepShape.uniform(1, 1, 0), precision)
    return {name.partition("/")[2]: t for name, t in graph.params.items()}


def _faults(params: dict[str, TensorType], layout: ParallelLayout) -> Iterator[tuple[str, str]]:
    """(axis, sentence) of every parameter that the layout cannot cut; heads come first."""
    divisors = {axis: parts for axis, parts in layout.divisors().items() if parts > 1}
    for name, param in sorted(params.items(), key=lambda item: not item[1].has("heads")):
        for axis, size in param.axes:
            parts = divisors.get(axis, 1)
            if size % parts:
                yield axis, f"{parts} ranks do not divide the {size} {axis} of {name!r}"
            elif parts > 1:
                sentence = _block_fault(name, param, axis, parts)
                if sentence:
                    yield axis, sentence


def _block_fault(name: str, param: TensorType, axis: str, parts: int) -> str | None:
    """Sentence when a cut along `axis` falls inside a block that shares a scale."""
    if param.dtype.block is None:
        return None
    sides = (("rows", param.row_axes), ("columns", param.column_axes))
    for (side, axes), block in zip(sides, param.dtype.block, strict=True):
        whole = _contiguous(axes, axis)
        if whole is None or whole % block == 0 == whole // parts % block or whole % block:
            continue
        return (
            f"{axis} of {name!r} leaves {whole // parts} of {whole} {side} a rank, no multiple of "
            f"the {block} that share one {param.dtype.name} scale"
        )
    return None


def _contiguous(axes: tuple[Axis, ...], axis: str) -> int | None:
    """Rows or columns that one step along `axis` and the axes after it span; None if absent."""
    names = [name for name, _ in axes]
    if axis not in names:
        return None
    extent = 1
    for _, size in axes[names.index(axis) :]:
        extent *= size
    return extent


def _advice(params: dict[str, TensorType], layout: ParallelLayout, axis: str) -> str:
    """Nearest degree that works, of the kind of parallelism that cuts the axis."""
    if axis in TENSOR_AXES:
        what, given, candidates = "tensor", layout.tensor, list(_tensor_layouts(layout))
    else:
        what, given, candidates = "expert", layout.expert, list(_expert_layouts(layout))
    working = [degree for degree, other in candidates if fits_layout(params, other)]
    if not working:
        return _other_layout(params, layout)
    nearest = min(working, key=lambda degree: (abs(degree - given), degree))
    sentence = f"nearest {what}-parallel degree that works: {nearest}"
    if what == "tensor" and nearest != given:
        # So many ranks are not as many chips.
        sentence += f"; {_other_layout(params, layout)}"
    return sentence


def _other_layout(params: dict[str, TensorType], layout: ParallelLayout) -> str:
    """A layout of as many ranks that works, or of the next fewer that have one."""
    ranks = layout.ranks
    other = _largest_layout(params, ranks)
    if other.ranks == ranks:
        return f"with {ranks} chips {other} works"
    return f"no layout of {ranks} chips works, of {other.ranks} {other} does"


def working_layout(
    config: ModelConfig, precision: Precision, asked: ParallelLayout, *, is_default: bool
) -> ParallelLayout:
    """The layout asked for, where it cuts the model's weights; else the nearest that does.

    Other groups of experts are tried first; then, where nobody asked for these degrees
    (`is_default`), the most ranks that work, with the most tensor ranks. Raises `UnsupportedError`
    as `check_layout`.
    """
    params = distinct_parameters(config, precision)
    if fits_layout(params, asked):
        return asked
    grouped = [layout for _, layout in _expert_layouts(asked) if fits_layout(params, layout)]
    if grouped:
        return grouped[-1]
    if is_default:
        return _largest_layout(params, asked.ranks)
    check_layout(config, precision, asked)
    return asked


def _largest_layout(params: dict[str, TensorType], ranks: int) -> ParallelLayout:
    """A layout of as many ranks as work, up to `ranks`; one rank always does."""
    found = (_layout_of(params, count) for count in range(ranks, 0, -1))
    return next(layout for layout in found if layout is not None)


def _layout_of(params: dict[str, TensorType], ranks: int) -> ParallelLayout | None:
    """The layout of `ranks` with the most tensor ranks, then the most groups of experts, if any."""
    degrees = [degree for degree in range(ranks, 0, -1) if ranks % degree == 0]
    for tensor in degrees:
        for expert in degrees:
            layout = ParallelLayout(tensor, ranks // tensor, expert)
            if fits_layout(params, layout):
                return layout
    return None


def _tensor_layouts(layout: ParallelLayout) -> Iterator[tuple[int, ParallelLayout]]:
    """Other tensor degrees; experts over all ranks stay so."""
    for tensor in range(1, _LARGEST_DEGREE + 1):
        ranks = tensor * layout.data
        expert = ranks if layout.expert == layout.ranks > 1 else layout.expert
        if ranks % expert == 0:
            yield tensor, ParallelLayout(tensor, layout.data, expert)


def _expert_layouts(layout: ParallelLayout) -> Iterator[tuple[int, ParallelLayout]]:
    """Other expert degrees over the same ranks."""
    for expert in range(1, layout.ranks + 1):
        if layout.ranks % expert == 0:
            yield expert, ParallelLayout(layout.tensor, layout.data, expert)
