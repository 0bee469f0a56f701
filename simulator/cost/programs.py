"""Programs that price an engine's kernels with the forms and constants of the calibrated families.

Each takes a kernel's demand and its machine, and gives the calls of families that the kernel
consists of; None says that no family covers the kernel there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError
from simulator.cost.collectives import all_reduce, exchange, gather_scatter, peer_links
from simulator.cost.family_call import (
    Borrowable,
    Columns,
    FamilyCall,
    borrowable,
    constants_of,
    kernel_of,
)
from simulator.cost.price import Target
from simulator.engine.kernel import Demand, Product
from simulator.engine.kernel_section import CoreRule, FusedKernel
from simulator.engine.sizes import Row, row
from simulator.kernels import sparse_core
from simulator.kernels.architecture import core_architecture
from simulator.kernels.elementwise import elementwise_parts
from simulator.kernels.family import Family
from simulator.kernels.gemm import GemmFamily
from simulator.kernels.moe import MEGA, WEIGHT_ONLY, DeepGemmMoe, TritonMoe
from simulator.kernels.moe_gemm import QUEUE_SHARPNESS
from simulator.kernels.moe_layer import MoeFamily
from simulator.kernels.nccl import MICRO, NcclAllToAll
from simulator.kernels.parts import Parts
from simulator.kernels.registry import find_family

BF16_BYTES = 2
_CORE_FORMS = {
    "dealt": sparse_core.dealt,
    "two_lists": sparse_core.two_lists,
    "waves": sparse_core.waves,
    "gathered": sparse_core.gathered,
}


def gemm(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """Products of one kernel, one after the other, each with its quantise kernel.

    Products of the same activations are one GEMM, their columns side by side; so are the groups of
    one with a matrix a group.

    Assumes: weights are cold, as a layer's are in a model of many layers.
    Assumes: a chip without units for the format of weights keeps them in BF16.
    """
    kernel, found = kernel_of(demand, target), []
    for product in _joined(demand.products):
        math = kernel.math_on.get(core_architecture(target.chip), product.math)
        constants = constants_of(demand, target, (math,))
        if constants is None:
            return None
        family = _family(constants.family, GemmFamily)
        if target.chip.matrix_flops_per_s(family.kernel.format.matrix_dtype) is None:
            math, constants = "bf16", constants_of(demand, target, ("bf16",))
            if constants is None:
                return None
            family = _family(constants.family, GemmFamily)
        found.append(FamilyCall(family.parts, constants, gemm_row(product, math, kernel)))
    return found


def gemm_row(product: Product, math: str, kernel: FusedKernel) -> Row:
    """Sizes of a GEMM in a math class, which may be another than its weights are stored for."""
    columns = product.count * product.columns
    nbytes = product.weight_bytes
    if math != product.math:
        nbytes = columns * product.depth * BF16_BYTES
    return row(
        rows=product.rows,
        columns=columns,
        depth=product.depth,
        macs=product.macs,
        weight_bytes=nbytes,
        quantised=float(kernel.quantised),
        warm=0.0,
        replayed=0.0,
    )


def _joined(products: tuple[Product, ...]) -> list[Product]:
    """Products of the same activations and format as one, in the order of the first."""
    joined: dict[object, Product] = {}
    for own in products:
        key = (own.operand, own.math, own.rows, own.depth, own.count)
        first = joined.get(key)
        joined[key] = (
            own
            if first is None
            else replace(
                first,
                columns=first.columns + own.columns,
                macs=first.macs + own.macs,
                weight_bytes=first.weight_bytes + own.weight_bytes,
            )
        )
    return list(joined.values())


def moe(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """A fused layer of picked experts.

    Assumes: a rank's experts get the rows of an even share of all choices; within them each token
        picks uniformly.
    Assumes: with expert groups a rank quantises its own tokens before they are sent.
    """
    math = tuple(p.math for p in demand.products)
    constants = constants_of(demand, target, math)
    if constants is None:
        return None
    family = _family(constants.family, MoeFamily)  # type: ignore[type-abstract]
    if isinstance(family, TritonMoe) and set(math) == {"fp8xfp4"}:
        return [
            FamilyCall(
                WEIGHT_ONLY.parts, constants, (*sizes, ("distribution", "uniform")), derived=True
            )
            for sizes in _rows(demand)
        ]
    if target.chip.matrix_flops_per_s(family.operands.matrix_type) is None:
        return None
    return [
        FamilyCall(family.parts, constants, (*sizes, ("distribution", "uniform")))
        for sizes in _rows(demand)
    ]


@dataclass(frozen=True, slots=True)
class FusedMoeForm:
    """Experts with the exchange around them in one kernel, in waves of experts.

    Waves of communication run beside those of computation, on the same cores: where one is far
    longer than the other the kernel takes its time, where both are alike 19 % more.

    Assumes: rows cross once for each (token, expert), both ways, written straight into the peers'
        memory at the share of link bandwidth of an all-to-all; ranks signal each other three
        times (how much comes, that it is there, that results are), each as long as an all-to-all
        takes to start.
    Source: DeepGEMM pull 316 (bytes that its table counts).
    """

    family: MoeFamily
    link_share: float
    signal_s: float

    def __call__(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause of calls in columns."""
        parts = self.family.parts(calls, chip, constants)
        seconds = {
            name: np.asarray(value, dtype=np.float64) for name, value in parts.seconds.items()
        }
        launch = np.full_like(seconds.pop("launch"), chip.launch_gap_s)
        sent, more, near, far, latency = (
            np.asarray(calls[name], dtype=np.float64) for name in _FUSED_COLUMNS
        )
        sent = sent * more
        link = np.maximum(sent / near, sent * far) / self.link_share
        work = np.sum(list(seconds.values()), axis=0)
        longer = np.maximum(work, link)
        both = longer * (1 + (np.minimum(work, link) / longer) ** QUEUE_SHARPNESS) ** (
            1 / QUEUE_SHARPNESS
        )
        own = np.where(work >= link, 1.0, (both - link) / np.maximum(work, 1e-12))
        found = {name: value * own for name, value in seconds.items()}
        found["communication"] = np.where(work >= link, both - work, link)
        found["serial"] = found.get("serial", 0.0) + 3 * (latency + self.signal_s)
        return Parts({"launch": launch, **found}, work=parts.work)


