"""Questions with answers in `answers.yaml`, which `python -m tests.answers.questions` writes.

A change that should move nothing leaves the file alone; one that should, shows there what it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import yaml

from simulator.basis.errors import UnsupportedError
from simulator.capacity.capacity import capacity_of
from simulator.capacity.capacity_question import ask_capacity
from simulator.cost.question import ask
from simulator.cost.step import cost_step
from tests.laws.panel import ENGINES

ANSWERS = Path(__file__).parent / "answers.yaml"


def machines(engine: str) -> tuple[tuple[str, str], ...]:
    """Chips and models that an engine is asked about."""
    if engine == "ascend":
        return (("ascend-910c", "v4-flash"),)
    return ("h200", "v4-flash"), ("b200", "v4-pro")


def questions() -> Iterator[tuple[str, dict[str, object]]]:
    """Steps by name: six engines, two phases, both layouts, three fidelities, formats and pages."""
    for engine in ENGINES:
        for chip, model in machines(engine):
            machine: dict[str, object] = {
                "model": model,
                "chip": chip,
                "count": 8,
                "engine": engine,
            }
            if model == "v4-pro":
                machine["expert_dtype"] = "fp4"
            for name, asked in STEPS.items():
                yield f"{engine} {chip} {model} {name}", {**machine, **asked}


STEPS: dict[str, dict[str, object]] = {
    "decode 8x8K": {"batch": 8, "context": 8192},
    "decode 8x128K dp8 ep8": {"batch": 8, "context": 131_072, "tp": 1, "dp": 8, "ep": 8},
    "prefill 8K": {"phase": "prefill", "context": 8192},
    "decode 8x128K roofline": {"batch": 8, "context": 131_072, "fidelity": "roofline"},
    "decode 8x128K fp4 keys": {"batch": 8, "context": 131_072, "index_dtype": "fp4"},
    "decode 8x128K bf16 rows": {"batch": 8, "context": 131_072, "kv_dtype": "bf16"},
}


def step_answer(asked: dict[str, object]) -> dict[str, int]:
    """Time, bytes and work of a step on one chip."""
    step = ask(**asked)  # type: ignore[arg-type]
    result = cost_step(step)
    return {
        "total_ps": result.total_ps,
        "dram_bytes": sum(kernel.dram_bytes for kernel in result.kernels),
        "flops": sum(kernel.total_flops for kernel in result.kernels),
        "state_bytes": result.memory.state_bytes,
        "weight_bytes": result.memory.weight_bytes,
    }


def capacity_answer(engine: str, chip: str, model: str) -> dict[str, float]:
    """Requests of 131,072 tokens at once; none where the engine does not run on the chip."""
    question = ask_capacity(model=model, chip=chip, count=8, engine=engine, tp=1, dp=8, ep=8)
    try:
        return {"requests": round(capacity_of(question).requests, 6)}
    except UnsupportedError:
        return {"unsupported": 1}


def answerers() -> dict[str, Callable[[], Mapping[str, float]]]:
    """What gives the answer to each question, by name."""
    found: dict[str, Callable[[], Mapping[str, float]]] = {}
    for name, asked in questions():
        found[name] = partial(step_answer, asked)
    for engine in ENGINES:
        for chip, model in machines(engine):
            name = f"{engine} {chip} {model} capacity 128K dp8 ep8"
            found[name] = partial(capacity_answer, engine, chip, model)
    return found


def main() -> None:
    """Write the file."""
    lines = [
        yaml.safe_dump({name: dict(answer())}, default_flow_style=None, sort_keys=False, width=200)
        for name, answer in answerers().items()
    ]
    ANSWERS.write_text("".join(lines))


if __name__ == "__main__":
    main()
