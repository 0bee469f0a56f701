"""How a step moves with its question: more work, better chips, another way of asking.

Every question is drawn from all that ships and asked through `import v4sim`; `make test` takes the
first of them, `make test-all` 500.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import pytest

import v4sim
from hwmodels.chip import find_chip
from reports.breakdown import StepBreakdown
from simulator.basis.units import format_time_ps
from tests.metamorphic.questions import MODELS, Question, drawn, drops
from tests.sampling import WHOLE

SEED = 19
QUESTIONS = 500 if WHOLE else 100
# Of the questions of `make test` one in so many is of any model; the others are of a small one.
ANY_MODEL = 1 if WHOLE else 20
PARTS = 4
# A step may take so much less for more work within one choice of kernels.
SHARE = 0.01
# A step of several streams may rise with a bandwidth by so much.
BESIDE = 1e-5


@dataclass
class Seen:
    """What the laws found: faults, and drops at switches as they are printed."""

    questions: int = 0
    compared: int = 0
    faults: list[str] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)


Law = Callable[[Question, v4sim.StepAnswer, Seen], None]


def more_work(question: Question, answer: v4sim.StepAnswer, seen: Seen) -> None:
    """A step with more requests or longer ones takes no less, but where a kernel switches."""
    batch, context = question.step["batch"], question.step["context"]
    draw = random.Random(str(question))
    for changes in draw.sample(
        (
            {"batch": batch + question.deployment["dp"]},
            {"batch": 2 * batch},
            {"context": context + 128},
            {"context": 2 * context},
        ),
        4 if WHOLE else 1,
    ):
        try:
            more = question.with_step(**changes).ask()
        except v4sim.V4SimError:
            continue  # it does not fit
        seen.compared += 1
        fell_ps = answer.result.total_ps - more.result.total_ps
        if fell_ps <= SHARE * answer.result.total_ps:
            continue
        said = f"{question} -> {changes}: {fell_ps / answer.result.total_ps:.1%} less"
        found = drops(answer.result, more.result)
        same_ps = sum(drop.by_ps for drop in found if not drop.switched)
        for drop in [drop for drop in found if drop.switched][:3]:
            seen.switches.append(f"{said}: {drop}")
        if same_ps > SHARE * answer.result.total_ps:
            kept = "; ".join(str(drop) for drop in found if not drop.switched)
            seen.faults.append(f"{said} without a switch: {kept[:300]}")


def better_chip(question: Question, answer: v4sim.StepAnswer, seen: Seen) -> None:
    """No bandwidth makes a step longer."""
    chip = find_chip(question.deployment["chip"])
    numbers = {
        "memory.bandwidth": chip.memory.bandwidth,
        "scale_up.bandwidth": getattr(chip.scale_up, "bandwidth", None),
        "llc.read_bandwidth": getattr(chip.llc, "read_bandwidth", None),
    }
    draw = random.Random(str(question))
    edits = [
        f"{key}={factor * number.value:.9g} {number.unit}"
        for key, number in numbers.items()
        if number is not None
        for factor in (1.1, 2)
    ]
    for edit in draw.sample(edits, min(len(edits), 3 if WHOLE else 1)):
        try:
            more = question.with_deployment(set=[edit]).ask()
        except v4sim.V4SimError:
            continue
        seen.compared += 1
        # A launch that is done sooner takes more of what its neighbours share while it runs.
        beside = len({kernel.stream for kernel in answer.result.kernels}) > 1
        if more.result.total_ps > answer.result.total_ps * (1 + (BESIDE if beside else 0)):
            rose = more.result.total_ps / answer.result.total_ps - 1
            seen.faults.append(f"{question} with {edit}: {rose:+.4%}")


def bound(question: Question, answer: v4sim.StepAnswer, seen: Seen) -> None:
    """No step is faster than its roofline; nor is a launch with nothing beside it."""
    tile, roofline = (
        question.with_step(fidelity=name).ask().result for name in ("tile", "roofline")
    )
    seen.compared += 1
    if tile.total_ps < roofline.total_ps:
        seen.faults.append(f"{question}: {tile.total_ps:,} ps under {roofline.total_ps:,}")
    if len({kernel.stream for kernel in tile.kernels}) > 1:
        return
    floors = {kernel.path: kernel.duration_ps for kernel in roofline.kernels}
    for kernel in tile.kernels:
        if kernel.duration_ps < floors.get(kernel.path, 0):
            seen.faults.append(f"{question}: {kernel.path} is under its roofline")


def sums(question: Question, answer: v4sim.StepAnswer, seen: Seen) -> None:
    """Causes are the step and operations are the step, to the picosecond; intervals hold it."""
    result, found = answer.result, StepBreakdown(answer.result)
    seen.compared += 1
    total = found.total
    for kernel in result.kernels:
        if sum(kernel.causes_ps.values()) != kernel.duration_ps:
            seen.faults.append(f"{question}: causes of {kernel.path}")
        if not kernel.low_ps <= kernel.duration_ps <= kernel.high_ps:
            seen.faults.append(f"{question}: {kernel.path} is not within its interval")
    overlap_ps = total.duration_ps + found.between_ps - result.total_ps
    for name, groups in (("operations", found.by_operation), ("layers", found.by_layer_kind)):
        if sum(group.critical_ps for group in groups) != result.total_ps:
            seen.faults.append(f"{question}: {name} are not the step")
        alone_ps = sum(group.duration_ps for group in groups)
        if alone_ps + found.between_ps != result.total_ps + overlap_ps or overlap_ps < 0:
            seen.faults.append(f"{question}: {name} are not the step and {overlap_ps} of overlap")
    if sum(total.critical_ps_by_cause.values()) != result.total_ps:
        seen.faults.append(f"{question}: causes are not the step")
    if not result.low_ps <= result.total_ps <= result.high_ps:
        seen.faults.append(f"{question}: the step is not within its interval")


def figures(question: Question, answer: v4sim.StepAnswer, seen: Seen) -> None:
    """What is written as JSON and as a table is what the sentence says."""
    seen.compared += 1
    data = answer.to_dict()
    told = format_time_ps(data["total_ps"])
    if f"takes {told}" not in " ".join(answer.sentence.split()):
        seen.faults.append(f"{question}: JSON has {told}, the sentence: {answer.sentence}")
    table = answer.to_pandas()
    rows = table[~table["operation"].isin(["step", "total"])]
    if int(rows["critical_ps"].sum()) != data["total_ps"]:
        seen.faults.append(f"{question}: rows of the table are not the step of the JSON")
    kernels = data["kernels"]
    if [kernel["path"] for kernel in kernels] != [k.path for k in answer.result.kernels]:
        seen.faults.append(f"{question}: launches of the JSON are not those of the step")


def more_memory(question: Question, answer: v4sim.StepAnswer, seen: Seen) -> None:
    """A larger memory holds no fewer requests in steps of as many tokens.

    Some engines take longer steps on larger memories, and set room aside for them.
    """
    fits: list[float] = []
    tokens = None
    chip = find_chip(question.deployment["chip"]).memory.capacity
    context = question.step["context"]
    for factor in (1, 1.01, 1.5):
        edit = f"memory.capacity={int(factor * chip.value)} {chip.unit}"
        try:
            held = v4sim.capacity(
                **{**question.deployment, "set": [edit], "step_tokens": tokens}, context=context
            )
        except v4sim.V4SimError:
            fits.append(0.0)
            continue
        tokens = tokens or held.capacity.question.in_flight_tokens
        fits.append(held.requests)
    seen.compared += 2
    if fits != sorted(fits):
        seen.faults.append(f"{question}: requests of 1, 1.01 and 1.5 of its memory: {fits}")


@cache
def laws_of(number: int) -> tuple[Law, ...]:
    """Laws that cost no further step, and one or, where all is run, two of the others."""
    draw = random.Random(f"{SEED}/{number}/laws")
    chosen = draw.sample((more_work, more_work, better_chip, better_chip, more_memory, bound), 2)
    return (sums, figures, *dict.fromkeys(chosen if WHOLE else chosen[:1]))


@pytest.mark.parametrize("part", range(PARTS))
def test_steps_follow_the_laws(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen()
    for number in range(part, QUESTIONS, PARTS):
        models = MODELS if number // PARTS % ANY_MODEL == 0 else ("tiny",)
        question, answer = drawn(SEED, number, models)
        seen.questions += 1
        for law in laws_of(number):
            law(question, answer, seen)
    with capsys.disabled():
        for line in seen.switches:
            print(line)
    assert seen.compared >= seen.questions
    assert not seen.faults, "\n".join(seen.faults)
