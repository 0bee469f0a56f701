"""The type of a value in the graph: named axes with sizes, and a stored number format.

Example: the query up-projection of V4-Flash is
`TensorType((("heads", 64), ("head_dim", 512), ("q_lora", 1024)), FP8_BLOCK)`:
a matrix of 64 x 512 rows and 1024 columns, 33,554,432 B of data and 2,048 B of scales.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.dtype import DType

Axis = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Named axes and a number format.

    The last `inner` axes together are the columns (the contracted axis of a weight); the first
    `lead` axes index separate matrices (experts, groups); those between are the rows.
    """

    axes: tuple[Axis, ...]
    dtype: DType
    inner: int = 1
    lead: int = 0

    def __post_init__(self) -> None:
        for name, size in self.axes:
            if size < 0:
                raise ValueError(f"axis {name!r} has a negative size {size}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(size for _, size in self.axes)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def dim(self, name: str) -> int:
        """Size of a named axis."""
        for axis, size in self.axes:
            if axis == name:
                return size
        raise KeyError(f"no axis {name!r} in {self.axes}")

    def has(self, name: str) -> bool:
        """Whether the type has an axis of that name."""
        return any(axis == name for axis, _ in self.axes)

    @property
    def lead_axes(self) -> tuple[Axis, ...]:
        """Axes that index separate matrices."""
        return self.axes[: self.lead]

    @property
    def row_axes(self) -> tuple[Axis, ...]:
        """Axes that together are the rows (outputs) of the matrix."""
        return self.axes[self.lead : len(self.axes) - self.inner]

    @property
    def column_axes(self) -> tuple[Axis, ...]:
        """Axes that together are the columns (the contracted axis) of the matrix."""
        return self.axes[len(self.axes) - self.inner :]

    @property
    def matrix(self) -> tuple[int, int, int]:
        """(matrices, rows, columns)."""
        return (_product(self.lead_axes), _product(self.row_axes), _product(self.column_axes))

    @property
    def nbytes(self) -> int:
        """Packed bytes, scales included."""
        matrices, rows, columns = self.matrix
        return matrices * self.dtype.matrix_bytes(rows, columns)

    def divided(self, divisors: Mapping[str, int]) -> TensorType:
        """The same type with the named axes divided; sizes must divide exactly."""
        axes = []
        for name, size in self.axes:
            divisor = divisors.get(name, 1)
            if size % divisor:
                raise ValueError(f"{divisor} does not divide axis {name!r} of size {size}")
            axes.append((name, size // divisor))
        return TensorType(tuple(axes), self.dtype, self.inner, self.lead)


def _product(axes: tuple[Axis, ...]) -> int:
    return math.prod(size for _, size in axes)


def activation(dtype: DType, *axes: Axis) -> TensorType:
    """Type of a value between operations."""
    return TensorType(axes, dtype)


def vector(dtype: DType, *axes: Axis) -> TensorType:
    """Type of an unquantised parameter (norm weight, bias, gate)."""
    return TensorType(axes, dtype)
