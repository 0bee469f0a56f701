"""The compiled loop and the plain-Python twin issue the same commands at the same ticks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hwmodels.dram.chunks import Chunks, chunk_list
from hwmodels.dram.mapping import parse_mapping
from hwmodels.dram.parameters import REFRESHES, ControllerSpec
from hwmodels.dram.preset import DramPreset, find_preset, list_presets
from hwmodels.dram.simulation import run_chunks
from tests.oracles.dram_twin import Twin

MAPPINGS = ("c2,g,p,c,b,s", "c4,g,p,c,b,s", "c8,p,g,c,b,s", "c,p,g,b,s")


def some_chunks(rng: random.Random, preset: DramPreset, count: int) -> Chunks:
    size = rng.choice([32, 64, 100, 584, 2048])
    span = rng.choice([1 << 14, 1 << 18, 1 << 24])
    starts = [rng.randrange(span) for _ in range(count)]
    if rng.random() < 0.3:
        starts = [size * i for i in range(count)]
    share = rng.choice([0.0, 0.3, 0.6])
    writes = [rng.random() < share for _ in range(count)]
    arrivals = None
    if rng.random() < 0.4:
        arrivals = np.cumsum([rng.randrange(60_000) for _ in range(count)])
    return chunk_list(starts, size, writes, arrivals)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("refresh", REFRESHES)
@pytest.mark.parametrize("name", list_presets())
def test_same_commands(name: str, refresh: str, seed: int) -> None:
    rng = random.Random(f"{name} {refresh} {seed}")
    preset = find_preset(name)
    mapping = parse_mapping(rng.choice(MAPPINGS), preset.organisation)
    channels, interleave = rng.choice([1, 2, 4]), rng.choice([32, 256, 512])
    queue, hashed = rng.choice([4, 8, 64]), rng.random() < 0.5
    spec = ControllerSpec(queue, rng.choice([queue, 2 * queue]), refresh=refresh)  # type: ignore[arg-type]
    outstanding = rng.choice([1, 3, 20, 100])
    chunks = some_chunks(rng, preset, 60)
    result = run_chunks(
        preset, chunks, channels=channels, mapping=mapping.text, interleave_bytes=interleave,
        hashed=hashed, outstanding=outstanding, spec=spec, trace_commands=20_000,
    )  # fmt: skip
    arrivals = [0] * chunks.count
    if len(chunks.arrival_ps):
        arrivals = (1 + np.rint(chunks.arrival_ps / preset.tick_ps).astype(int)).tolist()
    twin = Twin(preset, mapping, spec, channels, interleave, hashed)
    expected = twin.run(chunks, outstanding, arrivals)
    assert [tuple(map(int, line)) for line in result.trace] == expected
    assert round(max(twin.finished) * preset.tick_ps) == result.duration_ps
