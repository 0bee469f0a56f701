"""A chip's memory by access pattern: hand-checked limits, and agreement with measured streams."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from hwmodels.bandwidth.access import Access
from hwmodels.bandwidth.measurement import measure
from hwmodels.bandwidth.sweep import sweep
from hwmodels.chip import find_chip, list_chips
from hwmodels.dram.chip_memory import ChipController, chip_memory, idle_ns, preset_name
from simulator.basis.errors import InputError

H200 = chip_memory(find_chip("h200"))
B200 = chip_memory(find_chip("b200"))
ENTRY = Access(kind="gather", granule_bytes=584)


def test_presets_of_shipped_chips() -> None:
    names = {name: preset_name(find_chip(name)) for name in list_chips()}
    assert names["h100"] == names["mi300x"] == "hbm3_5200"
    assert names["h200"] == "hbm3e_6250"
    assert {names[name] for name in ("b200", "gb200", "b300", "gb300")} == {"hbm3e_7800"}
    assert names["ascend-910b3"] == "hbm2e_3200"


@pytest.mark.parametrize(
    ("chip", "read", "copy"),
    [("h100", 0.932, 0.915), ("h200", 0.944, 0.909), ("b200", 0.952, 0.89)],
)
def test_streams_of_all_cores_reach_what_was_measured(chip: str, read: float, copy: float) -> None:
    memory = chip_memory(find_chip(chip))
    stream = Access(kind="stream", granule_bytes=4096)
    assert measure(memory, stream).useful_fraction == pytest.approx(read, abs=0.03)
    both = replace(stream, write_fraction=1 / 3)
    assert measure(memory, both).useful_fraction == pytest.approx(copy, abs=0.03)


def test_one_run_in_flight_takes_the_chips_latency() -> None:
    one = measure(H200, Access(kind="gather", granule_bytes=32, outstanding=1))
    latency_ns = find_chip("h200").dram_latency_s * 1e9
    assert one.latency_p50_ns == pytest.approx(latency_ns, rel=0.01)
    assert one.useful_bytes_per_s == pytest.approx(32 / latency_ns * 1e9, rel=0.05)
    assert H200.path_ns + idle_ns("hbm3e_6250") == pytest.approx(latency_ns)


def test_few_runs_in_flight_obey_littles_law() -> None:
    for outstanding in (100, 1000, 3000):
        found = measure(H200, replace(ENTRY, outstanding=outstanding))
        mean_ns = outstanding * 584 / found.useful_bytes_per_s * 1e9
        assert mean_ns == pytest.approx(found.latency_p50_ns, rel=0.12)


def test_more_in_flight_never_delivers_less() -> None:
    rates = [
        measure(B200, replace(ENTRY, outstanding=n)).useful_bytes_per_s
        for n in (10, 100, 1000, 10_000, 100_000)
    ]
    assert all(more > 0.98 * less for less, more in pairwise(rates))
    assert rates[-1] < B200.peak_bytes_per_s


def test_parts_add_up_and_bursts_cover_what_was_asked() -> None:
    for access in (ENTRY, replace(ENTRY, outstanding=1), replace(ENTRY, write_fraction=0.5)):
        found = measure(H200, access)
        assert sum(found.parts.values()) == pytest.approx(1.0, abs=1e-6)
        assert found.parts["data"] == pytest.approx(found.achieved_fraction, abs=0.02)
        # 584 bytes at multiples of 584 touch 19 bursts or, rarely, one less: 608 / 584.
        assert found.achieved_bytes_per_s / found.useful_bytes_per_s == pytest.approx(
            608 / 584, abs=0.02
        )


def test_steady_across_seeds_and_equal_for_one() -> None:
    found = [measure(B200, replace(ENTRY, seed=seed)).useful_fraction for seed in (1, 2, 3, 4)]
    assert max(found) - min(found) < 0.02
    assert measure(B200, replace(ENTRY, seed=1)).useful_fraction == found[0]


def test_alignment_to_a_burst_matters_to_short_runs() -> None:
    packed = measure(H200, Access(kind="gather", granule_bytes=68, align_bytes=68))
    padded = measure(H200, Access(kind="gather", granule_bytes=68, align_bytes=128))
    assert padded.useful_bytes_per_s > 1.1 * packed.useful_bytes_per_s


def test_shallow_queues_cost_bandwidth() -> None:
    shallow = replace(ENTRY, controller=ChipController(queued_ns=49))
    assert measure(B200, shallow).useful_fraction < measure(B200, ENTRY).useful_fraction - 0.1


def test_sweep_answers_in_order_whatever_the_jobs() -> None:
    quick = replace(ENTRY, channels=1)
    total, points = sweep(H200, quick, jobs=1)
    found = list(points)
    assert len({point.measurement.access for point in found}) == total
    assert [p.label for p in found if p.group == "padding"][:4] == [
        "FP8 key-value packed", "FP8 key-value to 64 B", "FP8 key-value to 128 B",
        "FP8 key-value to 576 B",
    ]  # fmt: skip
    assert [p.slot_bytes for p in found if p.group == "padding"][:4] == [584, 640, 640, 1152]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"granule_bytes": 0}, "granule must be at least 1"),
        ({"granule_bytes": 1 << 25}, "expected at most 16777216"),
        ({"kind": "gathr"}, "unknown pattern 'gathr': did you mean 'gather'"),
        ({"align_bytes": 7}, "multiple of 4 .* try 8"),
        ({"kind": "stream", "align_bytes": 64}, "has no alignment"),
        ({"outstanding": 0}, "outstanding must be at least 1"),
        ({"write_fraction": 1.5}, "write-fraction is 1.5, expected 0 to 1"),
    ],
)
def test_bad_patterns(fault: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(ENTRY, **fault)  # type: ignore[arg-type]
