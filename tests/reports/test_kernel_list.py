"""The kernel list: one line a distinct kernel, and nothing lost."""

from __future__ import annotations

import io

from rich.console import Console

from reports.kernel_list import kernel_list, kernel_list_json, print_kernels
from tests.reports.factory import make_kernel, make_result, make_step


def test_every_launch_is_in_one_line() -> None:
    result = make_step()
    listed = kernel_list(result)
    assert len(listed) < len(result.kernels)
    assert sum(kernel.launches for kernel in listed) == len(result.kernels)
    assert sum(kernel.duration_ps for kernel in listed) == sum(
        kernel.duration_ps for kernel in result.kernels
    )


def test_equal_kernels_of_several_kinds_of_layer_are_one() -> None:
    first = make_kernel("a", 0, 10, nodes=("layer00/attn/a",))
    same = make_kernel("a", 10, 20, scope="layer01", kind="hca", nodes=("layer01/attn/a",))
    other = make_kernel("a", 20, 30, shapes="2 x 2 x 3 bf16")
    (one, two) = kernel_list(make_result(first, same, other))
    assert (one.launches, one.kinds, one.nodes) == (2, ("csa", "hca"), ("attn/a",))
    assert two.launches == 1
    assert kernel_list_json(make_result(first, same))[0]["layer_kinds"] == ["csa", "hca"]


def test_columns_that_do_not_fit_are_left_out() -> None:
    for width, shown in ((100, False), (400, True)):
        file = io.StringIO()
        print_kernels(Console(file=file, width=width), make_step())
        assert ("64 x 1536 x 4096 fp8" in file.getvalue()) == shown
