"""Questions: the commands as functions, with the same defaults, checks and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.basis.errors import InputError
from simulator.basis.sizes import read_tokens
from v4sim.answers import (
    CapacityAnswer,
    PlanAnswer,
    PrefixAnswer,
    RunAnswer,
    ServeAnswer,
    StepAnswer,
)

if TYPE_CHECKING:
    from simulator.deployment import Deployment as Checked

Tokens = int | str  # 131072, "128K", "1M"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Model, chips, layout, engine and formats; checked when it is made.

    Fields are the options of the commands. `set` changes numbers of the chip, as `--set` does.

    >>> flash = Deployment(model="v4-flash", chip="h200", count=8)
    >>> flash.step(batch=64, context="128K").seconds > flash.step(batch=1).seconds
    True

    Raises InputError for what cannot be deployed.
    """

    model: str
    chip: str
    count: int = 1
    tp: int | None = None
    dp: int = 1
    ep: int | None = None
    pp: int = 1
    cp: int = 1
    engine: str | None = None
    exchange: str | None = None
    kv_dtype: str | None = None
    index_dtype: str | None = None
    expert_dtype: str | None = None
    page_tokens: int | None = None
    packed_keys: bool = False
    memory_share: float | None = None
    max_requests: int | None = None
    step_tokens: int | None = None
    set: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        self.checked()

    @classmethod
    def of_launch(cls, command: str, *, chip: str) -> Deployment:
        """The deployment of an engine's launch command, as `--launch` reads it.

        >>> Deployment.of_launch("vllm serve deepseek-ai/DeepSeek-V4-Flash -tp 8", chip="b200").tp
        8
        """
        from simulator.cli.launch_option import read_launch_of

        known = {own.name for own in fields(cls)}
        found, launch = read_launch_of(command, {"chip": chip}, {})
        assert launch is not None
        asked = {
            "drafts": launch.drafts,
            "longest_context": launch.longest_context,
            "running_requests": None if found.get("max_requests") else launch.running_requests,
        }
        beyond = [launch.flags[name] for name, value in asked.items() if value]
        if beyond:
            raise InputError(
                f"{', '.join(beyond)} of the launch command is about requests, not the deployment: "
                "leave it out here, or use v4sim capacity, step or serve --launch"
            )
        return cls(**{name: value for name, value in found.items() if name in known})

    def options(self) -> dict[str, Any]:
        """The options as `ask_deployment` takes them."""
        given = {own.name: getattr(self, own.name) for own in fields(self)}
        given["edits"] = list(given.pop("set"))
        return given

    def checked(self) -> Checked:
        """The deployment with its model, chip and layout loaded."""
        from simulator.deployment import ask_deployment

        return ask_deployment(**self.options())

    def step(self, **question: Any) -> StepAnswer:
        """Cost a step of it; `question` as of `step`."""
        return step(self, **question)

    def capacity(self, **question: Any) -> CapacityAnswer:
        """What it holds; `question` as of `capacity`."""
        return capacity(self, **question)


def step(
    deployment: Deployment | None = None,
    *,
    batch: int = 1,
    context: Tokens = 8192,
    phase: str = "decode",
    new_tokens: Tokens | None = None,
    fidelity: str = "tile",
    drafts: int = 0,
    exact_context: bool = False,
    **options: Any,
) -> StepAnswer:
    """Cost one step; `options` make the deployment where none is given.

    >>> answer = step(model="v4-flash", chip="h200", count=8, batch=64, context="128K")
    >>> 0.015 < answer.low_s < answer.seconds < answer.high_s < 0.022
    True

    Raises InputError as `v4sim step` does.
    """
    from simulator.cost.question import ask
    from simulator.cost.step import cost_step
    from simulator.cost.typical_step import typical_step

    asked = ask(
        **_deployment(deployment, options).options(),
        phase=phase,
        batch=batch,
        context=read_tokens(context, "context"),
        new_tokens=None if new_tokens is None else read_tokens(new_tokens, "new_tokens"),
        fidelity=fidelity,
        draft_tokens=drafts,
    )
    return StepAnswer(asked, cost_step(asked) if exact_context else typical_step(asked))


