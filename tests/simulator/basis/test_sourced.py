"""A number from outside: unit, origin, and what its kind requires."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.sourced import Bytes, BytesPerSecond, Count, Sourced
from simulator.basis.yaml_loader import StrictModel, load_yaml


class Part(StrictModel):
    bandwidth: BytesPerSecond | None = None
    capacity: Bytes | None = None
    stacks: Count | None = None


def load(tmp_path: Path, text: str) -> Part:
    path = tmp_path / "part.yaml"
    path.write_text("# head\n" + text)
    return load_yaml(path, Part)


def test_si_values(tmp_path: Path) -> None:
    part = load(
        tmp_path,
        "bandwidth: {value: 4.8, unit: TB/s, kind: published, source: datasheet}\n"
        "capacity: {value: 141, unit: GB, kind: measured, source: a run}\n"
        "stacks: {value: 6, unit: '1', kind: guessed, note: by analogy}\n",
    )
    assert part.bandwidth is not None
    assert part.bandwidth.si == 4_800_000_000_000
    assert part.bandwidth.dimension == "B/s"
    assert part.capacity is not None
    assert part.capacity.whole == 141_000_000_000
    assert part.stacks is not None
    assert part.stacks.describe() == "6 1 (guessed: by analogy)"


def test_frozen_hashable_and_equal_after_si_was_read() -> None:
    one = Sourced(value=1, unit="GB", kind="published", source="x")
    two = Sourced(value=1, unit="GB", kind="published", source="x")
    assert one.si == 10**9
    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "bandwidth: {value: 4.8, unit: TB, kind: published, source: x}\n",
            "2: 'bandwidth': unit 'TB' measures B, expected a unit of B/s: B/s, kB/s,",
        ),
        (
            "bandwidth:\n  value: 4.8\n  unit: TBps\n  kind: published\n  source: x\n",
            "4: 'bandwidth': unknown unit 'TBps'; did you mean 'TB/s'?",
        ),
        (
            "bandwidth: {value: 0, unit: B/s, kind: published, source: x}\n",
            "2: 'bandwidth': value is 0, expected more than 0",
        ),
        (
            "bandwidth: {value: -1.5, unit: B/s, kind: published, source: x}\n",
            "2: 'bandwidth': value is -1.5, expected more than 0",
        ),
        (
            "bandwidth: {value: 1, unit: B/s, kind: published}\n",
            "2: 'bandwidth': a published number needs a 'source' with where it was read",
        ),
        (
            "bandwidth: {value: 1, unit: B/s, kind: measured, source: ' '}\n",
            "2: 'bandwidth': a measured number needs a 'source' with where it was read",
        ),
        (
            "bandwidth: {value: 1, unit: B/s, kind: derived}\n",
            "2: 'bandwidth': a derived number needs a 'source' with the derivation",
        ),
        (
            "bandwidth: {value: 1, unit: B/s, kind: guessed, source: me}\n",
            "2: 'bandwidth': a guessed number needs a 'note' with the reason",
        ),
        (
            "bandwidth: {value: 1, unit: B/s, kind: recalled, source: me}\n",
            "2: 'bandwidth.kind' is 'recalled', expected 'published', 'measured', 'derived' or",
        ),
        (
            "bandwidth: {value: yes, unit: B/s, kind: published, source: x}\n",
            "2: 'bandwidth.value' is 'yes', expected a number",
        ),
        (
            "bandwidth: {value: true, unit: B/s, kind: published, source: x}\n",
            "2: 'bandwidth.value' is true, expected a number",
        ),
        (
            "bandwidth: 4.8e12\n",
            "2: 'bandwidth' is 4800000000000.0, expected a mapping with the keys value, unit, "
            "kind, source (optional), note (optional)",
        ),
        (
            "stacks: {value: 5.5, unit: '1', kind: guessed, note: x}\n",
            "2: 'stacks': value is 5.5, expected a whole number",
        ),
        (
            "capacity: {value: 0.3, unit: B, kind: guessed, note: x}\n",
            "2: 'capacity': value is 0.3 B, expected a whole number of B",
        ),
    ],
)
def test_refusals(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        load(tmp_path, text)
    start = f"{tmp_path / 'part.yaml'}:{expected}"
    assert caught.value.message.startswith(start), caught.value.message


def test_whole_of_a_fraction_is_refused() -> None:
    with pytest.raises(InputError, match=r"2\.5 us is 2\.5e-06 s, expected a whole number"):
        _ = Sourced(value=2.5, unit="us", kind="guessed", note="x").whole
