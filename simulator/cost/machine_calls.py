"""Kernel programs of a family's calls: what the machine runs in place of the form's closed sums."""

from __future__ import annotations

from collections.abc import Callable

from hwmodels.chip import ChipSpec
from hwmodels.machine.program import KernelProgram
from simulator.cost import collectives, programs
from simulator.cost.family_call import FamilyCall
from simulator.kernels import sparse_core
from simulator.kernels.attention_blocks import core_blocks, gathering_blocks
from simulator.kernels.blocks import family_blocks
from simulator.kernels.family import Constants, Family, Sizes, columns_of, one
from simulator.kernels.moved_blocks import collective_blocks, elementwise_blocks, waited
from simulator.kernels.parts import Parts

Builder = Callable[[FamilyCall, Sizes, ChipSpec, Constants], KernelProgram]


def _moved(call: FamilyCall, sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    return elementwise_blocks(
        float(sizes["moved_bytes"]), float(sizes["operations"]), chip, constants["move"]
    )


def _parts(call: FamilyCall, sizes: Sizes, chip: ChipSpec, constants: Constants) -> Parts:
    return call.form(columns_of(sizes), chip, constants)


def _launches(
    call: FamilyCall, sizes: Sizes, chip: ChipSpec, constants: Constants
) -> KernelProgram:
    return waited(one(_parts(call, sizes, chip, constants).total))


def _sent(call: FamilyCall, sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    return collective_blocks(_parts(call, sizes, chip, constants), chip)


_PLAIN: dict[object, Builder] = {
    programs._moved: _moved,
    programs._plain_launches: _launches,
    programs._fixed_launches: _launches,
    collectives._exchange: _sent,
    collectives._between: _sent,
    sparse_core.gathering: lambda call, s, chip, c: gathering_blocks(s, chip, c),
}


def call_program(call: FamilyCall, chip: ChipSpec) -> KernelProgram:
    """What the machine runs for a call."""
    sizes, constants = dict(call.row), call.constants.values
    form = call.form
    if isinstance(form, programs.CoreForm):
        return core_blocks(form.form, sizes, chip, constants, form.rule, form.math)
    family = getattr(form, "__self__", None)
    if isinstance(family, Family):
        return family_blocks(family, sizes, chip, constants)
    return _PLAIN[form](call, sizes, chip, constants)
