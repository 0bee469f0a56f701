"""An engine's launch command, read as our own options: `vllm serve`, SGLang's, TensorRT-LLM's.

`launch_flags.yaml` has a line for every flag that is known: what it sets here, that it moves no
cost, or why it is refused. Flags that are not known are refused, all faults at once. What the
command leaves out has the engine's own default (`usual_step_tokens`, the profile's memory share).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError, nearest_name
from simulator.basis.sizes import read_tokens
from simulator.basis.yaml_loader import StrictModel, load_yaml

_FLAGS = Path(__file__).parent / "launch_flags.yaml"
# Tokens a step of engines whose own default is not known.
OTHER_STEP_TOKENS = 8192


class Flag(StrictModel):
    """One flag: it `sets` something, is `idle` (why it moves no cost), or is `refused` (why)."""

    sets: str | None = None
    idle: str | None = None
    refused: str | None = None
    kind: Literal["text", "whole", "number", "size", "drafts"] = "text"
    words: dict[str, str | None] | None = None
    switch: bool = False
    many: bool = False
    also: tuple[str, ...] = ()


class StepTokens(StrictModel):
    """The engine's default for chips by name, or with less memory than so many GiB.

    `requests`: most that run at once on a data rank; None where the engine finds that itself.
    """

    tokens: Annotated[int, Field(gt=0)]
    requests: Annotated[int, Field(gt=0)] | None = None
    chips: tuple[str, ...] = ()
    below_gib: float | None = None

    def meets(self, chip: ChipSpec) -> bool:
        """Whether the line is about the chip."""
        if self.chips:
            return chip.name in self.chips
        return self.below_gib is None or chip.hbm_capacity_bytes < self.below_gib * 2**30


class EngineFlags(StrictModel):
    """Flags and defaults of one engine. `engines`: profiles by the chip's vendor, and `others`.

    `steps_shared`: tokens a step are divided among data ranks.
    """

    starts: tuple[str, ...]
    engines: dict[str, str | tuple[str, ...]]
    source: str
    steps_shared: bool
    step_tokens: tuple[StepTokens, ...]
    flags: dict[str, Flag]

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of all its profiles, the default one first."""
        named = [[name] if isinstance(name, str) else name for name in self.engines.values()]
        return tuple(name for names in named for name in names)

    def profile(self, chip: ChipSpec | None) -> str:
        """Profile on a chip."""
        found = self.engines.get(chip.vendor if chip else "", self.engines["default"])
        assert isinstance(found, str)
        return found


class _Table(RootModel[dict[str, EngineFlags]]):
    """Engines by their word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a launch command says, in our words.

    `deployment`: options of `ask_deployment` without the chip; `step_tokens` and
    `running_requests` are of one data rank. `read`: what each flag became; `idle`: flags that move
    no cost, with the reason; `flags`: the flag behind each of our options.
    """

    command: str
    deployment: Mapping[str, Any]
    step_tokens: int | None = None
    running_requests: int | None = None
    drafts: int | None = None
    longest_context: int | None = None
    read: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)

    def worded(self, message: str) -> str:
        """A refusal in which our options stand, with the flags of the command in their place."""
        for name, flag in self.flags.items():
            if flag.startswith("-") and name not in _OURS:
                typed = _TYPED.get(name, name).replace("_", "-")
                message = message.replace(f"--{typed} ", f"{flag} ")
        return message

    def refuse_beyond(self, context: int) -> None:
        """Raise InputError for a context that the command does not take."""
        if self.longest_context is not None and context > self.longest_context:
            raise InputError(
                f"context is {context:,} tokens, but {self.flags['longest_context']} of the launch "
                f"command takes {self.longest_context:,} ({context - self.longest_context:,} too "
                "many)"
            )


@cache
def engine_flags() -> dict[str, EngineFlags]:
    """The table of all engines."""
    return load_yaml(_FLAGS, _Table).root


