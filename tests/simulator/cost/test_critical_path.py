"""Each instant of a step belongs to one launch or to none, and the parts add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simulator.cost.critical_path import critical_path, critical_ps_of
from simulator.cost.result import KernelRecord
from tests.reports.factory import make_kernel, make_step


def _named(kernels: list[KernelRecord], total_ps: int) -> list[tuple[str, int, int]]:
    return [
        ("-" if span.kernel is None else kernels[span.kernel].name, span.start_ps, span.end_ps)
        for span in critical_path(kernels, total_ps)
    ]


def test_a_chain_with_gaps() -> None:
    kernels = [make_kernel("a", 10, 30), make_kernel("b", 35, 60)]
    assert _named(kernels, 70) == [
        ("-", 0, 10),
        ("a", 10, 30),
        ("-", 30, 35),
        ("b", 35, 60),
        ("-", 60, 70),
    ]


def test_what_a_longer_launch_covers_decides_nothing() -> None:
    kernels = [make_kernel("long", 0, 100), make_kernel("covered", 20, 60, stream=1)]
    assert critical_ps_of(kernels, 100) == ([100, 0], 0)


def test_a_join_waits_for_the_stream_that_ends_last() -> None:
    kernels = [
        make_kernel("main", 0, 40),
        make_kernel("side", 0, 90, stream=1),
        make_kernel("join", 90, 100),
    ]
    assert _named(kernels, 100) == [("side", 0, 90), ("join", 90, 100)]


def test_of_equal_ends_the_waiting_stream_goes_first() -> None:
    kernels = [
        make_kernel("other", 0, 50, stream=1),
        make_kernel("own", 20, 50),
        make_kernel("next", 50, 60),
    ]
    assert _named(kernels, 60)[-2:] == [("own", 20, 50), ("next", 50, 60)]


def test_launches_of_no_length_do_not_stop_the_walk() -> None:
    kernels = [make_kernel("a", 0, 5), make_kernel("nothing", 5, 5), make_kernel("b", 5, 9)]
    assert _named(kernels, 9) == [("a", 0, 5), ("b", 5, 9)]


def test_a_step_without_launches_is_all_between() -> None:
    assert critical_ps_of([], 7) == ([], 7)
    assert critical_path([], 0) == ()


def test_a_whole_step_is_covered_without_overlap() -> None:
    result = make_step()
    spans = critical_path(result.kernels, result.total_ps)
    edges = [0] + [span.end_ps for span in spans]
    assert [span.start_ps for span in spans] == edges[:-1]
    assert edges[-1] == result.total_ps


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)), max_size=12),
    st.integers(0, 5),
)
def test_parts_always_add_up(rows: list[tuple[int, int, int]], tail: int) -> None:
    kernels = [
        make_kernel(f"k{i}", start, start + length, stream=stream)
        for i, (start, length, stream) in enumerate(rows)
    ]
    total = max((kernel.end_ps for kernel in kernels), default=0) + tail
    parts, between = critical_ps_of(kernels, total)
    assert sum(parts) + between == total
    assert all(0 <= part <= kernel.duration_ps for part, kernel in zip(parts, kernels, strict=True))
