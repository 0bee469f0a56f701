"""A study of the indexer as tables of text, for terminal and page."""

from __future__ import annotations

from collections.abc import Sequence

from reports.memory_text import TextTable
from reports.quantity import count_text, share_text, traffic_text
from simulator.basis.units import format_time_ps
from simulator.indexer.accuracy import AccuracyPoint
from simulator.indexer.cost import CostPoint
from simulator.indexer.effects import Effect
from simulator.indexer.study import IndexerStudy

SYNTHETIC = (
    "Keys and queries are synthetic: these shares compare formats, and are no forecast for a "
    "trained model, whose own q, k and w --npz takes."
)


def study_tables(study: IndexerStudy) -> list[TextTable]:
    """Cost, accuracy, and published figures."""
    return [cost_table(study), accuracy_table(study), effect_table(study.effects)]


def study_sentence(study: IndexerStudy) -> str:
    """What FP4 keys gain and lose against FP8, in a sentence a side."""
    return f"{_gain(study)} {_loss(study)}"


def _gain(study: IndexerStudy) -> str:
    longest = max(point.context for point in study.costs)
    found = {(p.chip, p.precision): p for p in study.costs if p.context == longest}
    texts = []
    for chip in dict.fromkeys(point.chip for point in study.costs):
        fp4, fp8 = found[chip, "fp4"], found[chip, "fp8"]
        texts.append(
            f"{format_time_ps(fp4.scan_ps)} instead of {format_time_ps(fp8.scan_ps)} on {chip}"
            f"{_step_change(fp4, fp8)}"
        )
    return (
        f"FP4 index keys instead of FP8: a layer's scan at {longest:,} tokens takes "
        f"{', '.join(texts)}."
    )


def _step_change(point: CostPoint, base: CostPoint) -> str:
    if point.step_ps is None or base.step_ps is None:
        return ""
    return f" (step {100 * (point.step_ps / base.step_ps - 1):+.1f} %)"


def _loss(study: IndexerStudy) -> str:
    longest = max(point.entries for point in study.accuracy)
    ranges = {}
    for precision in ("fp4", "fp8"):
        recalls = [
            point.recall
            for point in study.accuracy
            if point.entries == longest
            and point.variant.precision == precision
            and point.variant.hadamard
        ]
        low, high = (f"{100 * r:.1f}" for r in (min(recalls), max(recalls)))
        ranges[precision] = f"{low} %" if low == high else f"{low} to {high} %"
    keys = "synthetic keys" if study.synthetic else "the file's keys"
    return (
        f"With Hadamard rotation, of float32's top {study.top_k:,} among {longest:,} {keys} FP4 "
        f"finds {ranges['fp4']}, FP8 {ranges['fp8']}."
    )


def cost_table(study: IndexerStudy) -> TextTable:
    """A line a chip, context and precision."""
    base = {(p.chip, p.context): p for p in study.costs if p.precision == "fp8"}
    first = study.costs[0]
    chips = count_text(study.question.count, "chip")
    engines = study.question.engine or "each chip's default engine"
    misfits = {(p.chip, p.context): p.misfit for p in reversed(study.costs) if p.misfit}
    note = (
        f"A decode step of {study.model} for {study.question.batch:,} requests on {chips} "
        f"(attention data-parallel, experts split): {count_text(first.requests, 'request')} and "
        f"{first.scan_layers} scans a chip. Scan bytes and time are of one layer. Kernels are "
        f"those of {engines}; formats that they were not measured in are priced by bytes, math and "
        "conversion. A scan's share of the step is what the "
        "step's end waits for: none where the scan hides beside other kernels. Tokens are "
        "those that one chip's pools hold at this context."
    )
    return TextTable(
        title="Cost of the index scan",
        note=" ".join(
            [note, *(f"No step on {c} at {n:,}: {why}." for (c, n), why in misfits.items())]
        ),
        headings=(
            "chip, context, keys", "B a\nkey", "scan\ntime", "GB/s", "scan of\nstep",
            "step against\nFP8 keys", "cache B\na token", "step", "of\npeak", "scan\nbytes",
            "B a\nquery", "tokens\na chip", "bound by", "runs on",
        ),
        rows=tuple(_cost_cells(p, base[p.chip, p.context]) for p in study.costs),
    )  # fmt: skip


