"""Programs that price an engine's kernels with the forms and constants of the calibrated families.

Each takes a kernel's demand and its machine; None says that no family covers the kernel there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TypeVar

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError
from simulator.cost.collectives import (
    all_reduce,
    all_reduce_calls,
    exchange,
    gather_scatter,
    gather_scatter_calls,
)
from simulator.cost.family_call import Columns, FamilyCall, priced_calls
from simulator.cost.price import Target
from simulator.cost.priced import Borrowable, Priced, constants_of
from simulator.kernels.attention_calls import calls_of
from simulator.kernels.attention_module import AttentionModule
from simulator.kernels.constants_file import constants_for
from simulator.kernels.elementwise import elementwise_parts
from simulator.kernels.family import Family
from simulator.kernels.gemm import GemmFamily
from simulator.kernels.gemm_tiles import GemmKernel
from simulator.kernels.gemm_time import gemm_parts
from simulator.kernels.moe_layer import MoeFamily
from simulator.kernels.parts import Parts
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
    call = chip_call(named.call, target.chip)
    kernels = module_kernels(call, decisions, target.chip, stored.values)
    return Borrowable(decisions.family, stored, False).priced(kernels[str(named.part)])


def chip_call(call: AttentionCall, chip: ChipSpec) -> AttentionCall:
    """The call with weights of a format that the chip multiplies."""
    return replace(call, fp8=call.fp8 and chip.matrix_flops_per_s("fp8") is not None)


def module_kernels(
    call: AttentionCall,
    decisions: AttentionDecisions,
    chip: ChipSpec,
    constants: Mapping[str, float],
) -> Mapping[str, Parts]:
    """All kernels of a module by part, worked out once for all of them."""

    def work_out() -> Mapping[str, Parts]:
        return modules_kernels([call], decisions, chip, constants)

    found: Mapping[str, Parts] = _MODULES.get((call, decisions, constants), chip, work_out)
    return found


def modules_kernels(
    calls: Sequence[AttentionCall],
    decisions: AttentionDecisions,
    chip: ChipSpec,
    constants: Mapping[str, float],
) -> Mapping[str, Parts]:
    """All kernels of several modules by part, with one value a module."""
    family = _family(decisions.family, AttentionModule)  # type: ignore[type-abstract]
    return family.deciding(decisions).kernels(calls_of(*calls), chip, constants)


@dataclass(frozen=True, slots=True)
class _GemmForm:
    """GEMMs of one kernel."""

    kernel: GemmKernel

    def __call__(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        return gemm_parts(
            calls["rows"],
            calls["columns"],
            calls["depth"],
            self.kernel.dtype,
            chip,
            constants,
            quantise=self.kernel.quantises,
            kernel=self.kernel,
        )


def gemm(demand: Demand, target: Target) -> list[FamilyCall] | None:
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
        sizes = ("rows", "columns", "depth")
        row = tuple((name, float(getattr(product, name))) for name in sizes)
        found.append(FamilyCall(_GemmForm(kernel), constants, row))
    return found


def moe(demand: Demand, target: Target) -> list[FamilyCall] | None:
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
    row: dict[str, float | str] = {
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
    return [FamilyCall(family.parts, constants, tuple(row.items()))]


def hyper_connection(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """One site of a hyper-connection, before or after its block.

    Assumes: the collapse before the output head takes as long as one before a block.
    """
    call = demand.priced_as.call if demand.priced_as else None
    assert isinstance(call, StreamsCall)
    constants = constants_of(demand, target)
    if constants is None:
        return None
    row = {
        "num_tokens": float(call.tokens),
        "hidden_size": float(call.hidden),
        "hc_mult": float(call.streams),
        "num_sites": 1.0,
    }
    return [FamilyCall(find_family(constants.family).parts, constants, tuple(row.items()))]


def elementwise(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """A launch, and the bytes that cross the kernel's border at the rate of elementwise kernels."""
    constants = constants_of(demand, target)
    if constants is None:
        return None
    return [FamilyCall(_moved, constants, (("moved_bytes", float(demand.moved_bytes)),))]


def _moved(calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
    return elementwise_parts(calls["moved_bytes"], chip, constants["move"])


F = TypeVar("F", bound=Family)


def _family(name: str, kind: type[F]) -> F:
    """Family of the kind that a program needs."""
    family = find_family(name)
    if not isinstance(family, kind):
        raise InputError(f"kernel family {name!r} cannot price this kernel: not a {kind.__name__}")
    return family


Program = Callable[[Demand, Target], Priced | None]
CallRule = Callable[[Demand, Target], list[FamilyCall] | None]
# Calls of families that some programs consist of; None where a program does otherwise.
CALLS: dict[str, CallRule] = {
    "gemm": gemm,
    "moe": moe,
    "mhc_pre": hyper_connection,
    "mhc_post": hyper_connection,
    "elementwise": elementwise,
    "all_reduce": all_reduce_calls,
    "gather_scatter": gather_scatter_calls,
}


def _by_calls(rule: CallRule) -> Program:
    @wraps(rule)
    def program(demand: Demand, target: Target) -> Priced | None:
        return priced_calls(rule(demand, target), target.chip)

    return program


PROGRAMS: dict[str, Program] = {
    "attention": attention,
    **{name: _by_calls(rule) for name, rule in CALLS.items()},
    # Between nodes they are more than calls of a family.
    "all_reduce": all_reduce,
    "gather_scatter": gather_scatter,
    "exchange": exchange,
}
