"""What numba has no word for: bit sets of banks in 64-bit words, and plain pointers."""

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


@intrinsic
def address_of(typing_context: Any, array: Any) -> Any:
    """Pointer to an int64 array's data: indexing it costs no check for negative positions."""
    signature = types.CPointer(types.int64)(array)

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return context.make_array(sig.args[0])(context, builder, arguments[0]).data

    return signature, emit