def capacity(
    deployment: Deployment | None = None,
    *,
    context: Tokens | Mapping[int, float] = 131072,
    requests: int | None = None,
    in_flight_tokens: int | None = None,
    draft_tokens: int = 0,
    **options: Any,
) -> CapacityAnswer:
    """How many requests fit, what binds, and on which input that hangs.

    `context`: tokens, or shares of requests by tokens.

    >>> mix = {8192: 0.7, 1048576: 0.3}
    >>> answer = capacity(model="v4-pro", chip="b200", count=8, dp=8, context=mix)
    >>> answer.fits
    True

    Raises InputError as `v4sim capacity` does.
    """
    from simulator.capacity.capacity import capacity_of
    from simulator.capacity.capacity_question import ask_capacity
    from simulator.capacity.verdict import judge

    if isinstance(context, Mapping):
        context = ",".join(f"{tokens}:{share}" for tokens, share in context.items())
    found = capacity_of(
        ask_capacity(
            **_deployment(deployment, options).options(),
            contexts=str(context),
            requests=requests,
            in_flight_tokens=in_flight_tokens,
            draft_tokens=draft_tokens,
        )
    )
    return CapacityAnswer(found, judge(found, hangs_on=True))


def serve(scenario: str | Path | Mapping[str, Any] = "chat", **changes: Any) -> ServeAnswer:
    """Serve a scenario: a shipped one, a YAML file, or its data.

    `changes` replace keys, `__` standing for the dot of `--set`.

    >>> answer = serve("chat", traffic__made__requests=20)
    >>> len(answer.to_pandas())
    20

    Raises InputError as `v4sim serve` does.
    """
    import json

    from reports.served import served
    from simulator.serve.money import prices_for
    from simulator.serve.run import require_finished, run_scenario
    from simulator.serve.scenario_file import open_scenario

    sets = [f"{key.replace('__', '.')}={json.dumps(value)}" for key, value in changes.items()]
    asked = open_scenario(scenario, sets) if not isinstance(scenario, Mapping) else None
    if asked is None:
        assert isinstance(scenario, Mapping)
        asked = _scenario_of(scenario, sets)
    prices_for(asked)
    run = run_scenario(asked)
    require_finished(run)
    return ServeAnswer(served(run))


def _scenario_of(data: Mapping[str, Any], sets: list[str]) -> Any:
    """A scenario of plain data, by way of a file as users write it."""
    import tempfile

    import yaml

    from simulator.serve.scenario_file import open_scenario

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(yaml.safe_dump(dict(data)), encoding="utf-8")
        return open_scenario(path, sets)


def plan(question: str | Path = "small") -> PlanAnswer:
    """The cheapest plan that meets the targets of a question: a shipped one, or a YAML file.

    Raises InputError as `v4sim plan` does.
    """
    from simulator.plan.plan_question import load_plan
    from simulator.plan.search import search

    asked = load_plan(question)
    return PlanAnswer(asked, search(asked))


def prefix(
    trace: str | Path,
    policies: str = "full,periodic:512,boundary,zero",
    *,
    model: str = "v4-flash",
    node: str = "h200-x8",
    tiers: str | Path = "node",
    **options: Any,
) -> PrefixAnswer:
    """Compare ways to keep the sliding windows of cached prefixes on a trace.

    `options` as of the deployment group of `v4sim prefix compare`. Raises InputError as it does.
    """
    from simulator.prefix.comparison import compare_policies, deployment_for
    from simulator.prefix.window_policy import parse_window_policies
    from workloads.traffic.readers import read_trace

    stored = deployment_for(model=model, node=node, tiers=str(tiers), **options)
    chosen = parse_window_policies(policies, stored.layout.retention.policy)
    read = read_trace(Path(trace), max_input_tokens=stored.asked.config.max_position_embeddings)
    if not len(read):
        raise InputError(f"trace {read.name} has no request left to count: {'; '.join(read.notes)}")
    return PrefixAnswer(read.name, stored, compare_policies(read, chosen, stored))


def run(
    formats: str = "fp8,fp4-index,fp4-experts",
    *,
    model: str = "tiny",
    tokens: int = 300,
    seed: int = 7,
) -> RunAnswer:
    """Run a small model in quantised formats against the exact run.

    >>> run("fp8").results[-1].holds
    True

    Raises InputError as `v4sim run` does.
    """
    from simulator.cli.run import prompt_of
    from simulator.evaluate.formats_run import parse_formats, run_subsets

    prompt = prompt_of(model, None, tokens, seed)
    return RunAnswer(prompt.config.name, run_subsets(prompt, parse_formats(formats)))


def _deployment(given: Deployment | None, options: Mapping[str, Any]) -> Deployment:
    """The one given, or made of options; both at once is refused."""
    if given is None:
        return Deployment(**options)
    if options:
        raise InputError(
            f"a deployment is given, and {', '.join(options)} beside it; change the deployment "
            "with dataclasses.replace"
        )
    return given
