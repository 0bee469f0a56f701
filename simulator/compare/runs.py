"""Runs of serve, plan and capacity side by side, from the JSON that they left.

Each has totals, in whole units, that are sums of parts: mean seconds of a whole answer by what a
request waits for, dollars a million output tokens by what the chips do, bytes of a chip's memory by
term. Differences of the parts therefore add up to the difference of the totals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.basis.errors import InputError
from simulator.compare.comparison import Row
from simulator.kernels.causes import shared_out

TIME, DOLLARS, BYTES = "ps", "nano USD", "B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A total as whole numbers of `unit` by part."""

    name: str
    unit: str
    parts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSide:
    """One run: what was asked, flat by name, its totals, and other figures by name."""

    name: str
    kind: str
    asked: Mapping[str, Any]
    totals: tuple[Total, ...]
    figures: Mapping[str, float | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs of a kind or more; differences are against the first."""

    sides: tuple[RunSide, ...]

    def asked(self) -> list[tuple[str, tuple[Any, ...]]]:
        """What was not asked alike, with the values of all sides."""
        names = dict.fromkeys(name for side in self.sides for name in side.asked)
        found = [(name, tuple(side.asked.get(name) for side in self.sides)) for name in names]
        return [(name, values) for name, values in found if any(v != values[0] for v in values)]

    def rows(self, place: int) -> tuple[Row, ...]:
        """Parts of a total, the largest change first, and the total itself last."""
        totals = [side.totals[place] for side in self.sides]
        names = dict.fromkeys(name for total in totals for name in total.parts)
        rows = [Row(name=n, times_ps=tuple(t.parts.get(n, 0) for t in totals)) for n in names]
        rows = [row for row in rows if any(row.times_ps)]
        rows.sort(key=lambda row: (-row.moved_ps, -max(row.times_ps)))
        whole = tuple(sum(total.parts.values()) for total in totals)
        return (*rows, Row(name=totals[0].name, times_ps=whole))


def compare_runs(sides: Sequence[RunSide]) -> RunComparison:
    """Sides checked to be of one kind. Raises InputError for others."""
    kinds = sorted({side.kind for side in sides})
    if len(kinds) > 1:
        raise InputError(
            f"runs of different kinds ({', '.join(kinds)}) have no totals in common; compare runs "
            "of one command"
        )
    if len(sides) < 2:
        raise InputError(f"{len(sides)} run is given, expected at least 2 to compare; give another")
    return RunComparison(sides=tuple(sides))


def run_side(name: str, data: Mapping[str, Any], path: str) -> RunSide:
    """A run as a side. Raises InputError where the JSON is of no kind that is compared."""
    kind = kind_of(data)
    if kind not in _READERS:
        raise InputError(
            f"{path}: is no answer that can be compared; v4sim step, serve, plan and capacity "
            "write such with --out DIR or --json FILE"
        )
    try:
        return _READERS[kind](name, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: not the JSON of a {kind} run ({error} is missing or of another kind); write "
            "it anew"
        ) from None


def kind_of(data: object) -> str:
    """Which command left the JSON; empty where none of those did."""
    if not isinstance(data, Mapping):
        return ""
    schema = str(data.get("schema", ""))
    if schema.startswith("v4sim.") and "/" in schema:
        return schema.partition(".")[2].partition("/")[0]
    if "best_of_each" in data and "tried" in data:
        return "plan"
    return "capacity" if {"verdict", "memory_bytes"} <= set(data) else ""


def _served(name: str, data: Mapping[str, Any]) -> RunSide:
    finished = data["counts"]["finished"]
    time_ns: Mapping[str, int] = data["answer_time_ns"]
    mean_ps = round(sum(time_ns.values()) * 1000 / max(1, finished))
    money, rates, latencies = data["money"], data["rates"], data["latencies"]
    bearing = money["usd_per_million_output_bearing_all"] or 0.0
    chips_usd = (money["usd"] or 0.0) - sum(use["usd"] for use in money["storage"])
    weights = {what: share * chips_usd for what, share in money["time"].items()}
    weights |= {f"storage on {use['name']}": use["usd"] for use in money["storage"]}
    goodput = data["goodput"]
    return RunSide(
        name=name,
        kind="serve",
        asked=_flat(data["scenario"]),
        totals=(
            Total(name="whole answer, mean", unit=TIME, parts=_shared(mean_ps, time_ns)),
            Total(
                name="a million output tokens, bearing all",
                unit=DOLLARS,
                parts=_shared(round(bearing * 1e9), weights),
            ),
        ),
        figures={
            "chips": data["chips"],
            "requests finished": finished,
            "requests/s": rates["requests_per_s"],
            "output tokens/s a chip": rates["output_tokens_per_s_chip"],
            "goodput, requests/s": goodput and goodput["requests_per_s"],
            "TTFT p50, s": latencies["ttft_s"]["p50"],
            "TTFT p99, s": latencies["ttft_s"]["p99"],
            "TPOT p50, ms": latencies["tpot_ms"]["p50"],
            "TPOT p99, ms": latencies["tpot_ms"]["p99"],
        },
    )


def _planned(name: str, data: Mapping[str, Any]) -> RunSide:
    best = data["best"]
    if best is None:
        raise InputError(f"{name}: no plan of it meets the targets ({data['sentence']})")
    load = best["load"]
    chips_usd = best["usd"] - best["storage_usd"]
    idle = max(0.0, 1 - load["prompt_share"] - load["answer_share"])
    weights = {
        "prompts": load["prompt_share"] * chips_usd,
        "answers": load["answer_share"] * chips_usd,
        "idle": idle * chips_usd,
        "storage": best["storage_usd"],
    }
    whole = round(best["usd_per_million_output"] * 1e9)
    return RunSide(
        name=name,
        kind="plan",
        asked={"question": data["question"], **_flat(best["scenario"])},
        totals=(
            Total(
                name="a million output tokens, bearing all",
                unit=DOLLARS,
                parts=_shared(whole, weights),
            ),
        ),
        figures={
            "chips": best["chips"],
            "replicas": best["replicas"],
            "USD a month": best["usd_per_month"],
            "USD a request": best["usd_per_request"],
            **{f"{own['name']}, {own['unit']}": own["found"] for own in best["targets"]},
            "binds": best["binds"],
        },
    )


def _fitted(name: str, data: Mapping[str, Any]) -> RunSide:
    asked = {key: own for key, own in data.items() if key in _CAPACITY_ASKED}
    contexts = data["contexts"]
    pools = {pool["name"]: pool["bytes"] for pool in contexts[0]["pools"]}
    rest = contexts[0]["request_bytes"] - sum(pools.values())
    tokens = contexts[0]["context_tokens"]
    return RunSide(
        name=name,
        kind="capacity",
        asked={**asked, "contexts": " ".join(f"{own['context_tokens']:,}" for own in contexts)},
        totals=(
            Total(name="memory of a chip", unit=BYTES, parts=data["memory_bytes"]),
            Total(
                name=f"a request of {tokens:,} tokens",
                unit=BYTES,
                parts={**pools, "rounding up": rest} if rest else pools,
            ),
        ),
        figures={
            "verdict": data["verdict"],
            "requests at once": data["requests"],
            "tokens in the cache": data["tokens"],
            "binds": data["binds"],
        },
    )


_CAPACITY_ASKED = (
    *("model", "chip", "count", "tp", "dp", "ep", "pp", "cp", "engine", "kv_dtype", "index_dtype"),
    *("expert_dtype", "in_flight_tokens", "draft_tokens", "memory_share", "wanted_requests"),
)
_READERS: dict[str, Callable[[str, Mapping[str, Any]], RunSide]] = {
    "serve": _served,
    "plan": _planned,
    "capacity": _fitted,
}


def _shared(whole: int, weights: Mapping[str, float]) -> dict[str, int]:
    """A whole number divided by weights, exactly."""
    return shared_out(whole, weights, {name: place for place, name in enumerate(weights)})


def _flat(data: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested keys with dots, as `--set` takes them; those without a value are left out."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}.")
        elif value is not None and value != []:
            found[before + key] = value
    return found
