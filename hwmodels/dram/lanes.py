"""Looking at all banks of a pseudo-channel at once: a word a bank, side by side, and a bit a bank.

A loop over the few banks of a set ends when nobody can tell, and a processor guesses wrong about
once a loop. Comparing every bank and leaving out those whose bit is not set has no such branch.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from hwmodels.dram.bits import lowest_bit
from hwmodels.dram.compiled import inlined
from hwmodels.dram.words import FAR

_WORD = ir.IntType(64)
_HALF = 32  # banks looked at together: all that the presets have, half of what a bit set holds
_LANES = ir.VectorType(_WORD, _HALF)
_INT = types.int64
_POINTER = types.CPointer(types.int64)


@inlined
def ready_banks(memory, ready, bits, tick):  # type: ignore[no-untyped-def]
    """The banks of `bits` that are ready at `tick`."""
    found = bits & _ready(memory, ready, tick)
    if bits >> _HALF != 0:
        found |= bits & (_ready(memory, ready + _HALF, tick) << _HALF)
    return found


@inlined
def soonest(memory, ready, bits):  # type: ignore[no-untyped-def]
    """Least tick from which a bank of `bits` is ready, or FAR."""
    best = _soonest(memory, ready, bits)
    if bits >> _HALF != 0:
        best = min(best, _soonest(memory, ready + _HALF, bits >> _HALF))
    return best


@inlined
def at_most(memory, keys, others, slack, bits):  # type: ignore[no-untyped-def]
    """The banks of `bits` whose key, with the bits of `slack` cleared, is no greater than other."""
    found = bits & _at_most(memory, keys, others, slack)
    if bits >> _HALF != 0:
        high = _at_most(memory, keys + _HALF, others + _HALF, slack)
        found |= bits & (high << _HALF)
    return found


@inlined
def raise_banks(memory, ready, bits, tick):  # type: ignore[no-untyped-def]
    """The banks of `bits` are ready no sooner than at `tick`."""
    _raise_banks(memory, ready, bits, tick)
    if bits >> _HALF != 0:
        _raise_banks(memory, ready + _HALF, bits >> _HALF, tick)


@inlined
def first_ready(memory, ready, keys, banks, may, tick):  # type: ignore[no-untyped-def]
    """Least key of the banks that are ready, none before `may`, or FAR; and when to look again.

    The bank that is found does not count for the latter; `settle` looks after it.
    """
    if banks == 0:
        return FAR, FAR
    if may > tick:
        return FAR, may
    found = ready_banks(memory, ready, banks, tick)
    if found == 0:
        return FAR, soonest(memory, ready, banks)
    if found & (found - 1) == 0:
        others = banks ^ found
        bound = soonest(memory, ready, others) if others != 0 else FAR
        return memory[keys + lowest_bit(found)], bound
    return soonest(memory, keys, found), tick + 1


@inlined
def settle(memory, best, best_pc, best_bound, key, pc_number, bound, tick):  # type: ignore[no-untyped-def]
    """The earlier of two requests, with its bound's place; the later one is still ready."""
    if key >= FAR:
        return best, best_pc, best_bound
    if key > best:
        memory[bound] = tick + 1
        return best, best_pc, best_bound
    if best < FAR:
        memory[best_bound] = tick + 1
    return key, pc_number, bound


def _place(builder: Any, memory: Any, at: Any) -> Any:
    return builder.bitcast(builder.gep(memory, [at]), _LANES.as_pointer())


def _load(builder: Any, memory: Any, at: Any) -> Any:
    return builder.load(_place(builder, memory, at), align=8)


def _each(builder: Any, word: Any) -> Any:
    """The same word in every lane."""
    first = builder.insert_element(ir.Constant(_LANES, ir.Undefined), word, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), _HALF), [0] * _HALF)
    return builder.shuffle_vector(first, ir.Constant(_LANES, ir.Undefined), zeros)


def _chosen(builder: Any, bits: Any) -> Any:
    """A truth value a lane, from the low half of a set."""
    low = builder.trunc(bits, ir.IntType(_HALF))
    return builder.bitcast(low, ir.VectorType(ir.IntType(1), _HALF))


def _least(builder: Any, lanes: Any, chosen: Any) -> Any:
    """Least of the chosen lanes, or FAR."""
    name = f"llvm.vector.reduce.smin.v{_HALF}i64"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(_WORD, [_LANES]), name)
    far = ir.Constant(_LANES, [FAR] * _HALF)
    return builder.call(function, [builder.select(chosen, lanes, far)])


@intrinsic
def _ready(typing_context: Any, memory: Any, ready: Any, tick: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, ready, tick = arguments
        come = builder.icmp_signed("<=", _load(builder, memory, ready), _each(builder, tick))
        return builder.zext(builder.bitcast(come, ir.IntType(_HALF)), _WORD)

    return _INT(_POINTER, _INT, _INT), emit


@intrinsic
def _soonest(typing_context: Any, memory: Any, ready: Any, bits: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, ready, bits = arguments
        return _least(builder, _load(builder, memory, ready), _chosen(builder, bits))

    return _INT(_POINTER, _INT, _INT), emit


@intrinsic
def _at_most(typing_context: Any, memory: Any, keys: Any, others: Any, slack: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, keys, others, slack = arguments
        cut = builder.and_(_load(builder, memory, keys), _each(builder, builder.not_(slack)))
        found = builder.icmp_signed("<=", cut, _load(builder, memory, others))
        return builder.zext(builder.bitcast(found, ir.IntType(_HALF)), _WORD)

    return _INT(_POINTER, _INT, _INT, _INT), emit


@intrinsic
def _raise_banks(typing_context: Any, memory: Any, ready: Any, bits: Any, tick: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, ready, bits, tick = arguments
        old = _load(builder, memory, ready)
        new = _each(builder, tick)
        later = builder.icmp_signed("<", old, new)
        chosen = builder.and_(_chosen(builder, bits), later)
        place = _place(builder, memory, ready)
        builder.store(builder.select(chosen, new, old), place, align=8)
        return context.get_dummy_value()

    return types.void(_POINTER, _INT, _INT, _INT), emit
