"""Channels that go through many ticks alone give what all channels tick by tick give."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hwmodels.dram.chunks import Chunks, chunk_list
from hwmodels.dram.mapping import DEFAULT_MAPPING, parse_mapping
from hwmodels.dram.parameters import REFRESHES, ControllerSpec
from hwmodels.dram.preset import find_preset, list_presets
from hwmodels.dram.simulation import run_chunks
from simulator.basis.sourced import Sourced
from tests.oracles.dram_twin import Twin


def read_chunks(rng: random.Random, count: int) -> Chunks:
    """Reads of mixed sizes, so that chunks that end in the same tick differ."""
    sizes = [rng.choice([32, 64, 100, 584, 2048]) for _ in range(count)]
    span = rng.choice([1 << 14, 1 << 18, 1 << 24])
    starts = [rng.randrange(span) for _ in range(count)]
    if rng.random() < 0.3:
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
    arrivals = None
    if rng.random() < 0.5:
        gap = rng.choice([2_000, 60_000])
        arrivals = np.cumsum([rng.randrange(gap) for _ in range(count)])
    return chunk_list(starts, sizes, False, arrivals)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("refresh", REFRESHES)
@pytest.mark.parametrize("name", list_presets())
def test_same_result(name: str, refresh: str, seed: int) -> None:
    rng = random.Random(f"ahead {name} {refresh} {seed}")
    count = rng.choice([1, 40, 400])
    queue = rng.choice([4, 8, 64])
    steady = rng.random() < 0.5
    spec = ControllerSpec(queue, queue, refresh=refresh)  # type: ignore[arg-type]
    runs = [
        run_chunks(
            find_preset(name), chunks, channels=channels, interleave_bytes=interleave,
            hashed=hashed, outstanding=outstanding, spec=spec, warm_up=warm_up, steady=steady,
            trace_commands=traced,
        )
        for chunks, channels, interleave, hashed, outstanding, warm_up in [
            (
                read_chunks(rng, count), rng.choice([1, 2, 4, 8]), rng.choice([32, 256]),
                rng.random() < 0.5, rng.choice([1, 3, 20, 100]), rng.randrange(count),
            )
        ]
        for traced in (0, 1)
    ]  # fmt: skip
    assert runs[0] == runs[1]


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_sixty_four_banks(share: float) -> None:
    preset = find_preset("hbm3_5200")
    four = Sourced.model_validate(preset.organisation.stack_ids.model_dump() | {"value": 4})
    organisation = preset.organisation.model_copy(update={"stack_ids": four})
    preset = preset.model_copy(update={"organisation": organisation})
    assert preset.organisation.banks_a_pc == 64
    rng = random.Random(f"banks {share}")
    starts = [rng.randrange(1 << 26) // 64 * 64 for _ in range(150)]
    chunks = chunk_list(starts, 64, [rng.random() < share for _ in starts])
    spec = ControllerSpec(64, 64, refresh="all-bank")
    result = run_chunks(preset, chunks, outstanding=100, spec=spec, trace_commands=20_000)
    mapping = parse_mapping(DEFAULT_MAPPING, preset.organisation)
    twin = Twin(preset, mapping, spec, 1, 256, True)
    expected = twin.run(chunks, 100, [0] * chunks.count)
    assert [tuple(map(int, line)) for line in result.trace] == expected
    banks = {line[4] for line in expected}
    assert min(banks) < 8
    assert max(banks) > 55
