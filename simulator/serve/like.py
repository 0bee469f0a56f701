"""A scenario from a benchmark tool's command line: `v4sim serve --like sglang-bench ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hwmodels.chip import find_chip
from simulator.basis.errors import InputError, unknown_name
from simulator.basis.yaml_loader import validate_data
from simulator.basis.yaml_nodes import compose_text
from simulator.engine.default_engine import default_engine
from simulator.engine.launch import Launch
from simulator.serve.client import CLIENTS
from simulator.serve.launched import put_launch, usual_limits
from simulator.serve.scenario import Scenario

# Prompts for each request at once, where their number is not given (InferenceX: 10).
PROMPTS_PER_REQUEST = 10


def scenario_like(
    kind: str,
    *,
    model: str,
    chip: str,
    count: int = 1,
    tp: int | None = None,
    dp: int = 1,
    ep: int | None = None,
    engine: str | None = None,
    input_tokens: int = 1024,
    output_tokens: int = 1024,
    concurrency: int | None = None,
    rate_per_s: float | None = None,
    prompts: int | None = None,
    range_ratio: float | None = None,
    launch: Launch | None = None,
) -> Scenario:
    """What a tool of the kind would send to such a deployment; faults are sentences.

    `launch`: how the engine was started; a step has the engine's own tokens where it does not say.
    """
    if kind not in CLIENTS:
        raise InputError(unknown_name("benchmark client", kind, tuple(CLIENTS)))
    if count % dp:
        raise InputError(f"dp {dp} does not divide the {count} chips; count = tp x dp")
    client: dict[str, Any] = {
        "kind": kind,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "concurrency": concurrency,
        "rate_per_s": rate_per_s,
        "prompts": prompts or max(32, PROMPTS_PER_REQUEST * (concurrency or 10)),
    }
    if range_ratio is not None:
        if kind == "aiperf":
            raise InputError("aiperf has no range ratio; its lengths are normal around the mean")
        client["range_ratio"] = range_ratio
    name = engine or default_engine(find_chip(chip))
    parallel = {"tp": tp or count // dp, "dp": dp, "ep": ep}
    scheduler: dict[str, Any] = {
        # SGLang computes prompts before answers, vLLM and the others beside them.
        "order": "prefill-first" if "sglang" in name else "decode-first",
        **usual_limits(name, find_chip(chip), dp),
    }
    data: dict[str, Any] = {
        "name": f"like {kind}",
        "model": model,
        "chip": chip,
        "engine": name,
        "parallel": {key: value for key, value in parallel.items() if value is not None},
        "traffic": {"client": {k: v for k, v in client.items() if v is not None}},
        "scheduler": scheduler,
    }
    if launch is not None:
        put_launch(data, launch)
    read, lines = compose_text(yaml.safe_dump(data), Path(f"--like {kind}"))
    return validate_data(read, lines, Scenario)
