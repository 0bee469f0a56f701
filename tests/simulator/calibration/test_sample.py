"""A sample has rows of every family and chip, the same ones for the same seed."""

from __future__ import annotations

from collections import Counter

from simulator.calibration.dispatch import NOT_COVERED, MeasuredRow, RowSet
from simulator.calibration.sample import sampled


def rows(file: str, **counts: int) -> list[MeasuredRow]:
    """So many rows of each family_chip, in turns."""
    kinds = [name for name, count in counts.items() for _ in range(count)]
    return [
        MeasuredRow(file, line, {"chip": kind.split("_")[1]}, 1.0, kind.split("_")[0])
        for line, kind in enumerate(sorted(kinds, key=lambda kind: hash_of(kind)), start=2)
    ]


def hash_of(kind: str) -> int:
    return sum(map(ord, kind))


FIRST = rows("first.csv", gemm_h200=60, gemm_b200=30, moe_h200=9, moe_b200=1)
SECOND = rows("second.csv", gemm_h200=4)
BOTH = RowSet((*FIRST, *SECOND))


def drawn(count: int, seed: int = 0, whole: RowSet = BOTH) -> list[tuple[str, int]]:
    return [(row.file, row.line) for row in sampled(whole, count, seed).rows]


def test_every_family_and_chip_has_its_part() -> None:
    found = sampled(BOTH, 20, 0).rows
    first = Counter((row.family, row.chip) for row in found if row.file == "first.csv")
    assert first == {
        ("gemm", "h200"): 12,
        ("gemm", "b200"): 6,
        ("moe", "h200"): 1,
        ("moe", "b200"): 1,
    }
    assert sum(row.file == "second.csv" for row in found) == 4  # all that it has


def test_a_sample_is_that_of_its_seed_in_the_order_of_the_rows() -> None:
    assert drawn(20) == drawn(20) == sorted(drawn(20))
    assert drawn(20) != drawn(20, seed=1)
    alone = RowSet(tuple(FIRST))
    assert [row for row in drawn(20) if row[0] == "first.csv"] == drawn(20, whole=alone)


def test_fewer_rows_than_kinds_are_of_different_kinds() -> None:
    found = sampled(RowSet(tuple(FIRST)), 3, 5).rows
    assert len({(row.family, row.chip) for row in found}) == len(found) == 3


def test_all_rows_and_those_that_no_profile_lowers() -> None:
    assert len(sampled(BOTH, 1000, 0)) == len(BOTH)
    odd = MeasuredRow("first.csv", 999, {"chip": "h200"}, 1.0, NOT_COVERED)
    assert len(sampled(RowSet((odd, *SECOND)), 1000, 0)) == len(SECOND)