def usual_step_tokens(profile: str, chip: ChipSpec, data_ranks: int) -> int:
    """Tokens a step of one data rank where nobody says: the engine's own default on the chip."""
    for engine in engine_flags().values():
        if profile in engine.profiles:
            whole = next(line.tokens for line in engine.step_tokens if line.meets(chip))
            return max(1, whole // data_ranks) if engine.steps_shared else whole
    return OTHER_STEP_TOKENS


def usual_running_requests(profile: str, chip: ChipSpec, data_ranks: int) -> int | None:
    """Requests at once on all data ranks where nobody says: the engine's own default on the chip.

    None where the engine derives it from what its pools hold, or it is not published.
    """
    for engine in engine_flags().values():
        if profile in engine.profiles:
            own = next(line.requests for line in engine.step_tokens if line.meets(chip))
            return None if own is None else own * data_ranks
    return None


def read_launch(command: str, chip: ChipSpec | None = None, engine: str | None = None) -> Launch:
    """A command in our words; `engine`: another profile of the same engine.

    Raises InputError with every flag that is not known or cannot be answered.
    """
    try:
        words = shlex.split(command.replace("\\\n", " "))
    except ValueError as error:
        raise InputError(f"launch command: {error}; is a quote open?") from None
    environment = []
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):
        environment.append(words.pop(0))
    name, rest = _engine_of(words)
    known = engine_flags()[name]
    if engine is not None and engine not in known.profiles and engine in _all_profiles():
        raise InputError(
            f"--engine {engine} is given beside a launch command of {name}; give one of "
            f"{', '.join(known.profiles)}, or leave it out"
        )
    found = _Found(known)
    found.take(rest)
    if found.faults:
        raise InputError(f"launch command: {'; '.join(found.faults)}")
    return _assembled(name, known, found, command, tuple(environment), chip, engine)


def _all_profiles() -> set[str]:
    return {name for engine in engine_flags().values() for name in engine.profiles}


def _engine_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """The engine that a command starts, and the words after that."""
    for name, engine in engine_flags().items():
        for start in engine.starts:
            wanted = start.split()
            for at in range(min(4, len(words))):
                if list(words[at : at + len(wanted)]) == wanted:
                    return name, list(words[at + len(wanted) :])
    starts = ", ".join(engine.starts[0] for engine in engine_flags().values())
    said = " ".join(words[:3]) or "nothing"
    raise InputError(
        f"launch command begins with {said!r}, which starts no known engine; known are {starts}"
    )


class _Found:
    """Settings and faults of a command's flags."""

    def __init__(self, engine: EngineFlags) -> None:
        self.engine = engine
        self.settings: dict[str, Any] = {}
        self.by: dict[str, str] = {}
        self.said: dict[str, str] = {}
        self.idle: dict[str, list[str]] = {}
        self.faults: list[str] = []
        self.names = {name: name for name in engine.flags}
        self.names |= {other: name for name, flag in engine.flags.items() for other in flag.also}

    def take(self, words: list[str]) -> None:
        """Read all words; a first one that is no flag is the model."""
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if not re.match(r"--?[A-Za-z]", word):
                self._set("the model", Flag(sets="model"), word)
                continue
            given, equals, value = word.partition("=")
            name = self._name(given)
            if name is None:
                self._unknown(given)
                while rest and not rest[0].startswith("-"):
                    rest.pop(0)
                continue
            flag = self.engine.flags[name]
            values = [value] if equals else self._values(flag, rest)
            self._take(given, flag, values)

    def _values(self, flag: Flag, rest: list[str]) -> list[str]:
        """Words that belong to a flag, taken off the rest."""
        if flag.switch:
            return []
        values = [rest.pop(0)] if rest and not re.match(r"--[A-Za-z]", rest[0]) else []
        while flag.many and rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
        return values

    def _name(self, given: str) -> str | None:
        if re.fullmatch(r"-O\d?", given):
            given = "-O"
        plain = given if given.count("-") < 2 else "--" + given[2:].replace("_", "-")
        return self.names.get(given) or self.names.get(plain)

    def _unknown(self, given: str) -> None:
        near = nearest_name(given.replace("_", "-"), self.names)
        hint = f" (did you mean {near}?)" if near else ""
        self.faults.append(f"{given} is not known{hint}")

    def _take(self, given: str, flag: Flag, values: list[str]) -> None:
        if flag.refused is not None:
            self.faults.append(f"{given} cannot be answered: {flag.refused}")
        elif not flag.switch and not values:
            self.faults.append(f"{given} needs a value")
        elif flag.idle is not None:
            self.idle.setdefault(flag.idle, []).append(given)
        else:
            self._set(given, flag, values[0] if values else "true")

    def _set(self, given: str, flag: Flag, text: str) -> None:
        assert flag.sets is not None
        try:
            value = _value(given, flag, text)
        except InputError as error:
            self.faults.append(error.message)
            return
        if flag.sets in self.settings and self.settings[flag.sets] != value:
            self.faults.append(f"{given} {text} comes after {self.said[flag.sets]}: give one")
        self.settings[flag.sets] = value
        self.by[flag.sets] = given
        self.said[flag.sets] = given if flag.switch or given == "the model" else f"{given} {text}"


