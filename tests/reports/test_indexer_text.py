"""Tables and sentences of an indexer study, from made-up points."""

from dataclasses import replace

from reports.indexer_page import indexer_figures
from reports.indexer_rows import study_to_json
from reports.indexer_text import accuracy_table, cost_table, effect_table, study_sentence
from simulator.indexer.accuracy import AccuracyPoint
from simulator.indexer.cost import CostPoint
from simulator.indexer.effects import Effect
from simulator.indexer.scores import Variant
from simulator.indexer.study import IndexerStudy, StudyQuestion

FP8 = CostPoint(
    chip="h200",
    context=1024,
    precision="fp8",
    math="FP8 units",
    requests=2,
    key_bytes=132,
    query_bytes=8448,
    scan_layers=21,
    scan_bytes=67584,
    scan_ps=4_000_000,
    scan_bytes_per_s=16.896e9,
    peak_bytes_per_s=4.8e12,
    bound="memory",
    step_ps=2_000_000_000,
    scan_share=0.042,
    cache_bytes_per_token=3850.25,
    capacity_tokens=1000,
)
FP4 = replace(
    FP8, precision="fp4", key_bytes=68, scan_ps=3_000_000, step_ps=1_900_000_000, scan_share=0.03
)
POINT = AccuracyPoint(
    distribution="isotropic",
    entries=2048,
    variant=Variant(precision="fp4", hadamard=True),
    recall=0.875,
    worst_recall=0.85,
    planted_recall=None,
    score_error=0.2,
    output_change=0.01,
    missed_attention=0.02,
)


def study(costs=(FP4, FP8), **changes):
    eight = replace(POINT, variant=Variant(precision="fp8", hadamard=True), recall=0.97)
    shorter = replace(POINT, entries=1024, recall=0.9)
    made = IndexerStudy(
        model="v4-flash",
        top_k=512,
        heads=64,
        dim=128,
        question=StudyQuestion(model="v4-flash", batch=16),
        queries=6,
        synthetic=True,
        cases={"isotropic": "normal values"},
        costs=tuple(costs),
        accuracy=(POINT, shorter, eight, replace(eight, entries=1024)),
        effects=(),
        assumptions=("none",),
    )
    return replace(made, **changes)


def cells(table, row):
    return dict(zip(table.headings, table.rows[row], strict=True))


def test_answer_names_gain_and_loss():
    assert study_sentence(study()) == (
        "FP4 index keys instead of FP8: a layer's scan at 1,024 tokens takes 3 us instead of 4 us "
        "on h200 (step -5.0 %). With Hadamard rotation, of float32's top 512 among 2,048 synthetic "
        "keys FP4 finds 87.5 %, FP8 97.0 %."
    )


def test_cost_cells():
    fp4 = cells(cost_table(study()), 0)
    assert fp4["chip, context, keys"] == "h200, 1,024, FP4"
    assert fp4["step against\nFP8 keys"] == "-5.0 %"
    assert fp4["of\npeak"] == "0.4 %"
    assert fp4["scan of\nstep"] == "3.0 %"
    assert cells(cost_table(study()), 1)["step against\nFP8 keys"] == "–"


def test_a_step_that_does_not_fit_is_said_with_its_reason():
    costs = [replace(p, step_ps=None, scan_share=None, misfit="3 GiB short") for p in (FP4, FP8)]
    table = cost_table(study(costs))
    assert table.note.count("No step on h200 at 1,024: 3 GiB short.") == 1
    assert cells(table, 0)["step"] == "–"
    assert "step" not in study_sentence(study(costs))
    figures = indexer_figures(study(costs))
    assert figures["share"]["data"] == []
    assert len(figures["latency"]["data"]) == 2


def test_accuracy_has_the_longest_context_first_and_says_synthetic():
    table = accuracy_table(study())
    found = cells(table, 0)
    assert (found["recall"], found["recall at\n1,024"]) == ("87.5 %", "90.0 %")
    assert found["planted\nfound"] == "–"
    nearly = replace(POINT, recall=0.9998, missed_attention=0.0001)
    found = cells(accuracy_table(study(accuracy=(nearly,))), 0)
    assert (found["recall"], found["attention\nmissed"]) == (">99.9 %", "<0.1 %")
    assert "synthetic" in table.note
    assert "synthetic" not in accuracy_table(study(synthetic=False)).note


def test_a_published_figure_stands_beside_ours():
    effect = Effect(
        name="bytes", unit="%", published=-31.0, computed=-31.27, digits=0, source="arithmetic"
    )
    assert effect_table([effect]).rows == (("bytes", "-31 %", "-31.3 %", "arithmetic", ""),)


def test_json_has_units_in_names():
    data = study_to_json(study())
    assert data["costs"][0]["layer_scan_ps"] == 3_000_000
    assert data["accuracy"][0]["recall"] == 0.875
    assert data["accuracy"][0]["planted_recall"] is None
