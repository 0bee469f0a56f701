"""A question put in options rather than in a file: traffic, targets, fleets and a budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.basis.errors import InputError
from simulator.engine.profile import find_profile
from simulator.plan.candidates import prices_of_choice
from simulator.plan.fleet import fleets_within
from simulator.plan.plan_question import ChipChoice, PlanQuestion, load_plan
from simulator.serve.scenario import Scenario, ServiceLevels, Traffic
from simulator.sweep.row import HOURS_A_MONTH
from workloads.deepseek_v4.config import find_model

T = TypeVar("T")
_FLEET = re.compile(r"(?:(?P<count>\d+)\s*[x*]\s*)?(?P<chip>\S+)")
_BUDGET = re.compile(r"\$?(?P<usd>[0-9][0-9_,]*(?:\.\d+)?)\s*(?:USD)?\s*/\s*(?P<per>[a-z]+)", re.I)
_HOURS = {"h": 1.0, "hour": 1.0, "day": 24.0, "month": HOURS_A_MONTH, "year": 12 * HOURS_A_MONTH}
_LAYOUTS = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 4), (1, 8), (2, 4))
_CHIPS = ("h200", "b200")
_MOST_CHIPS = 32
_MOST_FLEET = 4096


class Faults:
    """Faults of several options, told together."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def take(self, make: Callable[[], T]) -> T | None:
        """What is made, or None and the fault kept."""
        try:
            return make()
        except InputError as error:
            self.found.append(error.message)
            return None

    def raise_all(self) -> None:
        """Raise InputError for all of them, each once."""
        if self.found:
            raise InputError("; ".join(dict.fromkeys(self.found)))


def asked_plan(
    question: str | None,
    *,
    traffic: str | None = None,
    model: str | None = None,
    engines: str | None = None,
    ttft_s: float | None = None,
    tpot_ms: float | None = None,
    percentile: float | None = None,
    prices: Sequence[Path] = (),
) -> PlanQuestion:
    """The question of a file with what options change of it, or one of options alone.

    Raises InputError with all faults at once.
    """
    faults = Faults()
    base = faults.take(lambda: load_plan(question)) if question is not None else None
    if question is None and traffic is None:
        faults.found.append("give a QUESTION (agents, chat, documents or a file) or --traffic FILE")
    if question is None and ttft_s is None and tpot_ms is None:
        faults.found.append("give a target: --ttft-s or --tpot-ms")
    if traffic is not None and not Path(traffic).expanduser().is_file():
        faults.found.append(f"--traffic {traffic}: there is no such file")
    if model is not None:
        faults.take(lambda: find_model(model))
    names = tuple(name.strip() for name in (engines or "").split(",") if name.strip())
    for name in names:
        faults.take(lambda name=name: find_profile(name))  # type: ignore[misc]
    if percentile is not None and not 0 < percentile < 100:
        faults.found.append(f"--percentile is {percentile:g}, expected above 0 and below 100")
    for option, value in (("--ttft-s", ttft_s), ("--tpot-ms", tpot_ms)):
        if value is not None and not value > 0:
            faults.found.append(f"{option} is {value:g}, expected above 0")
    faults.raise_all()
    base = base or _of_traffic(str(traffic), ttft_s, tpot_ms)
    scenario = _scenario(base.scenario, traffic, model, ttft_s, tpot_ms, percentile)
    changes: dict[str, object] = {"scenario": scenario}
    if names:
        changes["engines"] = names
    changes["chips"] = _with_prices(base.chips, prices, faults)
    faults.raise_all()
    return base.model_copy(update=changes)


def _of_traffic(traffic: str, ttft_s: float | None, tpot_ms: float | None) -> PlanQuestion:
    name = Path(traffic).stem or "traffic"
    return PlanQuestion(
        name=name,
        scenario=Scenario(
            name=name,
            model="v4-flash",
            chip=_CHIPS[0],
            traffic=Traffic(trace=traffic),
            service_levels=ServiceLevels(ttft_s=ttft_s, tpot_ms=tpot_ms, percentile=95),
        ),
        chips=tuple(ChipChoice(chip=chip, most_chips=_MOST_CHIPS) for chip in _CHIPS),
        layouts=_LAYOUTS,
        max_requests=(64, 256),
    )


