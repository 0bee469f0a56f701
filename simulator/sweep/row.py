"""One run as one row: plain numbers with their units in the names, the most asked for first."""

from __future__ import annotations

from simulator.serve.metrics import Summary, summarize
from simulator.serve.money import Bill, bill_of
from simulator.serve.run import ServingRun
from simulator.serve.spread import Spread

Value = int | float | str | bool | None
HOURS_A_MONTH = 730.5
_QUANTILES = ("p50", "p90", "p99", "mean")


def point_row(run: ServingRun) -> dict[str, Value]:
    """Figures of a run, as its summary and its bill have them; None where one does not exist."""
    summary, bill = summarize(run), bill_of(run)
    return {
        "chips": run.chips,
        **_first(summary, bill),
        **_latencies(summary),
        **_goodput(summary),
        **_counts(summary),
        **_rates(summary),
        **_money(bill, summary),
        **_soundness(summary),
    }


def _first(summary: Summary, bill: Bill) -> dict[str, Value]:
    return {
        "usd_per_million_output_bearing_all": bill.usd_per_million_output_bearing_all,
        "output_tokens_per_s_chip": summary.rates.output_tokens_per_s_chip,
        "is_saturated": summary.saturation is not None,
    }


def _latencies(summary: Summary) -> dict[str, Value]:
    found = summary.latencies
    spreads: dict[str, Spread | None] = {
        "ttft_s": found.ttft_s,
        "tpot_ms": found.tpot_ms,
        "itl_ms": found.itl_ms,
        "queueing_s": found.queueing_s,
        "latency_s": found.latency_s,
    }
    return {
        f"{name}_{quantile}": None if spread is None else float(getattr(spread, quantile))
        for quantile in _QUANTILES
        for name, spread in spreads.items()
    }


def _goodput(summary: Summary) -> dict[str, Value]:
    """Of scenarios with service levels."""
    found = summary.goodput
    return {
        "levels_met": None if found is None else all(level.is_met for level in found.levels),
        "goodput_share": None if found is None else found.share,
        "goodput_requests_per_s": None if found is None else found.requests_per_s,
        "goodput_output_tokens_per_s": None if found is None else found.output_tokens_per_s,
    }


def _counts(summary: Summary) -> dict[str, Value]:
    found = summary.counts
    return {
        "requests": found.requests,
        "finished": found.finished,
        "refused": sum(found.refused.values()),
        "preemptions": found.preemptions,
        "input_tokens": found.input_tokens,
        "hit_tokens": found.hit_tokens,
        "computed_tokens": found.computed_tokens,
        "recomputed_tokens": found.recomputed_tokens,
        "output_tokens": found.output_tokens,
        "steps": found.steps,
    }


def _rates(summary: Summary) -> dict[str, Value]:
    found = summary.rates
    return {
        "span_s": found.span_s,
        "requests_per_s": found.requests_per_s,
        "input_tokens_per_s": found.input_tokens_per_s,
        "computed_tokens_per_s": found.computed_tokens_per_s,
        "output_tokens_per_s": found.output_tokens_per_s,
        "input_tokens_per_s_chip": found.input_tokens_per_s_chip,
        "busy_share": found.busy_share,
        "in_system": found.in_system,
    }


def _money(bill: Bill, summary: Summary) -> dict[str, Value]:
    """`usd_per_million_tokens`: of input, hits among them, and output; a month has 730.5 hours."""
    energy, counts = bill.energy, summary.counts
    tokens = counts.input_tokens + counts.output_tokens
    hours = bill.chip_seconds / bill.chips / 3600

    def usd_over(amount: float) -> float | None:
        return None if bill.usd is None or not amount else bill.usd / amount

    return {
        "usd_per_million_tokens": usd_over(tokens / 1e6),
        "usd_per_request": usd_over(counts.finished),
        "usd_per_month": usd_over(hours / HOURS_A_MONTH),
        "usd_per_chip_hour": bill.usd_per_chip_hour,
        "usd": bill.usd,
        "usd_per_million_input_miss": bill.usd_per_million_input_miss,
        "usd_per_million_input_hit": bill.usd_per_million_input_hit,
        "usd_per_million_output": bill.usd_per_million_output,
        "chip_seconds": bill.chip_seconds,
        "joules": None if energy is None else energy.joules,
        "joules_per_output_token": None if energy is None else energy.joules_per_output_token,
    }


def _soundness(summary: Summary) -> dict[str, Value]:
    """Laws that the run broke, by name, and what overload says: both empty where all is well."""
    broken = "; ".join(check.name for check in summary.checks if not check.holds)
    said = "" if summary.saturation is None else summary.saturation.sentence
    return {"broken_laws": broken, "saturation": said}