_FUSED_COLUMNS = (
    "message_bytes",
    "by_expert",
    "near_bytes_per_s",
    "far_s_per_byte",
    "latency_s",
)


def fused_moe(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """A layer of experts and the exchange around it as one kernel."""
    constants = borrowable(DeepGemmMoe.name, target.chip, borrowed=True)
    wire = borrowable(NcclAllToAll.name, target.chip).values
    near, far, latency = peer_links(demand, target)
    links = row(near_bytes_per_s=near, far_s_per_byte=far, latency_s=latency)
    form = FusedMoeForm(MEGA, wire["link_share"], wire["start_us"] * MICRO)
    return [
        FamilyCall(form, constants, (*sizes, *links, ("distribution", "uniform")), derived=True)
        for sizes in _rows(demand)
    ]


def by_family(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """A kernel whose family reads the sizes of its node as they are."""
    found = []
    for sizes in _rows(demand):
        math = dict(sizes).get("math")
        constants = constants_of(demand, target, (math,) if math else ())
        if constants is None:
            return None
        found.append(FamilyCall(find_family(constants.family).parts, constants, sizes))
    return found


@dataclass(frozen=True, slots=True)
class CoreForm:
    """Attention itself in the form of an engine's rule."""

    form: str
    rule: CoreRule
    math: str

    def __call__(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause of calls in columns."""
        return _CORE_FORMS[self.form](calls, chip, constants, self.rule, self.math)

    def __hash__(self) -> int:
        return hash((self.form, self.math, id(self.rule)))


def core(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """Sparse attention; more tokens than an engine's limit attend over keys gathered before."""
    rule = kernel_of(demand, target).core
    assert rule is not None
    (math,) = {product.math for product in demand.products}
    (sizes,) = _rows(demand)
    constants = constants_of(demand, target, (dict(sizes)["stored"],))
    if constants is None:
        return None
    most = rule.gather_above_tokens.get(core_architecture(target.chip))
    named = dict(sizes)
    if most is None or named["requests"] * named["new"] <= most:
        return [FamilyCall(CoreForm(rule.form, rule, math), constants, sizes)]
    return [
        FamilyCall(sparse_core.gathering, _of_module(target), sizes),
        FamilyCall(CoreForm("gathered", rule, math), constants, sizes),
    ]


def _of_module(target: Target) -> Borrowable:
    """Constants of the engine's elementwise kernels."""
    assert target.profile.module is not None
    return borrowable(target.profile.module, target.chip)


def elementwise(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """A launch, and the bytes that cross the kernel's border at the rate of elementwise kernels."""
    constants = constants_of(demand, target)
    if constants is None:
        return None
    sizes = row(moved_bytes=demand.moved_bytes, operations=demand.vector_ops + demand.special_ops)
    return [FamilyCall(_moved, constants, sizes)]


def pad(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """A copy of the queries into more heads."""
    constants = constants_of(demand, target)
    if constants is None:
        return None
    return [FamilyCall(_moved, constants, sizes) for sizes in _rows(demand)]


def _moved(calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
    moved, operations = (
        np.asarray(calls[name], dtype=np.float64) for name in ("moved_bytes", "operations")
    )
    return elementwise_parts(moved, operations, chip, constants["move"])


def launch(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """Plain launches, and the fixed part of the module where its family is named.

    Assumes: what launches around permutes move stays in cache and costs little beside them.
    """
    found = constants_of(demand, target)
    form = _plain_launches if found is None else _fixed_launches
    constants = found or _of_module(target)
    return [FamilyCall(form, constants, sizes) for sizes in _rows(demand)]


def _plain_launches(calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
    return Parts({"launch": np.asarray(calls["launches"], dtype=np.float64) * chip.launch_gap_s})


def _fixed_launches(calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
    more = np.asarray(calls["launches"], dtype=np.float64) * chip.launch_gap_s
    return Parts({"launch": constants["fixed"] + more})


def _rows(demand: Demand) -> tuple[Row, ...]:
    assert demand.priced_as is not None
    return demand.priced_as.rows


F = TypeVar("F", bound=Family)


def _family(name: str, kind: type[F]) -> F:
    """Family of the kind that a program needs."""
    family = find_family(name)
    if not isinstance(family, kind):
        raise InputError(f"kernel family {name!r} cannot price this kernel: not a {kind.__name__}")
    return family


def tile(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """None: tiles price the kernel, with the rates that its family's constants say."""
    return None


# Calls of families that a kernel consists of; None where no family covers it.
CallRule = Callable[[Demand, Target], list[FamilyCall] | None]
PROGRAMS: dict[str, CallRule] = {
    "tile": tile,
    "gemm": gemm,
    "moe": moe,
    "mhc_pre": by_family,
    "mhc_post": by_family,
    "index_logits": by_family,
    "top_k": by_family,
    "core": core,
    "elementwise": elementwise,
    "pad": pad,
    "launch": launch,
    "all_reduce": all_reduce,
    "gather_scatter": gather_scatter,
    "exchange": exchange,
    "fused_moe": fused_moe,
}


def program_calls(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """Calls of an engine's kernel; None where the tile model prices it."""
    if demand.priced_as is None:
        return None
    return PROGRAMS[demand.priced_as.program](demand, target)
