"""Random valid questions about a step, of everything that ships, through `import v4sim`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import v4sim
from hwmodels.chip import list_chips
from simulator.cost.result import KernelRecord, StepResult
from simulator.engine.profile import list_profiles

MODELS = ("v4-flash", "v4-flash", "v4-pro", "tiny")
_COUNTS = (1, 2, 4, 8, 8, 8, 16, 32, 64, 72)
_BATCHES = (1, 2, 3, 7, 16, 30, 64, 100, 256, 700)
_CONTEXTS = (1, 127, 128, 129, 1000, 4096, 8192, 40_000, 131_072, 500_000, 1_048_576)
# The longest context that the smallest model takes, and prefills that are costed in little time.
_LONGEST = {"tiny": 8192, "decode": 1_048_576, "prefill": 131_072}
_COUNTS_OF_TINY = (1, 1, 2)
_FORMATS: Mapping[str, tuple[str | None, ...]] = {
    "kv_dtype": (None, None, None, "fp8", "bf16", "nvfp4"),
    "index_dtype": (None, None, None, "fp8", "fp4", "bf16"),
    "expert_dtype": (None, None, None, "fp8", "fp4", "bf16"),
}


@dataclass(frozen=True)
class Question:
    """A deployment and a step of it, as keywords of `v4sim.step`."""

    deployment: Mapping[str, Any]
    step: Mapping[str, Any] = field(default_factory=dict)

    def with_step(self, **changes: Any) -> Question:
        """Another step of the deployment."""
        return replace(self, step={**self.step, **changes})

    def with_deployment(self, **changes: Any) -> Question:
        """The step on another deployment."""
        return replace(self, deployment={**self.deployment, **changes})

    def ask(self) -> v4sim.StepAnswer:
        """The answer."""
        return v4sim.step(**self.deployment, **self.step)

    def __str__(self) -> str:
        return " ".join(f"{k}={v}" for k, v in {**self.deployment, **self.step}.items())


def drawn(
    seed: int, number: int, models: tuple[str, ...] = MODELS
) -> tuple[Question, v4sim.StepAnswer]:
    """The question of a number and its answer; drawn again until it is a valid one."""
    draw = random.Random(f"{seed}/{number}")
    while True:
        question = _drawn(draw, models)
        try:
            return question, question.ask()
        except v4sim.V4SimError:
            continue


def _drawn(draw: random.Random, models: tuple[str, ...]) -> Question:
    model = draw.choice(models)
    count = draw.choice(_COUNTS_OF_TINY if model == "tiny" else _COUNTS)
    deployment: dict[str, Any] = {
        "model": model,
        "chip": draw.choice(list_chips()),
        "count": count,
        "dp": draw.choice((1, 1, 2, count)),
        "engine": draw.choice((None, "sglang-0.5", *list_profiles())),
    }
    for name, values in _FORMATS.items():
        chosen = draw.choice(values)
        if chosen is not None:
            deployment[name] = chosen
    phase = draw.choice(("decode", "decode", "decode", "prefill"))
    contexts = [tokens for tokens in _CONTEXTS if tokens <= _LONGEST[phase]]
    if model == "tiny":
        contexts = [tokens for tokens in contexts if tokens <= _LONGEST["tiny"]]
    step: dict[str, Any] = {
        "phase": phase,
        "batch": draw.choice(_BATCHES) if phase == "decode" else draw.choice((1, 1, 2, 5)),
        "context": draw.choice(contexts),
        "fidelity": draw.choice(("tile", "tile", "tile", "roofline")),
        "exact_context": True,
    }
    return Question(deployment, step)


def choices_of(result: StepResult) -> dict[str, tuple[str, str]]:
    """What the engine chose for each launch: the program, and the tiles and parts it is cut into.

    With another tile of rows a kernel without a program of its own runs in more blocks, over which
    its vector work and loads are assumed to spread evenly: the choice says how many.
    """
    return {
        kernel.path: (kernel.program, " ".join((kernel.cut, *_row_tiles(kernel))))
        for kernel in result.kernels
    }


def _row_tiles(kernel: KernelRecord) -> Iterator[str]:
    """What the tiles multiply, padding included: more where the rows begin another tile."""
    if kernel.cut.startswith("tiles"):
        yield f"of {kernel.work['macs']:,.0f} multiply-adds"


@dataclass(frozen=True)
class Drop:
    """A launch that takes less time for more work, and the choices that switched."""

    kernel: KernelRecord
    by_ps: int
    before: tuple[str, str]
    after: tuple[str, str] | None

    @property
    def switched(self) -> bool:
        """Whether the engine chose another kernel, tile or split."""
        return self.before != self.after

    def __str__(self) -> str:
        to = " ".join(self.after) if self.after else "not launched"
        return f"{self.kernel.path} {' '.join(self.before)} -> {to}: {self.by_ps / 1e6:,.2f} us"


def drops(less: StepResult, more: StepResult) -> list[Drop]:
    """Launches of the smaller question that take longer there than in the larger one."""
    later = {kernel.path: kernel for kernel in more.kernels}
    before, after = choices_of(less), choices_of(more)
    found = []
    for kernel in less.kernels:
        other = later.get(kernel.path)
        by_ps = kernel.duration_ps - (other.duration_ps if other else 0)
        if by_ps > 0:
            found.append(Drop(kernel, by_ps, before[kernel.path], after.get(kernel.path)))
    return sorted(found, key=lambda drop: -drop.by_ps)
