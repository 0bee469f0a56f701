"""Programs that price an engine's kernels with the forms and constants of the calibrated families.

Each takes a kernel's demand and its machine; None says that no family covers the kernel there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError
from simulator.cost.collectives import all_reduce, exchange, gather_scatter
from simulator.cost.price import Target
from simulator.cost.priced import Borrowable, Priced, constants_of
from simulator.kernels.attention_calls import calls_of
from simulator.kernels.attention_module import AttentionModule
from simulator.kernels.constants_file import constants_for
from simulator.kernels.elementwise import elementwise_parts
from simulator.kernels.family import Family
from simulator.kernels.gemm import GemmFamily
from simulator.kernels.gemm_time import gemm_parts
from simulator.kernels.moe_layer import MoeFamily
from simulator.kernels.parts import Parts, joined
from simulator.kernels.registry import find_family
from simulator.kernels.remembered import Remembered
from simulator.lower.calls import AttentionCall, ExpertsCall, StreamsCall
from simulator.lower.kernel import Demand
from simulator.lower.kernel_section import AttentionDecisions

_MODULES = Remembered()


def attention(demand: Demand, target: Target) -> Priced | None:
    """One kernel of an attention module, as the module's family has it.

    Assumes: a chip without FP8 units keeps the attention's weights in BF16.
    """
    named, decisions = demand.priced_as, target.profile.attention
    assert named is not None
    assert decisions is not None
    assert isinstance(named.call, AttentionCall)
    stored = constants_for(decisions.family, target.chip)
    fp8 = named.call.fp8 and target.chip.matrix_flops_per_s("fp8") is not None
    call = replace(named.call, fp8=fp8)
    kernels = module_kernels(call, decisions, target.chip, stored.values)
    return Borrowable(decisions.family, stored, False).priced(kernels[str(named.part)])


def module_kernels(
    call: AttentionCall,
    decisions: AttentionDecisions,
    chip: ChipSpec,
    constants: Mapping[str, float],
) -> Mapping[str, Parts]:
    """All kernels of a module by part, worked out once for all of them."""
    family = _family(decisions.family, AttentionModule)  # type: ignore[type-abstract]

    def work_out() -> Mapping[str, Parts]:
        return family.deciding(decisions).kernels(calls_of(call), chip, constants)

    found: Mapping[str, Parts] = _MODULES.get((call, decisions, constants), chip, work_out)
    return found


def gemm(demand: Demand, target: Target) -> Priced | None:
    """Products of one kernel, one after the other, each with its quantise kernel.

    Assumes: weights are cold, as a layer's are in a model of many layers.
    """
    found = []
    for product in demand.products:
        constants = constants_of(demand, target, (product.math,))
        if constants is None:
            return None
        kernel = _family(constants.family, GemmFamily).kernel
        if target.chip.matrix_flops_per_s(kernel.format.matrix_dtype) is None:
            return None
        parts = gemm_parts(
            product.rows,
            product.columns,
            product.depth,
            kernel.dtype,
            target.chip,
            constants.values,
            quantise=kernel.quantises,
            kernel=kernel,
        )
        found.append(constants.priced(parts))
    if not found:
        return None
    return Priced(joined(*(p.parts for p in found)), found[0].interval, found[0].family)


def moe(demand: Demand, target: Target) -> Priced | None:
    """A fused layer of picked experts.

    Assumes: a rank's experts get the rows of an even share of all choices; within them each token
        picks uniformly.
    Assumes: with expert groups a rank quantises its own tokens before they are sent.
    """
    call = demand.priced_as.call if demand.priced_as else None
    assert isinstance(call, ExpertsCall)
    constants = constants_of(demand, target, tuple(p.math for p in demand.products))
    if constants is None:
        return None
    columns = {
        "num_tokens": call.tokens,
        "rank_tokens": call.own_tokens if call.held < call.experts else call.tokens,
        "hidden_size": call.hidden,
        "inter_size": call.inner,
        "topk": call.per_token,
        "num_experts": call.experts,
        "moe_tp_size": 1,
        "moe_ep_size": call.experts // call.held,
        "distribution": "uniform",
    }
    family = _family(constants.family, MoeFamily)  # type: ignore[type-abstract]
    if target.chip.matrix_flops_per_s(family.operands.matrix_type) is None:
        return None
    calls = {name: np.array([value]) for name, value in columns.items()}
    return constants.priced(family.parts(calls, target.chip, constants.values))


def hyper_connection(demand: Demand, target: Target) -> Priced | None:
    """One site of a hyper-connection, before or after its block.

    Assumes: the collapse before the output head takes as long as one before a block.
    """
    call = demand.priced_as.call if demand.priced_as else None
    assert isinstance(call, StreamsCall)
    constants = constants_of(demand, target)
    if constants is None:
        return None
    columns = {
        "num_tokens": call.tokens,
        "hidden_size": call.hidden,
        "hc_mult": call.streams,
        "num_sites": 1,
    }
    calls = {name: np.array([float(value)]) for name, value in columns.items()}
    family = find_family(constants.family)
    return constants.priced(family.parts(calls, target.chip, constants.values))


def elementwise(demand: Demand, target: Target) -> Priced | None:
    """A launch, and the bytes that cross the kernel's border at the rate of elementwise kernels."""
    constants = constants_of(demand, target)
    if constants is None:
        return None
    moved = np.array([float(demand.moved_bytes)])
    return constants.priced(elementwise_parts(moved, target.chip, constants.values["move"]))


F = TypeVar("F", bound=Family)


def _family(name: str, kind: type[F]) -> F:
    """Family of the kind that a program needs."""
    family = find_family(name)
    if not isinstance(family, kind):
        raise InputError(f"kernel family {name!r} cannot price this kernel: not a {kind.__name__}")
    return family


Program = Callable[[Demand, Target], Priced | None]
PROGRAMS: dict[str, Program] = {
    "attention": attention,
    "gemm": gemm,
    "moe": moe,
    "mhc_pre": hyper_connection,
    "mhc_post": hyper_connection,
    "elementwise": elementwise,
    "all_reduce": all_reduce,
    "gather_scatter": gather_scatter,
    "exchange": exchange,
}
