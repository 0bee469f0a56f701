"""Number formats as they are stored: bits an element, and the block that shares a scale.

`DType.nbytes` counts packed bytes with the scales, for a matrix stored row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DType:
    """A stored number format.

    `block` is (rows, columns) of a matrix that share one scale of `scale_bits`; None has no scale.
    `math` names the rate class in which the matrix units multiply it.
    """

    name: str
    bits: int
    math: str
    block: tuple[int, int] | None = None
    scale_bits: int = 0

    def matrix_bytes(self, rows: int, columns: int) -> int:
        """Packed bytes of one [rows, columns] matrix, scales included; partial blocks count."""
        data = -(-rows * columns * self.bits // 8)
        if self.block is None:
            return data
        blocks = math.ceil(rows / self.block[0]) * math.ceil(columns / self.block[1])
        return data + blocks * self.scale_bits // 8


FP32 = DType("fp32", 32, "fp32")
BF16 = DType("bf16", 16, "bf16")
INT32 = DType("int32", 32, "int")
INT64 = DType("int64", 64, "int")
# Weights: FP8 e4m3 with one ue8m0 scale a 128 x 128 block (facts: checkpoint inventory).
FP8_BLOCK = DType("fp8", 8, "fp8", block=(128, 128), scale_bits=8)
# Experts: FP4 e2m1 with one e8m0 scale a 32 values along the contracted axis.
FP4_GROUP = DType("fp4", 4, "fp8xfp4", block=(1, 32), scale_bits=8)
# As NVIDIA packs FP4: e2m1 with one e4m3 scale a 16 values.
NVFP4_GROUP = DType("nvfp4", 4, "nvfp4", block=(1, 16), scale_bits=8)
