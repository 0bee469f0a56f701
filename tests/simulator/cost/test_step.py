"""Whole steps: the last record ends the step, bytes are those counted, faults are sentences."""

from __future__ import annotations

import pytest

from hwmodels.chip import find_chip
from reports.rates import mean_rates, rate_series
from simulator.basis.errors import InputError, UnsupportedError
from simulator.cost.question import ask
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step, rank_graph
from simulator.count.count import count_graph
from tests.calls import calls_of


def cost(**asked: object) -> StepResult:
    step = ask(**asked)  # type: ignore[arg-type]
    return cost_step(step, must_fit=False)


STEPS: list[dict[str, object]] = [
    {"model": "v4-flash", "chip": "h200", "count": 8, "batch": 64, "context": 131_072},
    {"model": "v4-pro", "chip": "b200", "count": 8, "batch": 1, "context": 1_048_576},
    {"model": "v4-flash", "chip": "b200", "count": 8, "context": 8192, "phase": "prefill"},
    {"model": "v4-flash", "chip": "mi355x", "count": 8, "dp": 8, "ep": 8, "batch": 60},
    {"model": "v4-flash", "chip": "ascend-910c", "count": 16, "dp": 4, "ep": 16, "batch": 64},
    {"model": "tiny", "chip": "h20", "batch": 3, "context": 77, "fidelity": "roofline"},
]
STEPS = [{**asked, "engine": "ideal"} for asked in STEPS]


@pytest.mark.parametrize("asked", STEPS, ids=lambda a: f"{a['model']}-{a['chip']}")
def test_the_total_is_the_end_of_the_last_record(asked: dict[str, object]) -> None:
    result = cost(**asked)
    assert result.total_ps == max(record.end_ps for record in result.kernels)
    assert min(record.start_ps for record in result.kernels) == 0
    ends: dict[int, int] = {}
    for record in result.kernels:
        assert record.start_ps >= ends.get(record.stream, 0)
        ends[record.stream] = record.end_ps
        assert record.duration_ps >= max(record.busy_ps.values())


@pytest.mark.parametrize("asked", STEPS, ids=lambda a: f"{a['model']}-{a['chip']}")
def test_every_kernel_is_explained_in_one_short_line(asked: dict[str, object]) -> None:
    result = cost(**asked)
    assert set(result.abouts) == {record.name for record in result.kernels}
    assert all(10 < len(about) < 90 for about in result.abouts.values())
    assert result.stored_expert_dtype == "fp4"


@pytest.mark.parametrize("asked", STEPS, ids=lambda a: f"{a['model']}-{a['chip']}")
def test_records_hold_what_the_count_counts(asked: dict[str, object]) -> None:
    step = ask(**asked)  # type: ignore[arg-type]
    question = step.question
    result = cost_step(step, must_fit=False)
    precision = step.deployment.formats.precision
    counted = count_graph(rank_graph(question, step.config, precision)).total
    records = result.kernels
    assert sum(r.total_flops for r in records) == counted.total_flops
    for name in ("vector_ops", "special_ops", "weight_bytes", "cache_write_bytes", "link_bytes"):
        assert sum(getattr(r, name) for r in records) == getattr(counted, name)
    assert sum(r.cache_read_bytes for r in records) == pytest.approx(
        counted.cache_read_bytes, rel=1e-6
    )
    for r in records:
        dense = r.dram_bytes - r.weight_bytes - r.cache_read_bytes - r.cache_write_bytes
        assert 0 <= dense <= r.activation_bytes
        assert r.dram_read_bytes >= r.weight_bytes + r.cache_read_bytes


@pytest.mark.parametrize("asked", STEPS, ids=lambda a: f"{a['model']}-{a['chip']}")
def test_the_roofline_of_a_step_is_no_slower(asked: dict[str, object]) -> None:
    floor = cost(**{**asked, "fidelity": "roofline"})
    assert floor.total_ps <= cost(**{**asked, "fidelity": "tile"}).total_ps


def test_equal_layers_take_equal_times() -> None:
    result = cost(**STEPS[0])
    spans: dict[str, set[int]] = {}
    for scope in ("layer05", "layer07", "layer09"):
        own = [r for r in result.kernels if r.scope == scope]
        spans.setdefault(own[0].kind, set()).add(own[-1].end_ps - own[0].start_ps)
    assert all(len(times) == 1 for times in spans.values())


def test_streams_overlap_inside_a_layer_only() -> None:
    result = cost(**STEPS[1])
    assert sum(r.duration_ps for r in result.kernels) > result.total_ps
    end = 0
    for scope in dict.fromkeys(r.scope for r in result.kernels):
        own = [r for r in result.kernels if r.scope == scope]
        assert min(r.start_ps for r in own) == end
        end = max(r.end_ps for r in own)


def test_a_million_tokens_cost_as_many_calls_as_eight_thousand() -> None:
    few, many = (calls_of(lambda n=n: cost(**STEPS[1] | {"context": n})) for n in (8192, 2**20))
    assert many < 1.2 * few


def test_progress_counts_the_layers() -> None:
    step = ask(model="tiny", chip="h200", engine="ideal")
    seen: list[tuple[int, int]] = []
    cost_step(step, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i + 1, 7) for i in range(7)]


def test_assumptions_and_notes() -> None:
    result = cost(model="v4-flash", chip="h20", count=8, dp=8, batch=9, expert_dtype="fp4")
    assert any("expert weights are converted" in note for note in result.notes)
    assert any("does not divide over 8 data ranks" in note for note in result.notes)
    assert all(line.endswith(".") for line in result.assumptions)
    assert any("last-level cache" in line for line in result.assumptions)
    single = cost(model="tiny", chip="h200", engine="ideal")
    assert not any("collective" in line for line in single.assumptions)


def test_faults_are_sentences() -> None:
    step = ask(model="v4-flash", chip="h200", count=8)
    with pytest.raises(InputError, match=r"did you mean 'tile'\?"):
        ask(model="v4-flash", chip="h200", count=8, fidelity="tiles")
    with pytest.raises(InputError, match="unknown engine 'vlm'"):
        ask(model="v4-flash", chip="h200", count=8, engine="vlm")
    with pytest.raises(UnsupportedError, match="a step with pp 2 is not timed"):
        step.changed(stages=2)
    with pytest.raises(UnsupportedError, match="16 ranks do not divide"):
        cost(model="v4-flash", chip="h200", count=16)


def test_the_peaks_are_those_of_the_chip() -> None:
    peaks = cost(model="tiny", chip="h200", engine="ideal").peaks
    chip = find_chip("h200")
    assert peaks.dram_bytes_per_s == chip.hbm_bandwidth_bytes_per_s
    assert peaks.matrix_flops_per_s["fp8xfp4"] == chip.matrix_flops_per_s("fp8")


@pytest.mark.parametrize(
    ("phase", "batch", "context"), [("decode", 64, 131072), ("prefill", 1, 8192)]
)
def test_memory_traffic_never_exceeds_the_peak_and_adds_up(phase, batch, context):
    asked = ask(
        model="v4-flash", chip="h200", count=8, phase=phase, batch=batch, context=context,
        engine="ideal",
    )  # fmt: skip
    result = cost_step(asked)
    amounts = [kernel.dram_bytes for kernel in result.kernels]
    series = rate_series(result.kernels, amounts, result.total_ps)
    assert max(series.per_second) <= asked.chip.hbm_bandwidth_bytes_per_s * (1 + 1e-6)
    (mean,) = mean_rates(series, [0, result.total_ps])
    assert mean * result.seconds == pytest.approx(sum(amounts), rel=1e-9)
