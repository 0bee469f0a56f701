"""Prefix caching: an agent trace counted and on tiers, and the real one where it is at hand."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.bench.commands import run
from tests.bench.line import Line

POLICIES = "full,periodic:512,boundary,periodic:4096+boundary,zero"
REQUESTS = 49_334


def lines() -> list[Line]:
    """Wall time and memory of fresh processes, reading included."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "agents.jsonl"
        run(
            *("trace", "synth", "--out", str(trace), "--sessions", "710"),
            *("--requests", str(REQUESTS), "--input-mean", "122000"),
            *("--last-input-mean", "183000"),
        )
        agents = run(*_compare(trace))
        tiers = run("prefix", "compare", "--trace", str(trace), "--policies", POLICIES)
    found = [
        Line(what="prefix compare, agent trace of 49,334", value=agents.seconds, unit="s", most=30),
        Line(what="  requests", value=REQUESTS / agents.seconds, unit="a second"),
        Line(what="  peak memory", value=agents.peak_mib, unit="MiB", most=1430),
    ]
    found += [
        Line(what="prefix compare on tiers, five policies", value=tiers.seconds, unit="s", most=30),
        Line(what="  requests", value=REQUESTS / tiers.seconds, unit="a second"),
        Line(what="  peak memory", value=tiers.peak_mib, unit="MiB", most=1430),
    ]
    traces = os.environ.get("V4SIM_TRACES")
    if traces is None:
        print("prefix compare on the Mooncake trace: V4SIM_TRACES names no folder")
        return found
    mooncake = run(*_compare(Path(traces) / "mooncake_conversation.jsonl.gz"))
    return [
        *found,
        Line(what="prefix compare, Mooncake trace", value=mooncake.seconds, unit="s", most=3),
        Line(what="  requests", value=12_031 / mooncake.seconds, unit="a second"),
        Line(what="  peak memory", value=mooncake.peak_mib, unit="MiB"),
    ]


def _compare(trace: Path) -> tuple[str, ...]:
    return ("prefix", "compare", "--trace", str(trace), "--reference", "--policies", POLICIES)
