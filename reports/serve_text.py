"""A serving run in words and tables, for the terminal and the page."""

from __future__ import annotations

from reports.memory_text import TextTable
from reports.quantity import count_text, number_text, scaled_text, share_text, traffic_text
from reports.served import Served
from simulator.basis.units import format_rate
from simulator.engine.default_engine import engine_text
from simulator.serve.scenario import Parallel
from simulator.serve.spread import Spread

_DASH = "–"


def machine_text(served: Served) -> str:
    """Model, chips and layout."""
    scenario = served.run.scenario
    parts = [f"{count_text(scenario.replicas, 'replica')}", *_degrees(scenario.parallel)]
    split = scenario.disaggregation
    apart = ""
    if split is not None:
        prefill = [count_text(split.prefill_replicas, "replica") + " for prefill alone"]
        apart = "; " + ", ".join([*prefill, *_degrees(split.prefill_parallel or scenario.parallel)])
    asked = served.run.deployment.asked
    machine = f"{asked.config.name} on {served.run.chips} x {asked.chip.name}"
    return f"{machine} ({', '.join(parts)}{apart}) with {engine_text(asked.question.engine)}"


def _degrees(parallel: Parallel) -> list[str]:
    """Degrees of a layout that are not one."""
    degrees = {"tp": parallel.tp, "dp": parallel.dp, "pp": parallel.pp, "cp": parallel.cp}
    named = [f"{name} {degree}" for name, degree in degrees.items() if degree > 1]
    return named + ([f"ep {parallel.ep}"] if parallel.ep else [])


def serve_sentence(served: Served) -> str:
    """The answer: what is served, how fast, within the levels or not, for how much."""
    summary, bill = served.summary, served.bill
    rates, waits = summary.rates, summary.latencies
    parts = [
        f"{machine_text(served)} serves {rates.requests_per_s:.3g} requests/s with "
        f"{number_text(rates.output_tokens_per_s)} output tokens/s"
    ]
    if summary.goodput is not None:
        levels = [
            f"{level.name} {number_text(level.found)} {level.unit} is "
            f"{'within' if level.is_met else 'above'} {level.asked:g}"
            for level in summary.goodput.levels
        ]
        parts.append(" and ".join(levels))
    elif waits.ttft_s is not None:
        parts.append(f"TTFT p99 is {number_text(waits.ttft_s.p99)} s")
    if bill.usd_per_million_output_bearing_all is not None:
        parts.append(
            f"{_usd(bill.usd_per_million_output_bearing_all)} a million output tokens, "
            "prompts included"
        )
    return "; ".join(parts) + "."


def law_sentence(served: Served) -> str:
    """Whether the run kept the laws that all runs are held to."""
    checks = served.summary.checks
    broken = [check.sentence for check in checks if not check.holds]
    if broken:
        return f"This run breaks {len(broken)} of {len(checks)} laws: {'; '.join(broken)}."
    little = next(check for check in checks if check.name.startswith("Little"))
    return (
        f"All {len(checks)} laws hold: nothing is lost, step log and request log agree, and "
        f"Little's law: {little.left:.6g} requests in the system, rate x latency "
        f"{little.right:.6g}."
    )


def alarms(served: Served) -> list[str]:
    """What a reader must not miss: saturation, refusals, requests that never ended."""
    summary, counts = served.summary, served.summary.counts
    found = []
    if summary.saturation is not None:
        found.append(summary.saturation.sentence)
    found += served.priced_as
    for pool, count in counts.refused.items():
        found.append(
            f"{count_text(count, 'request')} refused: even alone too long for {pool}; "
            "shorten them, or see v4sim capacity for what would hold them"
        )
    if counts.unfinished:
        found.append(f"{count_text(counts.unfinished, 'request')} never ended")
    return found


def transfer_sentence(served: Served) -> str | None:
    """What goes from prefill to decode replicas, how much a request, and how long that takes."""
    found = served.run.transfers
    if found is None or not found.requests:
        return None
    largest = sorted(found.pool_bytes.items(), key=lambda item: -item[1])
    parts = [f"{name} {share_text(taken, found.sent_bytes)}" for name, taken in largest if taken]
    how = "layer by layer beside the prompt" if found.by_layer else "when the prompt is done"
    return (
        f"From prefill to decode: {traffic_text(found.sent_bytes / found.requests)} of state a "
        f"request in the mean ({', '.join(parts)}), sent {how} at "
        f"{format_rate(found.link_bytes_per_s, 'B/s')} a data rank: a request waits "
        f"{found.mean_wait_s * 1e3:,.3g} ms for it in the mean; "
        f"{traffic_text(found.sent_bytes)} in all for {count_text(found.requests, 'request')}."
    )


def serve_tables(served: Served) -> list[TextTable]:
    """Latencies, load, and money."""
    tables = [_latencies(served), _load(served)]
    if served.summary.goodput is not None:
        tables.append(_goodput(served))
    return [*tables, _money(served)]


