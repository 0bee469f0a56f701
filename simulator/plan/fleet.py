"""The inverse question: what load a fleet of chips carries within the targets, and what binds.

The load is the traffic as it is, its arrivals so many times as fast (in closed loop: so many
users). It is found by simulating, on a fixed ladder of loads 3 % apart: the one that is named was
simulated and met the targets, the next was simulated and did not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from hwmodels.chip import find_chip
from simulator.basis.errors import DoesNotFitError, InputError, UndividedError, UnsupportedError
from simulator.plan.bounds import Misses, Unloaded, fewest_replicas, missed_target, unloaded
from simulator.plan.candidates import Candidate, candidates, prices_of_choice
from simulator.plan.outcome import Outcome, outcome_of
from simulator.plan.plan_question import ChipChoice, PlanQuestion
from simulator.plan.search import deploy_candidate, prompt_lanes
from simulator.serve.deployment import DeployedReplica
from simulator.serve.run import StoppedRunError, run_scenario
from simulator.serve.scenario import Scenario
from simulator.serve.traffic import trace_of
from workloads.traffic.trace import NO_TIME, Trace

Note = Callable[[str], None]
# Layout and limits, replicas, and the rung of a load.
Key = tuple[str, int, int]
STEP = 1.03
# From a four-hundredth of the traffic to 20,000 times it.
LEAST_RUNG, MOST_RUNG = -200, 335
# Loads to either side of the answer that are tried as well: 12 % below and above.
NEAR = 4
_MOST_USERS = 2**17


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A simulated load: `rung` on the ladder, and what came out.

    `rate_scale`: arrivals so many times as fast as the traffic's; `users`: of a closed loop.
    """

    rung: int
    rate_scale: float | None
    users: int | None
    outcome: Outcome

    @property
    def scenario(self) -> Scenario:
        """What `v4sim serve` runs to the same figures."""
        return self.outcome.candidate.with_replicas(self.outcome.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """What `chips` of one kind carry: `met` is the highest load found within the targets, `missed`
    the next one. Both are None where no layout carries any load; then `ruled_out` says why.
    `near`: further loads around them on the same layout, which show what hangs on the arrivals."""

    chip: str
    chips: int
    met: Loaded | None
    missed: Loaded | None
    usd_per_hour: float
    simulated: int
    near: tuple[Loaded, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()

    @property
    def missed_below(self) -> tuple[Loaded, ...]:
        """Lower loads nearby that nonetheless miss a target."""
        least = self.met.rung if self.met else 0
        return tuple(own for own in self.near if own.rung < least and not own.outcome.meets)

    @property
    def met_above(self) -> tuple[Loaded, ...]:
        """Higher loads nearby that nonetheless meet the targets."""
        most = self.missed.rung if self.missed else 0
        return tuple(own for own in self.near if own.rung > most and own.outcome.meets)

    @property
    def name(self) -> str:
        """Such as 16 x h200."""
        return f"{self.chips} x {find_chip(self.chip).name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetQuestion:
    """Fleets to compare, as choices of a chip with so many, and what their layouts may be."""

    plan: PlanQuestion
    fleets: tuple[ChipChoice, ...]

    @property
    def is_closed(self) -> bool:
        """Whether users wait for their replies, so that the load is their number."""
        return users_of(self.plan.scenario) is not None


@dataclass(slots=True)
class FleetSearch:
    """Carries out a question; what it has simulated, it knows.

    A fleet meets a load where any layout does, on any number of replicas that its chips give. What
    a fleet meets one with more chips meets too, therefore, and since every fleet's loads are tried
    by the same rule from the same first one, it never carries less.

    Assumes: where more than twice as many requests are late as the targets allow, fewer replicas of
        that layout do not meet them either.
    Assumes: a fleet is one kind of chip and one layout, replicated.
    Assumes: the traffic's lengths and their order stay as they are while arrivals come faster; a
        load 3 % above the one that is named misses the targets with those very arrivals, though a
        still higher one may meet them where they happen to fall well.
    """

    question: FleetQuestion
    note: Note = lambda _: None
    trace: Trace = field(init=False)
    _deployed: dict[str, DeployedReplica | InputError] = field(default_factory=dict)
    _floors: dict[str, Unloaded] = field(default_factory=dict)
    _known: dict[Key, Loaded | None] = field(default_factory=dict)
    _missed_by_far: set[Key] = field(default_factory=set)
    _last: str = ""

    def __post_init__(self) -> None:
        self.trace = trace_of(self.question.plan.scenario)

    def carried(self, chip: ChipChoice) -> FleetAnswer:
        """The most that these chips carry."""
        before = len(self._known)
        ruled: list[tuple[str, str]] = []
        plan = self.question.plan.model_copy(update={"chips": (chip,)})
        found = [own for own in candidates(plan) if self._is_possible(own, ruled)]
        found.sort(key=lambda own: own.chips_per_replica)
        edge = self._edge(found) if found else None
        return FleetAnswer(
            chip=chip.chip,
            chips=chip.most_chips,
            met=edge[0] if edge else None,
            missed=edge[1] if edge else None,
            usd_per_hour=chip.most_chips * prices_of_choice(chip).usd_per_chip_hour,
            simulated=len(self._known) - before,
            ruled_out=tuple(ruled),
        )

    def all_carried(self) -> list[FleetAnswer]:
        """Answers for all fleets, in their order."""
        return [self.carried(fleet) for fleet in self.question.fleets]

    def with_near(self, answer: FleetAnswer) -> FleetAnswer:
        """The answer with loads around it: whether one targets' edge or several lie there."""
        if answer.met is None or answer.missed is None:
            return answer
        own = answer.met.outcome
        rungs = [answer.met.rung - NEAR + n for n in range(NEAR)]
        rungs += [answer.missed.rung + 1 + n for n in range(NEAR)]
        least = 0 if self.question.is_closed else LEAST_RUNG
        near = [
            self._try(own.candidate, rung, own.replicas)
            for rung in rungs
            if least <= rung <= MOST_RUNG
        ]
        return replace(answer, near=tuple(near))

    def more(self, answer: FleetAnswer, chip: ChipChoice) -> list[FleetAnswer]:
        """What one chip more carries, and one replica more of the best layout."""
        steps = {1}
        if answer.met is not None:
            steps.add(answer.met.outcome.candidate.chips_per_replica)
        larger = [
            chip.model_copy(update={"most_chips": answer.chips + step}) for step in sorted(steps)
        ]
        return [self.carried(own) for own in larger]

    def _is_possible(self, candidate: Candidate, ruled: list[tuple[str, str]]) -> bool:
        """Whether it can be built of the chips and an idle replica meets the targets."""
        if not candidate.most_replicas:
            few = f"takes {candidate.chips(1)} chips, {candidate.most_chips} are given"
            ruled.append((candidate.label, few))
            return False
        try:
            deployment = self._deploy(candidate)
        except (DoesNotFitError, UndividedError, UnsupportedError) as error:
            ruled.append((candidate.label, error.message))
            return False
        cached = candidate.scenario.prefix_cache is not None
        if candidate.key not in self._floors:
            self._floors[candidate.key] = unloaded(deployment, self.trace, cached)
        floors = self._floors[candidate.key]
        reason = missed_target(floors, self.trace, candidate.scenario.service_levels)
        if reason is not None:
            ruled.append((candidate.label, reason))
        return reason is None

    def _deploy(self, candidate: Candidate) -> DeployedReplica:
        if candidate.key not in self._deployed:
            self.note(candidate.label)
            try:
                self._deployed[candidate.key] = deploy_candidate(candidate)
            except InputError as error:
                self._deployed[candidate.key] = error
        found = self._deployed[candidate.key]
        if isinstance(found, InputError):
            raise found
        return found

    def _edge(self, layouts: list[Candidate]) -> tuple[Loaded, Loaded] | None:
        """Neighbours on the ladder, of which a fleet meets the lower and misses the higher one;
        None where it meets none that is tried.

        Which loads are tried next depends on what was met alone, so that of two fleets the one that
        meets all that the other does ends at least as high.
        """
        users = users_of(self.question.plan.scenario)
        first = 0 if users is None else _rung_of(users)
        met = self._met(layouts, first)
        if met is None:
            return self._down(layouts, first, LEAST_RUNG if users is None else 0)
        return self._up(layouts, met)

    def _down(
        self, layouts: list[Candidate], high: int, least: int
    ) -> tuple[Loaded, Loaded] | None:
        """Strides that double until one meets the targets; None where none down to `least` does."""
        stride = 8
        while high > least:
            rung = max(least, high - stride)
            low = self._met(layouts, rung)
            if low is not None:
                return self._between(layouts, low, high)
            high, stride = rung, 2 * stride
        return None

    def _up(self, layouts: list[Candidate], low: Loaded) -> tuple[Loaded, Loaded]:
        """Strides that double until one misses, then what lies between."""
        stride = 4
        while low.rung < MOST_RUNG:
            rung = min(MOST_RUNG, low.rung + stride)
            high = self._met(layouts, rung)
            if high is None:
                return self._between(layouts, low, rung)
            low, stride = high, 2 * stride
        raise InputError(
            f"{low.outcome.label} meets the targets at {STEP**MOST_RUNG:,.0f} times the traffic: "
            "it is over before anything waits; give more requests, or tighter targets"
        )

    def _between(self, layouts: list[Candidate], low: Loaded, high: int) -> tuple[Loaded, Loaded]:
        """Bisection: neighbours on the ladder of which the lower meets the targets."""
        while high - low.rung > 1:
            middle = self._met(layouts, (low.rung + high) // 2)
            if middle is not None:
                low = middle
            else:
                high = (low.rung + high) // 2
        return low, self._try(low.outcome.candidate, high, low.outcome.replicas)

    def _met(self, layouts: list[Candidate], rung: int) -> Loaded | None:
        """A layout and replicas that meet the targets under a load, all chips in use if possible.

        Layouts that met a load before come first, since one is enough.
        """
        left = sorted(layouts, key=lambda own: own.key != self._last)
        spare = 0
        while left:
            near = []
            for candidate in left:
                replicas = candidate.most_replicas - spare
                if not self._may_meet(candidate, rung, replicas):
                    continue
                found = self._run(candidate, rung, replicas, to_its_end=False)
                if found is not None and found.outcome.meets:
                    self._last = candidate.key
                    return found
                if replicas > 1 and _key(candidate, rung, replicas) not in self._missed_by_far:
                    near.append(candidate)
            left, spare = near, spare + 1
        return None

    def _may_meet(self, candidate: Candidate, rung: int, replicas: int) -> bool:
        """Whether so many replicas can compute the prompts of a load in time, at best."""
        base = candidate.scenario
        scenario, users = _at_rung(base, rung)
        if users is not None:
            return True
        lanes = partial(prompt_lanes, candidate, self._deploy(candidate))
        floors = self._floors[candidate.key]
        return fewest_replicas(floors, self.trace, scenario, replicas, lanes) <= replicas

    def _try(self, candidate: Candidate, rung: int, replicas: int) -> Loaded:
        """Simulate a load on so many replicas to its end; what is known is not run again."""
        found = self._run(candidate, rung, replicas, to_its_end=True)
        assert found is not None
        return found

    def _run(
        self, candidate: Candidate, rung: int, replicas: int, *, to_its_end: bool
    ) -> Loaded | None:
        """Simulate a load; None where it was given up, since a target is missed for sure."""
        key = _key(candidate, rung, replicas)
        if self._known.get(key) is None and (to_its_end or key not in self._known):
            traffic = self.question.plan.scenario.traffic
            base = candidate.scenario.model_copy(update={"traffic": traffic})
            scenario, users = _at_rung(base, rung)
            loaded = replace(candidate, scenario=scenario)
            told = f"{users} users" if users else f"{STEP**rung:.3g} x the traffic"
            self.note(f"{replicas} x ({candidate.label}) at {told}")
            self._known[key] = None
            misses = Misses(self.trace, scenario.service_levels)
            try:
                run = run_scenario(
                    loaded.with_replicas(replicas),
                    deployment=self._deploy(candidate),
                    trace=self.trace,
                    enough=None if to_its_end else misses,
                )
            except StoppedRunError:
                if misses.by_far:
                    self._missed_by_far.add(key)
            else:
                self._known[key] = Loaded(
                    rung=rung,
                    rate_scale=None if users else scenario.traffic.rate_scale,
                    users=users,
                    outcome=outcome_of(loaded, replicas, run),
                )
        return self._known[key]


def _key(candidate: Candidate, rung: int, replicas: int) -> Key:
    return f"{candidate.key}{candidate.prefill_share}", replicas, rung


def users_of(scenario: Scenario) -> int | None:
    """Users of a closed loop; None where requests come by the clock."""
    traffic = scenario.traffic
    for loop in (traffic, traffic.made, traffic.client):
        if loop is not None and loop.concurrency is not None:
            return int(loop.concurrency)
    return None


def offered_per_s(trace: Trace, rate_scale: float) -> float | None:
    """Requests a second over the span of their arrivals; None where some follow replies, or all
    come at once."""
    arrivals = trace.arrival_ns[trace.arrival_ns != NO_TIME]
    span_s = float(np.ptp(arrivals)) / 1e9 if len(arrivals) else 0.0
    if len(arrivals) < len(trace) or not span_s:
        return None
    return (len(trace) - 1) / span_s * rate_scale


@lru_cache(maxsize=1)
def _user_rungs() -> tuple[int, ...]:
    """Numbers of users, each at most 3 % above the one before, or one more."""
    rungs = [1]
    while rungs[-1] < _MOST_USERS:
        rungs.append(max(rungs[-1] + 1, int(rungs[-1] * STEP)))
    return tuple(rungs)


def _rung_of(users: int) -> int:
    return max(0, int(np.searchsorted(_user_rungs(), users, side="right")) - 1)


def _at_rung(scenario: Scenario, rung: int) -> tuple[Scenario, int | None]:
    """The scenario under a load of the ladder, and its users where it has such."""
    if users_of(scenario) is None:
        scale = scenario.traffic.rate_scale * STEP**rung
        return _with_traffic(scenario, {"rate_scale": scale}), None
    rungs = _user_rungs()
    users = rungs[min(rung, len(rungs) - 1)]
    traffic = scenario.traffic
    if traffic.concurrency is not None:
        return _with_traffic(scenario, {"concurrency": users}), users
    for name in ("made", "client"):
        part = getattr(traffic, name)
        if part is not None and part.concurrency is not None:
            changed = part.model_copy(update={"concurrency": users})
            return _with_traffic(scenario, {name: changed}), users
    raise AssertionError("a closed loop has users")


def _with_traffic(scenario: Scenario, changes: dict[str, object]) -> Scenario:
    return scenario.model_copy(update={"traffic": scenario.traffic.model_copy(update=changes)})


def fleets_within(budget_usd_per_hour: float, choices: Sequence[ChipChoice]) -> list[ChipChoice]:
    """As many of each chip as the budget pays for, of which there are at most `most_chips`.

    Raises InputError where it pays for none of any.
    """
    found, dear = [], []
    for choice in choices:
        each = prices_of_choice(choice).usd_per_chip_hour
        count = int(budget_usd_per_hour / each * (1 + 1e-12))
        if count:
            count = min(count, choice.most_chips)
            found.append(choice.model_copy(update={"most_chips": count}))
        else:
            dear.append(f"{find_chip(choice.chip).name} {each:g} USD")
    if not found:
        raise InputError(
            f"a budget of {budget_usd_per_hour:,.4g} USD an hour pays for no chip at all (an hour "
            f"of one: {', '.join(dear)}); raise --budget"
        )
    return found
