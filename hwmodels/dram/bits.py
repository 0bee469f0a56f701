"""Bit sets in 64-bit words: one bit a bank of a pseudo-channel."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Position of the lowest set bit of a word that is not zero."""
    signature = types.int64(types.int64)

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, emit