def _cost_cells(point: CostPoint, base: CostPoint) -> tuple[str, ...]:
    step = share = change = "–"
    if point.step_ps is not None and point.scan_share is not None:
        step, share = format_time_ps(point.step_ps), _percent(point.scan_share)
        if base.step_ps is not None and point is not base:
            change = f"{100 * (point.step_ps / base.step_ps - 1):+.1f} %"
    return (
        f"{point.chip}, {point.context:,}, {point.precision.upper()}",
        str(point.key_bytes),
        format_time_ps(point.scan_ps),
        f"{point.scan_bytes_per_s / 1e9:,.0f}",
        share,
        change,
        f"{point.cache_bytes_per_token:,.2f}",
        step,
        _percent(point.scan_bytes_per_s / point.peak_bytes_per_s),
        traffic_text(point.scan_bytes),
        f"{point.query_bytes:,}",
        f"{point.capacity_tokens:,}",
        point.bound,
        point.math,
    )


def accuracy_table(study: IndexerStudy) -> TextTable:
    """A line a distribution and variant: everything at the longest context, recall at the rest."""
    rows: dict[tuple[str, str], list[AccuracyPoint]] = {}
    for point in study.accuracy:
        rows.setdefault((point.distribution, point.variant.name), []).append(point)
    shorter = sorted({point.entries for point in study.accuracy}, reverse=True)[1:]
    cases = " ".join(f"{name}: {about}." for name, about in study.cases.items())
    return TextTable(
        title="Accuracy of the picks",
        note=f"{SYNTHETIC + ' ' if study.synthetic else ''}{_measured(study)} {cases}",
        headings=(
            "keys and queries", "recall", "worst\nquery", "planted\nfound", "score\nerror",
            "output\nchange", "attention\nmissed",
            *(f"recall at\n{entries:,}" for entries in shorter),
        ),
        rows=tuple(
            _accuracy_cells(f"{case}, {variant}", points)
            for (case, variant), points in rows.items()
        ),
    )  # fmt: skip


def _measured(study: IndexerStudy) -> str:
    return (
        f"{count_text(study.queries, 'query', 'queries')} of {study.heads} heads x {study.dim}, "
        f"top {study.top_k:,}, against float32, at {max(p.entries for p in study.accuracy):,} "
        "entries; queries are rounded as keys are. Error: root mean square, in standard "
        "deviations of the scores. Output: relative change of the attention output. Missed: "
        "attention that float32's picks would get."
    )


def _accuracy_cells(name: str, points: Sequence[AccuracyPoint]) -> tuple[str, ...]:
    last, *shorter = sorted(points, key=lambda point: -point.entries)
    planted = "–" if last.planted_recall is None else _percent(last.planted_recall)
    return (
        name,
        _percent(last.recall),
        _percent(last.worst_recall),
        planted,
        f"{last.score_error:.4f}",
        _percent(last.output_change),
        _percent(last.missed_attention),
        *(_percent(point.recall) for point in shorter),
    )


def _percent(share: float) -> str:
    """One decimal; what is neither nothing nor all never reads as such."""
    return share_text(share, 1)


def effect_table(effects: Sequence[Effect]) -> TextTable:
    """A line a published figure, ours beside it."""
    return TextTable(
        title="Published figures, and ours",
        note="",
        headings=("figure", "published", "computed", "source", "remark"),
        rows=tuple(
            (
                effect.name,
                f"{effect.published:.{effect.digits}f} {effect.unit}",
                f"{effect.computed:.{effect.digits + 1}f} {effect.unit}",
                effect.source,
                effect.remark,
            )
            for effect in effects
        ),
    )