def _value(given: str, flag: Flag, text: str) -> Any:
    """The value of a flag; a fault is a sentence that opens with the flag."""
    if flag.switch:
        return True
    if flag.words is not None:
        plain = text if text in flag.words else text.lower()
        if plain not in flag.words:
            known = ", ".join(flag.words)
            raise InputError(f"{given} {text} cannot be answered: known here are {known}")
        return flag.words[plain]
    if flag.kind == "drafts":
        return _drafts(given, text)
    if flag.kind == "size":
        decimal = re.fullmatch(r"([\d.]+)([km])", text)  # engines read 1k as 1,000 and 1K as 1,024
        if decimal:
            return int(float(decimal[1]) * (1000 if decimal[2] == "k" else 1_000_000))
        return read_tokens(text, given)
    try:
        return int(text) if flag.kind == "whole" else float(text) if flag.kind == "number" else text
    except ValueError:
        raise InputError(f"{given} is {text!r}, expected a {flag.kind} number") from None


def _drafts(given: str, text: str) -> int:
    """Drafts a step of vLLM's speculative configuration."""
    try:
        data = json.loads(text)
        number = int(data["num_speculative_tokens"])
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{given} {text} cannot be read; expected JSON with num_speculative_tokens, such as "
            '{"method": "mtp", "num_speculative_tokens": 1}'
        ) from None
    method = str(data.get("method", "mtp"))
    if not ("mtp" in method or "dspark" in method):
        raise InputError(
            f"{given}: drafts by {method!r} are not modelled; known are mtp, deepseek_mtp, dspark"
        )
    return number


# Options that a refusal is about even where a command says the same.
_OURS = ("drafts",)
# What `capacity` calls them.
_TYPED = {"step_tokens": "in_flight_tokens"}
_OPTIONS = {
    "step_tokens": "tokens a step",
    "running_requests": "requests at once",
    "longest_context": "longest context",
    "drafts": "--drafts",
}


