"""How tokens reach the ranks of their experts: kernels of their own, gathered, or in one kernel."""

from __future__ import annotations

from typing import Literal, get_args

from simulator.basis.errors import InputError, UnsupportedError, unknown_name
from simulator.engine.kernel_section import FusedKernel
from simulator.engine.profile import EngineProfile
from workloads.parallel import ParallelLayout

Exchange = Literal["deepep", "gathered", "fused"]
EXCHANGES: tuple[str, ...] = get_args(Exchange)
FUSED_KERNEL = "mega_moe"
_AROUND = ("exchange",)


def with_exchange(
    profile: EngineProfile, exchange: str | None, parallel: ParallelLayout
) -> EngineProfile:
    """The profile with the kernels of an exchange; None: the engine's own.

    `deepep`: dispatch and combine are all-to-all kernels around the experts. `gathered`: all tokens
    go to all ranks and sums come back, which needs no expert groups. `fused`: dispatch, both halves
    of the experts and combine are waves of one kernel (DeepGEMM's Mega MoE).
    """
    if exchange is None:
        return profile
    if exchange not in EXCHANGES:
        raise InputError(unknown_name("exchange", exchange, EXCHANGES))
    if parallel.data == 1:
        raise InputError(
            f"exchange {exchange} is between data ranks, but dp is 1, where every rank has all "
            "tokens; give dp 2 or more, or leave it out"
        )
    if exchange == "gathered":
        if parallel.expert > 1:
            raise UnsupportedError(
                f"exchange gathered with ep {parallel.expert}: tokens are gathered where experts "
                "are split by tensor only; nearest: ep 1"
            )
        return profile
    if parallel.expert == 1:
        raise InputError(
            f"exchange {exchange} sends tokens to expert groups, but ep is 1; give ep "
            f"{parallel.ranks}, or exchange gathered"
        )
    return fused_exchange(profile) if exchange == "fused" else profile


def fused_exchange(profile: EngineProfile) -> EngineProfile:
    """The profile with one kernel for dispatch, experts and combine."""
    around = [kernel for kernel in profile.kernels if kernel.program in _AROUND]
    experts = [kernel for kernel in profile.kernels if kernel.program == "moe"]
    if len(around) != 2 or len(experts) != 1:
        raise UnsupportedError(
            f"engine {profile.name!r} has {len(around)} kernels of exchange and {len(experts)} of "
            "experts, where two and one can be fused; nearest: exchange deepep"
        )
    merged = FusedKernel(
        name=FUSED_KERNEL,
        about="waves of dispatch, the picked experts and combine in one kernel",
        family=experts[0].family,
        program="fused_moe",
        families=experts[0].families,
        nodes=(*around[0].nodes, *experts[0].nodes, *around[1].nodes),
    )
    kernels = tuple(
        merged if kernel is experts[0] else kernel
        for kernel in profile.kernels
        if kernel not in around
    )
    return profile.model_copy(update={"kernels": kernels})
