"""Streams with per-bank refresh reach the fractions of peak that were measured on silicon.

Measured: aiconfigurator-core 0.12.0 (Copyright NVIDIA, Apache-2.0). Reads: best row of GQA decode
attention, a stream of KV. Copies: median of an elementwise bf16 to fp8 kernel, two bytes read for
one written. Fractions are of the bandwidth in use: 3350, 4800 and 7700 GB/s.
"""

from __future__ import annotations

import pytest

from hwmodels.dram.pattern import Pattern, simulate

CHIPS = [
    ("hbm3_5200", 0.932, 0.915),  # H100
    ("hbm3e_6250", 0.944, 0.909),  # H200
    ("hbm3e_7800", 0.952, 0.890),  # B200
]


@pytest.mark.parametrize("channels", [1, 16])
@pytest.mark.parametrize(("preset", "read", "copy"), CHIPS)
def test_streams(preset: str, read: float, copy: float, channels: int) -> None:
    chunks = 4000 * channels // (2 if channels > 1 else 1)
    stream = simulate(preset, Pattern("stream", 4096, chunks=chunks), channels=channels)
    assert stream.useful_fraction == pytest.approx(read, abs=0.03)
    both = Pattern("stream", 4096, write_fraction=1 / 3, chunks=chunks)
    elementwise = simulate(preset, both, channels=channels)
    assert elementwise.useful_fraction == pytest.approx(copy, abs=0.03)
    assert elementwise.time_parts["turnaround"] > 0.01
