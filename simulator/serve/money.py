"""What a serving run costs: dollars a million tokens, chip time, energy, and storage kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hwmodels.chip import find_chip
from hwmodels.chip_price import find_price, priced_as
from simulator.basis.data_files import is_path, named_after
from simulator.basis.errors import InputError
from simulator.serve.deployment import simulated_ranks
from simulator.serve.run import ServingRun
from simulator.serve.scenario import Prices, Scenario
from simulator.serve.tiered_prefixes import DEVICE

NS_AN_HOUR = 3.6e12
HOURS_A_YEAR = 8766
# Servers and drives are written off over this time.
YEARS_IN_USE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """A tier that kept prefixes during the run: what it held over time, what was written to it.

    `loaded_tokens`: of hits that came from it. `wear_share`: share of the writes that the tier
    endures; None where it does not wear.
    """

    name: str
    gb_hours: float
    usd: float = 0.0
    written_bytes: int = 0
    read_bytes: int = 0
    loaded_tokens: int = 0
    wear_share: float | None = None


def storage_of(run: ServingRun) -> tuple[StorageUse, ...]:
    """Tiers of all replicas together, fastest first; none without a prefix cache.

    Assumes: a tier is paid for in whole, written off over 5 years; device memory is paid with the
        chips.
    """
    if not run.prefixes:
        return ()
    hours = run.end_ns / NS_AN_HOUR
    found = []
    for place, store in enumerate(run.prefixes[0].cache.stores):
        tier = store.tier
        stores = [prefixes.cache.stores[place] for prefixes in run.prefixes]
        written = sum(one.written_bytes for one in stores)
        usd = 0.0
        if tier.price is not None and tier.name != DEVICE:
            whole = tier.price.si * tier.capacity_bytes / 1e9 * len(stores)
            usd = whole * hours / (YEARS_IN_USE * HOURS_A_YEAR)
        years = tier.device_years(written, run.end_ns / 1e9) if written else None
        found.append(
            StorageUse(
                name=tier.name,
                gb_hours=sum(p.byte_ns[tier.name] for p in run.prefixes) / 1e9 / NS_AN_HOUR,
                usd=usd,
                written_bytes=written,
                read_bytes=sum(one.read_bytes for one in stores),
                loaded_tokens=sum(p.loaded_tokens[tier.name] for p in run.prefixes),
                wear_share=None if years is None else hours / HOURS_A_YEAR / years / len(stores),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipTime:
    """Shares of chip time, which add up to one: steps for prompts, for answers, and no step.

    Assumes: a step with prompts and answers is divided by the tokens that it computes for each.
    """

    prompts: float
    answers: float
    idle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """`basis`: what the power was taken to be."""

    joules: float
    joules_per_output_token: float | None
    kwh_usd: float
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The run from its first arrival to its last token, all chips paid for throughout.

    `price`: a sentence with date and source. Dollars a million: of input tokens that were computed
    (misses), of those that were hit, of output tokens, and of output tokens where they alone have
    to bear everything (`output_bearing_all`, what planners compare). None where there are no such
    tokens, or no price.

    Assumes: idle chip time is borne by input and output in the ratio of their busy time; tokens
        that were hit take no chip time and cost what the tiers that kept them cost.
    """

    chips: int
    chip_seconds: float
    time: ChipTime
    price: str
    usd_per_chip_hour: float | None
    usd: float | None
    usd_input: float | None
    usd_output: float | None
    usd_per_million_input_miss: float | None
    usd_per_million_input_hit: float | None
    usd_per_million_output: float | None
    usd_per_million_output_bearing_all: float | None
    energy: Energy | None
    storage: tuple[StorageUse, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, units in the names."""
        return asdict(self)


def default_prices(chip: str, name: str | None = None) -> Prices:
    """The price of a chip (a name, or a path to its YAML), and its all-in power.

    `name`: of a shipped price, or a path to a file of prices.
    """
    spec = find_chip(chip)
    sold_as = priced_as(spec)
    found = find_price(sold_as, name)
    told = found.name
    if name is not None and is_path(name):
        told = named_after(told, Path(name))
    elif sold_as != spec.name:
        told = f"{told} of {sold_as}"
    power = spec.power.all_in
    return Prices(
        usd_per_chip_hour=float(found.usd_per_hour.si),
        date=found.date,
        source=f"{told}, {found.about}: {found.usd_per_hour.source}",
        kw_per_chip=float(power.si) / 1000 if power is not None else None,
    )


def prices_for(scenario: Scenario) -> Prices | None:
    """Prices that a scenario gives or names, else the shipped ones; None where none is known.

    Raises InputError where the scenario names a price that the chip does not have.
    """
    if isinstance(scenario.prices, Prices):
        return scenario.prices
    try:
        return default_prices(scenario.chip, scenario.prices)
    except InputError:
        if scenario.prices is not None:
            raise
        return None


def bill_of(run: ServingRun, storage: Sequence[StorageUse] | None = None) -> Bill:
    """The bill of a run; `storage`: what tiers of a prefix cache held (default: the run's own)."""
    storage = storage_of(run) if storage is None else storage
    prices = prices_for(run.scenario)
    requests, done = run.requests, run.requests.finished
    begin = int(requests.column("arrival_ns")[done].min(initial=run.end_ns))
    seconds = max(1, run.end_ns - begin) / 1e9
    time = chip_time(run, seconds)
    hits = int(requests.column("hit_tokens")[done].sum())
    misses = int((requests.column("input_tokens") - requests.column("hit_tokens"))[done].sum())
    output = int(requests.column("output_tokens")[done].sum())
    usd = None if prices is None else prices.usd_per_chip_hour * run.chips * seconds / 3600
    kept = sum(use.usd for use in storage)
    for_input, for_output = _divided(usd, time)
    return Bill(
        chips=run.chips,
        chip_seconds=run.chips * seconds,
        time=time,
        price=_told(run.scenario, prices),
        usd_per_chip_hour=prices.usd_per_chip_hour if prices else None,
        usd=None if usd is None else usd + kept,
        usd_input=for_input,
        usd_output=for_output,
        usd_per_million_input_miss=_per_million(for_input, misses),
        usd_per_million_input_hit=_per_million(None if usd is None else kept, hits),
        usd_per_million_output=_per_million(for_output, output),
        usd_per_million_output_bearing_all=_per_million(
            None if usd is None else usd + kept, output
        ),
        energy=_energy(run, prices, time, seconds, output),
        storage=tuple(storage),
    )


def chip_time(run: ServingRun, seconds: float) -> ChipTime:
    """How chip time is divided; a lane counts by its chips."""
    prompts = answers = 0.0
    chips = lane_chips(run)
    for log, of in zip(run.steps, chips, strict=True):
        columns = log.columns()
        duration = columns["duration_ns"] / 1e9
        fresh = columns["prompt_tokens"] / columns["steps"]
        decoded = columns["decoding"] * run.deployment.rule.new_per_request
        part = fresh / np.maximum(fresh + decoded, 1)
        prompts += of * float(np.dot(part, duration))
        answers += of * float(np.dot(1 - part, duration))
    whole = seconds * max(1, sum(chips))
    busy = (prompts + answers) / whole
    return ChipTime(prompts=prompts / whole, answers=answers / whole, idle=max(0.0, 1 - busy))


def lane_chips(run: ServingRun) -> list[int]:
    """Chips of every lane of the step logs: those that decode, then those for prompts alone."""
    scenario, split = run.scenario, run.scenario.disaggregation
    parallel, ranks = scenario.parallel, run.deployment.ranks
    lanes = scenario.replicas * parallel.pp * ranks
    chips = [parallel.tp * parallel.dp // ranks] * lanes
    if split is not None:
        apart = split.prefill_parallel or parallel
        each = simulated_ranks(scenario, apart)
        chips += [apart.tp * apart.dp // each] * (split.prefill_replicas * apart.pp * each)
    return chips


def _divided(usd: float | None, time: ChipTime) -> tuple[float | None, float | None]:
    busy = time.prompts + time.answers
    if usd is None or not busy:
        return None, None
    return usd * time.prompts / busy, usd * time.answers / busy


def _per_million(usd: float | None, tokens: int) -> float | None:
    return None if usd is None or not tokens else usd / tokens * 1e6


def _energy(
    run: ServingRun, prices: Prices | None, time: ChipTime, seconds: float, output: int
) -> Energy | None:
    """Energy at the wall.

    Assumes: a chip draws its all-in power all the time, also while it is idle, unless its idle
        power is given; a busy chip draws all-in power whatever its step does.
    """
    busy_kw = prices.kw_per_chip if prices else None
    all_in = find_chip(run.scenario.chip).power.all_in
    if busy_kw is None and all_in is not None:
        busy_kw = float(all_in.si) / 1000
    if busy_kw is None:
        return None
    idle_kw = prices.idle_kw_per_chip if prices and prices.idle_kw_per_chip else busy_kw
    joules = 1000 * run.chips * seconds * (busy_kw * (1 - time.idle) + idle_kw * time.idle)
    basis = f"{busy_kw:g} kW a chip with its share of the server"
    basis += " all the time" if idle_kw == busy_kw else f", {idle_kw:g} kW while idle"
    return Energy(
        joules=joules,
        joules_per_output_token=joules / output if output else None,
        kwh_usd=(prices.usd_per_kwh if prices else 0.0) * joules / 3.6e6,
        basis=basis,
    )


def _told(scenario: Scenario, prices: Prices | None) -> str:
    if prices is None:
        chip = find_chip(scenario.chip).name
        return f"no price of a {chip} is known; prices in the scenario gives one"
    return f"{prices.usd_per_chip_hour:g} USD a chip-hour, {prices.date} ({prices.source})"
