"""A scenario served as an engine's launch command says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hwmodels.chip import ChipSpec, find_chip
from simulator.basis.errors import InputError
from simulator.engine.launch import (
    Launch,
    read_launch,
    usual_running_requests,
    usual_step_tokens,
)
from simulator.serve.scenario import Scenario
from simulator.serve.scenario_file import open_scenario

_PLAIN = ("model", "engine", "memory_share", "page_tokens", "kv_dtype", "index_dtype", "exchange")
_DEGREES = ("tp", "dp", "ep", "pp", "cp")


def launched_scenario(
    name_or_path: str, changes: Sequence[str], command: str
) -> tuple[Scenario, Launch]:
    """A scenario's traffic, chip and targets, with the engine as it is launched.

    Raises InputError where a change (`--set`) and the command decide the same key.
    """
    scenario = open_scenario(name_or_path, changes)
    chip = find_chip(scenario.chip)
    launch = read_launch(command, chip)
    data = scenario.model_dump(exclude_unset=True)
    keys = _keys_of(launch)
    clashes = [c for c in changes if any(_is_of(c.partition("=")[0].strip(), k) for k in keys)]
    if clashes:
        raise InputError(f"--set {' '.join(clashes)}: the launch command decides that; change it")
    put_launch(data, launch)
    data["scheduler"] = usual_limits(data["engine"], chip, data["parallel"]["dp"]) | (
        data.get("scheduler") or {}
    )
    return Scenario.model_validate(data), launch


def usual_limits(engine: str, chip: ChipSpec, data_ranks: int) -> dict[str, int]:
    """Limits of a step where nobody says: the engine's own on the chip, where they are known."""
    limits = {"step_tokens": usual_step_tokens(engine, chip, data_ranks)}
    requests = usual_running_requests(engine, chip, data_ranks)
    return limits if requests is None else limits | {"max_requests": requests}


def put_launch(data: dict[str, Any], launch: Launch) -> None:
    """Write what a launch command decides into the plain data of a scenario."""
    own = launch.deployment
    data.update({name: own[name] for name in _PLAIN if name in own})
    data["parallel"] = {name: own[name] for name in _DEGREES if own.get(name) is not None}
    scheduler = dict(data.get("scheduler") or {})
    scheduler["order"] = "prefill-first" if "sglang" in own["engine"] else "decode-first"
    if launch.step_tokens is not None:
        scheduler["step_tokens"] = launch.step_tokens
    if launch.running_requests is not None:
        scheduler["max_requests"] = launch.running_requests * own["dp"]
    data["scheduler"] = scheduler
    if launch.drafts:
        speculation = data.get("speculation")
        if speculation is None:
            raise InputError(
                f"{launch.flags['drafts']} of the launch command drafts {launch.drafts} tokens a "
                "step, but how many are accepted is an input: give the scenario's speculation, "
                "such as speculation: {draft_tokens: 1, accepted: [1.79]}"
            )
        data["speculation"] = dict(speculation) | {"draft_tokens": launch.drafts}


def _keys_of(launch: Launch) -> set[str]:
    keys = {name for name in _PLAIN if name in launch.deployment} | {"parallel"}
    if launch.step_tokens is not None:
        keys.add("scheduler.step_tokens")
    if launch.running_requests is not None:
        keys.add("scheduler.max_requests")
    return keys


def _is_of(key: str, decided: str) -> bool:
    return key == decided or key.startswith(f"{decided}.")
