"""The kernel program of every form that prices calls: the machine runs what the form adds up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hwmodels.chip import ChipSpec
from hwmodels.machine.program import KernelProgram
from simulator.kernels.attention_blocks import index_blocks, top_k_blocks
from simulator.kernels.family import Constants, Family, Sizes, columns_of
from simulator.kernels.gemm import GemmFamily
from simulator.kernels.graph_all_reduce import GraphAllReduce
from simulator.kernels.hyper_connection import HyperConnectionPost, HyperConnectionPre
from simulator.kernels.index_logits import IndexLogits
from simulator.kernels.moe_layer import MoeFamily
from simulator.kernels.moved_blocks import collective_blocks
from simulator.kernels.nccl import NcclAllToAll, NcclRing
from simulator.kernels.product_blocks import gemm_blocks, moe_blocks
from simulator.kernels.stream_blocks import post_blocks, pre_blocks
from simulator.kernels.top_k import TopKFirst, TopKSecond

Builder = Callable[[Any, Sizes, ChipSpec, Constants], KernelProgram]


def _collective(family: Any, sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    steps = int(sizes["ranks"]) - 1
    return collective_blocks(family.parts(columns_of(sizes), chip, constants), chip, steps)


BUILDERS: dict[Any, Builder] = {
    GemmFamily: lambda f, s, chip, c: gemm_blocks(f.kernel, s, chip, c),
    MoeFamily: moe_blocks,
    IndexLogits: lambda f, s, chip, c: index_blocks(s, chip, c),
    TopKFirst: lambda f, s, chip, c: top_k_blocks(1, s, chip, c),
    TopKSecond: lambda f, s, chip, c: top_k_blocks(2, s, chip, c),
    HyperConnectionPost: lambda f, s, chip, c: post_blocks(s, chip, c),
    HyperConnectionPre: lambda f, s, chip, c: pre_blocks(f.name == "mhc_pre_trtllm", s, chip, c),
    NcclRing: _collective,
    NcclAllToAll: _collective,
    GraphAllReduce: _collective,
}


def family_blocks(
    family: Family, sizes: Sizes, chip: ChipSpec, constants: Constants
) -> KernelProgram:
    """Kernel program of a family's call with named sizes."""
    for kind, build in BUILDERS.items():
        if isinstance(family, kind):
            return build(family, sizes, chip, constants)
    raise AssertionError(f"family {family.name} has no kernel program")