def _scenario(
    base: Scenario,
    traffic: str | None,
    model: str | None,
    ttft_s: float | None,
    tpot_ms: float | None,
    percentile: float | None,
) -> Scenario:
    given = {"ttft_s": ttft_s, "tpot_ms": tpot_ms, "percentile": percentile}
    levels = {name: value for name, value in given.items() if value is not None}
    changes: dict[str, object] = {}
    if levels:
        changes["service_levels"] = base.service_levels.model_copy(update=levels)
    if traffic is not None:
        changes["traffic"] = Traffic(trace=str(Path(traffic).expanduser()))
    if model is not None:
        changes["model"] = model
    return base.model_copy(update=changes)


def _with_prices(
    choices: Sequence[ChipChoice], files: Sequence[Path], faults: Faults
) -> tuple[ChipChoice, ...]:
    """Choices with the prices of files, each of which names the chip that it is of."""
    from hwmodels.chip_price import ChipPrices
    from simulator.basis.yaml_loader import load_yaml

    by_chip: dict[str, str] = {}
    for path in files:
        found = faults.take(lambda path=path: load_yaml(path, ChipPrices))  # type: ignore[misc]
        if found is not None:
            by_chip[found.chip] = str(path)
    return tuple(
        choice.model_copy(update={"prices": by_chip.pop(name)})
        if (name := find_chip(choice.chip).name) in by_chip
        else choice
        for choice in choices
    )


def asked_fleets(
    question: PlanQuestion, fleets: str | None, budget: str | None, prices: Sequence[Path] = ()
) -> tuple[ChipChoice, ...]:
    """Fleets as choices of so many chips: as given, or as many as a budget pays for.

    A chip keeps the price that the question gives it. Raises InputError with all faults at once.
    """
    faults = Faults()
    usd = faults.take(lambda: budget_usd_per_hour(budget)) if budget is not None else None
    choices: list[ChipChoice] = []
    for part in (fleets or "").split(","):
        if part.strip():
            found = faults.take(lambda part=part: _fleet(part.strip(), budget is not None))  # type: ignore[misc]
            if found is not None:
                choices.append(found)
    if fleets is not None and not choices and not faults.found:
        faults.found.append("--fleet names no chip; try --fleet 16xh200")
    own = {find_chip(choice.chip).name: choice.prices for choice in question.chips}
    priced = [
        choice.model_copy(update={"prices": own.get(find_chip(choice.chip).name)})
        for choice in choices
    ]
    priced = list(_with_prices(priced or question.chips, prices, faults))
    for choice in priced:
        faults.take(lambda choice=choice: prices_of_choice(choice))  # type: ignore[misc]
    faults.raise_all()
    return tuple(priced) if usd is None else tuple(fleets_within(usd, priced))


def _fleet(text: str, with_budget: bool) -> ChipChoice:
    """`16xh200`, or with a budget a chip alone."""
    match = _FLEET.fullmatch(text)
    if match is None or (match["count"] is None and not with_budget):
        raise InputError(f"--fleet {text!r}: give a number of chips and a chip, such as 16xh200")
    count = int(match["count"] or _MOST_FLEET)
    if not 1 <= count <= _MOST_FLEET:
        raise InputError(f"--fleet {text!r}: {count:,} chips, expected 1 to {_MOST_FLEET:,}")
    find_node(match["chip"])
    return ChipChoice(chip=match["chip"], most_chips=count)


def budget_usd_per_hour(text: str) -> float:
    """Dollars an hour of `50/hour` or `36000/month`; a month has 730.5 hours."""
    match = _BUDGET.fullmatch(text.strip())
    hours = _HOURS.get(match["per"].lower()) if match else None
    usd = float(re.sub("[_,]", "", match["usd"])) if match else 0.0
    if match is None or hours is None or not usd > 0:
        raise InputError(
            f"--budget {text!r}: give dollars above 0 and what they are for, such as 50/hour or "
            "36000/month (also h, day, year)"
        )
    return usd / hours
