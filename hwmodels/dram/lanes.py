"""Looking at all banks of a pseudo-channel at once: a word a bank, side by side, and a bit a bank.

How often a loop over a set of a few banks turns is hard to foresee, and each wrong guess of the
processor costs as much as comparing the words of all banks, which needs no loop.
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
def ready_banks(memory, ready, banks, tick):  # type: ignore[no-untyped-def]
    """Those of some banks whose tick has come."""
    found = banks & _ready(memory, ready, tick)
    if banks >> _HALF != 0:
        found |= banks & (_ready(memory, ready + _HALF, tick) << _HALF)
    return found


@inlined
def least(memory, lanes, banks):  # type: ignore[no-untyped-def]
    """Least word of some banks, or FAR of none."""
    found = _least(memory, lanes, banks)
    if banks >> _HALF != 0:
        found = min(found, _least(memory, lanes + _HALF, banks >> _HALF))
    return found


@inlined
def no_later(memory, keys, others, slack, banks):  # type: ignore[no-untyped-def]
    """Those of some banks whose key, with the bits of `slack` cleared, is at most the other."""
    found = banks & _no_later(memory, keys, others, slack)
    if banks >> _HALF != 0:
        found |= banks & (_no_later(memory, keys + _HALF, others + _HALF, slack) << _HALF)
    return found


@inlined
def raise_banks(memory, ready, banks, tick):  # type: ignore[no-untyped-def]
    """Some banks are ready no sooner than at `tick`."""
    _raise_banks(memory, ready, banks, tick)
    if banks >> _HALF != 0:
        _raise_banks(memory, ready + _HALF, banks >> _HALF, tick)


@inlined
def first_ready(memory, ready, keys, banks, may, tick):  # type: ignore[no-untyped-def]
    """Least key of the banks that are ready, or FAR; and a tick before which no other one is.

    No bank is ready before `may`. Several may be ready now: then the second is the next tick.
    """
    if banks == 0:
        return FAR, FAR
    if may > tick:
        return FAR, may
    found = ready_banks(memory, ready, banks, tick)
    if found == 0:
        return FAR, least(memory, ready, banks)
    if found & (found - 1) == 0:
        others = banks ^ found
        bound = least(memory, ready, others) if others != 0 else FAR
        return memory[keys + lowest_bit(found)], bound
    return least(memory, keys, found), tick + 1


@inlined
def settle(memory, best, best_pc, best_bound, key, pc_number, bound, tick):  # type: ignore[no-untyped-def]
    """The earlier of two requests: key, pseudo-channel and where its bound stands.

    The bound that `first_ready` found leaves out the request, which is right for the one that is
    issued; the other one is still ready in the next tick.
    """
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


def _chosen(builder: Any, banks: Any) -> Any:
    """A truth value a lane, from the low half of a set."""
    low = builder.trunc(banks, ir.IntType(_HALF))
    return builder.bitcast(low, ir.VectorType(ir.IntType(1), _HALF))


def _set(builder: Any, truths: Any) -> Any:
    """The low half of a set, from a truth value a lane."""
    return builder.zext(builder.bitcast(truths, ir.IntType(_HALF)), _WORD)


@intrinsic
def _ready(typing_context: Any, memory: Any, ready: Any, tick: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, ready, tick = arguments
        come = builder.icmp_signed("<=", _load(builder, memory, ready), _each(builder, tick))
        return _set(builder, come)

    return _INT(_POINTER, _INT, _INT), emit


@intrinsic
def _least(typing_context: Any, memory: Any, lanes: Any, banks: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, lanes, banks = arguments
        name = f"llvm.vector.reduce.smin.v{_HALF}i64"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(_WORD, [_LANES]), name)
        far = ir.Constant(_LANES, [FAR] * _HALF)
        words = builder.select(_chosen(builder, banks), _load(builder, memory, lanes), far)
        return builder.call(function, [words])

    return _INT(_POINTER, _INT, _INT), emit


@intrinsic
def _no_later(typing_context: Any, memory: Any, keys: Any, others: Any, slack: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, keys, others, slack = arguments
        cut = builder.and_(_load(builder, memory, keys), _each(builder, builder.not_(slack)))
        return _set(builder, builder.icmp_signed("<=", cut, _load(builder, memory, others)))

    return _INT(_POINTER, _INT, _INT, _INT), emit


@intrinsic
def _raise_banks(typing_context: Any, memory: Any, ready: Any, banks: Any, tick: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        memory, ready, banks, tick = arguments
        old = _load(builder, memory, ready)
        new = _each(builder, tick)
        later = builder.icmp_signed("<", old, new)
        words = builder.select(builder.and_(_chosen(builder, banks), later), new, old)
        builder.store(words, _place(builder, memory, ready), align=8)
        return context.get_dummy_value()

    return types.void(_POINTER, _INT, _INT, _INT), emit
