"""The carried runs of a reference simulator, row by row on our model."""

from tests.validation.dram_rows import TABLE, dram_statistics


def test_all_runs_are_carried(dram_runs):
    assert len(dram_runs) == 175
    assert {run.config for run in dram_runs} == {"hbm2_2400_ab", "hbm3_5200_ab"}
    assert "MIT" in (TABLE.parent / "README.md").read_text()


def test_one_channel(dram_runs):
    found = dram_statistics([run for run in dram_runs if run.channels == 1])
    assert found.n > 50
    assert found.bandwidth_worst <= 0.01
    assert found.bandwidth_median < 0.002
    assert found.p50_worst <= 0.03


def test_sixteen_channels(dram_runs):
    found = dram_statistics([run for run in dram_runs if run.channels == 16])
    assert found.n > 50
    assert found.bandwidth_worst <= 0.02
    assert found.p50_worst <= 0.03