def _latencies(served: Served) -> TextTable:
    waits = served.summary.latencies
    rows = [
        ("time to first token, s", waits.ttft_s),
        ("the same at the client, s", waits.client_ttft_s),
        ("time per output token, ms", waits.tpot_ms),
        ("between tokens (ITL), ms", waits.itl_ms),
        ("whole answer, s", waits.latency_s),
        ("in the queue, s", waits.queueing_s),
    ]
    return TextTable(
        title="Latency",
        note="From arrival at the server; the client's begins when it sends, before the tokenizer.",
        headings=("", "mean", "p50", "p90", "p99", "most"),
        rows=tuple((name, *_spread(spread)) for name, spread in rows),
    )


def _spread(spread: Spread | None) -> tuple[str, ...]:
    if spread is None:
        return (_DASH,) * 5
    numbers = (spread.mean, spread.p50, spread.p90, spread.p99, spread.most)
    return tuple(number_text(number) for number in numbers)


def _load(served: Served) -> TextTable:
    counts, rates = served.summary.counts, served.summary.rates
    steps_s = counts.steps / rates.span_s
    rows = (
        ("requests", f"{counts.finished:,}", f"{rates.requests_per_s:.3g}", _DASH),
        _tokens("input tokens", counts.input_tokens, served),
        _tokens("of these, prefix hits", counts.hit_tokens, served),
        _tokens("computed for prompts", counts.computed_tokens, served),
        _tokens("of these, recomputed", counts.recomputed_tokens, served),
        _tokens("output tokens", counts.output_tokens, served),
        ("preemptions", f"{counts.preemptions:,}", _DASH, _DASH),
        ("steps", f"{counts.steps:,}", f"{steps_s:.3g}", _DASH),
    )
    return TextTable(
        title="Load",
        note=f"Over {number_text(rates.span_s)} s from the first arrival to the last token; "
        f"replicas are busy {share_text(rates.busy_share, 1)} of it, and "
        f"{number_text(rates.in_system)} requests are in the system on average. "
        f"{use_sentence(served)}".strip(),
        headings=("", "in all", "a second", "a second\nand chip"),
        rows=rows,
    )


def _tokens(name: str, count: int, served: Served) -> tuple[str, ...]:
    rate = count / served.summary.rates.span_s
    if not count:
        return name, "0", _DASH, _DASH
    return name, f"{count:,}", scaled_text(rate), scaled_text(rate / served.run.chips)


def use_sentence(served: Served) -> str:
    """What the chips were busy with, where that was asked for."""
    if served.use is None:
        return ""
    shown = {"matrix": "matrix units", "memory": "memory", "link": "links"}
    parts = [f"{text} {share_text(served.use.mean[name], 1)}" for name, text in shown.items()]
    return f"Needed on average: {', '.join(parts)} of the time."


def _goodput(served: Served) -> TextTable:
    goodput = served.summary.goodput
    assert goodput is not None
    rows = [
        (
            level.name,
            f"{level.asked:g} {level.unit}",
            f"{number_text(level.found)} {level.unit}",
            "met" if level.is_met else "missed",
        )
        for level in goodput.levels
    ]
    return TextTable(
        title="Service levels",
        note=f"{goodput.requests:,} requests ({share_text(goodput.share, 1)}) keep all levels "
        f"themselves: goodput {goodput.requests_per_s:.3g} requests/s and "
        f"{number_text(goodput.output_tokens_per_s)} output tokens/s.",
        headings=("", "asked", "found", ""),
        rows=tuple(rows),
    )


def _money(served: Served) -> TextTable:
    bill = served.bill
    rows = [
        ("a million input tokens, computed", _usd(bill.usd_per_million_input_miss)),
        ("a million input tokens, hit", _usd(bill.usd_per_million_input_hit)),
        ("a million output tokens", _usd(bill.usd_per_million_output)),
        ("a million output tokens, bearing all", _usd(bill.usd_per_million_output_bearing_all)),
        ("the run", _usd(bill.usd)),
        ("chip time", f"{number_text(bill.chip_seconds)} chip-s"),
    ]
    if bill.energy is not None:
        rows.append(("energy", format_rate(bill.energy.joules, "J")))
        if bill.energy.joules_per_output_token is not None:
            each = number_text(bill.energy.joules_per_output_token)
            rows.append(("energy an output token", f"{each} J"))
        if bill.energy.kwh_usd:
            rows.append(("electricity, on top", _usd(bill.energy.kwh_usd)))
    for use in bill.storage:
        rows.append((f"{use.name}, held", f"{number_text(use.gb_hours)} GB-h"))
        if use.written_bytes:
            wear = (
                "" if use.wear_share is None else f" ({share_text(use.wear_share, 1, 4)} of life)"
            )
            rows.append((f"{use.name}, written", format_rate(use.written_bytes, "B") + wear))
    return TextTable(
        title="Cost",
        note=f"{bill.price}. {_time_note(served)}",
        headings=("", "USD or as stated"),
        rows=tuple(rows),
    )


def _time_note(served: Served) -> str:
    time, energy = served.bill.time, served.bill.energy
    text = (
        f"Chip time: {share_text(time.prompts, 1)} for prompts, {share_text(time.answers, 1)} for "
        f"answers, {share_text(time.idle, 1)} idle."
    )
    return text if energy is None else f"{text} Energy: {energy.basis}."


def _usd(value: float | None) -> str:
    if value is None:
        return _DASH
    return f"{number_text(value)} USD" if value else "0 USD"
