"""Runs that cannot be: each is one sentence."""

from __future__ import annotations

import pytest

from hwmodels.dram.chunks import chunk_list
from hwmodels.dram.parameters import ControllerSpec
from hwmodels.dram.pattern import Pattern, simulate
from hwmodels.dram.preset import find_preset
from hwmodels.dram.simulation import run_chunks
from simulator.basis.errors import InputError, UnsupportedError

HBM2 = find_preset("hbm2_2400")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"kind": "strided"}, "unknown pattern 'strided': known are stream, gather"),
        ({"granule_bytes": 0}, "granule_bytes is 0, expected at least 1"),
        ({"outstanding": 0}, "outstanding is 0"),
        ({"write_fraction": 1.5}, r"write_fraction is 1\.5, expected 0 to 1"),
        ({"arrival_bytes_per_s": 0.0}, "expected more than 0"),
    ],
)
def test_patterns(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Pattern(**{"kind": "gather", "granule_bytes": 64, **fields})  # type: ignore[arg-type]


def test_refresh_and_queues() -> None:
    with pytest.raises(InputError, match="unknown refresh 'sometimes'"):
        ControllerSpec(refresh="sometimes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="read_entries is 0"):
        ControllerSpec(read_entries=0)
    with pytest.raises(InputError, match="write drain between"):
        ControllerSpec(drain_below=0.9)


def test_preset_without_per_bank_numbers() -> None:
    timing = HBM2.timing.model_copy(update={"RFCpb": None, "RREFD": None})
    bare = HBM2.model_copy(update={"timing": timing})
    with pytest.raises(UnsupportedError, match="no timing RFCpb, RREFD for per-bank refresh"):
        simulate(bare, Pattern("stream", 4096, chunks=100))


def test_channels_and_interleave() -> None:
    chunks = chunk_list([0], 64)
    with pytest.raises(UnsupportedError, match="3 channels with a hashed interleave"):
        run_chunks(HBM2, chunks, channels=3)
    with pytest.raises(InputError, match="the channel interleave is 48 bytes"):
        run_chunks(HBM2, chunks, interleave_bytes=48)
    with pytest.raises(InputError, match="channels is 0"):
        simulate(HBM2, Pattern("stream", 4096, chunks=100), channels=0)


def test_chunks() -> None:
    with pytest.raises(InputError, match="the list of chunks is empty"):
        chunk_list([], 64)
    with pytest.raises(InputError, match="begins below 0 or holds no byte"):
        chunk_list([-32], 64)
    with pytest.raises(InputError, match="2 arrival times for 1 chunks"):
        chunk_list([0], 64, False, [0, 1])
    with pytest.raises(InputError, match=r"a chunk ends at byte .* hold 2147483648 bytes"):
        run_chunks(HBM2, chunk_list([2**31 - 32], 64))
    with pytest.raises(InputError, match="granule_bytes is 2000000000, more than half"):
        simulate(HBM2, Pattern("gather", 2_000_000_000))