def _assembled(
    name: str,
    known: EngineFlags,
    found: _Found,
    command: str,
    environment: tuple[str, ...],
    chip: ChipSpec | None,
    engine: str | None,
) -> Launch:
    """Settings as our options, with the sense that the engine gives to degrees."""
    given = dict(found.settings)
    degrees = _sglang_degrees(given, found) if name == "sglang" else _plain_degrees(given)
    ranks = degrees.pop("ranks")
    data = degrees["dp"]
    options: dict[str, Any] = {"engine": engine or known.profile(chip), **degrees}
    options["count"] = ranks * degrees["pp"]
    for key in ("model", "memory_share", "page_tokens", "kv_dtype", "index_dtype", "exchange"):
        if given.get(key) is not None:
            options[key] = given[key]
    steps, running = given.get("step_tokens"), given.get("running_requests")
    for what, value in (("step_tokens", steps), ("running_requests", running)):
        if value is not None and value < 1:
            found.faults.append(f"{found.said[what]}: at least 1 is expected here")
    if name == "sglang":
        steps = steps and max(1, steps // data)
        running = running and max(1, running // data)
    drafts = _draft_number(given, found)
    if found.faults:
        raise InputError(f"launch command: {'; '.join(found.faults)}")
    return Launch(
        command=command,
        deployment=options,
        step_tokens=steps,
        running_requests=running,
        drafts=drafts,
        longest_context=given.get("longest_context"),
        read=tuple(_read(found, options, steps, running, drafts)),
        idle=tuple(f"{', '.join(flags)} ({why})" for why, flags in found.idle.items()),
        environment=tuple(word.partition("=")[0] for word in environment),
        flags=dict(found.by),
    )


def _plain_degrees(given: Mapping[str, Any]) -> dict[str, Any]:
    """Tensor ranks times data ranks; experts are cut by tensor unless they are spread."""
    tp, dp, pp = (given.get(key) or 1 for key in ("tp", "dp", "pp"))
    spread = tp * dp if given.get("experts_spread") else 1
    found = {"tp": tp, "dp": dp, "pp": pp, "ranks": tp * dp, "ep": given.get("ep") or spread}
    return found | ({"cp": given["cp"]} if given.get("cp") else {})


def _sglang_degrees(given: Mapping[str, Any], found: _Found) -> dict[str, Any]:
    """--tp-size is all ranks; with data-parallel attention they are divided among data ranks."""
    ranks, dp, pp = (given.get(key) or 1 for key in ("ranks", "dp", "pp"))
    if dp > 1 and not given.get("dp_attention"):
        found.faults.append(
            f"{found.said['dp']} without --enable-dp-attention starts {dp} servers of their own; "
            "give the command of one (v4sim serve has replicas)"
        )
    if given.get("dp_attention") and ranks % dp:
        found.faults.append(f"{found.said['dp']} does not divide the {ranks} ranks of --tp-size")
        dp = 1
    # DeepEP and Mega MoE send tokens to the ranks of their experts, so that all ranks hold some.
    spread = ranks if given.get("exchange") in ("deepep", "fused") else 1
    return {
        "tp": ranks // dp,
        "dp": dp,
        "pp": pp,
        "ranks": ranks,
        "ep": given.get("ep") or spread,
    }


def _draft_number(given: Mapping[str, Any], found: _Found) -> int | None:
    drafts, verified = given.get("drafts"), given.get("verified")
    if given.get("draft_width", 1) != 1:
        found.faults.append(f"{found.said['draft_width']}: only chains of drafts (1) are modelled")
    if verified is not None and verified != (drafts or 0) + 1:
        found.faults.append(
            f"{found.said['verified']} is not the {(drafts or 0) + 1} that a chain of "
            f"{drafts or 0} steps verifies"
        )
    if drafts is not None and "drafter" not in given and "verified" in given:
        found.faults.append("drafts are given without --speculative-algorithm")
    return int(drafts) if drafts is not None else None


def _read(
    found: _Found,
    options: Mapping[str, Any],
    steps: int | None,
    running: int | None,
    drafts: int | None,
) -> list[str]:
    """What each flag became, in the order of the command."""
    own = {"step_tokens": steps, "running_requests": running, "drafts": drafts}
    own["longest_context"] = found.settings.get("longest_context")
    same = {"ranks": "tp", "experts_spread": "ep", "dp_attention": "dp"}
    lines = []
    for what, said in found.said.items():
        key = same.get(what, what)
        if what == "ranks" and options["dp"] > 1:
            lines.append(f"{said} is --tp {options['tp']} x --dp {options['dp']}")
            continue
        if own.get(key) is not None:
            lines.append(f"{said} is {own[key]:,} {_OPTIONS[key]}".replace("drafts --", "--"))
        elif key in options:
            lines.append(f"{said} is --{key.replace('_', '-')} {options[key]}")
    return lines
