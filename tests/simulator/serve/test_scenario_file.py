"""Scenarios by name and path, with keys changed; every fault is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.basis.errors import InputError
from simulator.serve.scenario_file import list_scenarios, open_scenario

MINE = """
name: mine
model: v4-flash
chip: h200
traffic:
  trace: requests.jsonl
"""


@pytest.mark.parametrize("name", list_scenarios())
def test_what_ships_is_made_up_and_has_levels(name: str) -> None:
    scenario = open_scenario(name)
    assert scenario.name == name
    assert scenario.traffic.trace is None
    assert scenario.service_levels.ttft_s
    assert scenario.service_levels.tpot_ms


def test_changes_reach_every_depth() -> None:
    plain = open_scenario("chat")
    changes = ["replicas=3", "traffic.made.rate_per_s=0.5", "prices=tco-neocloud", "engine=ideal"]
    changed = open_scenario("chat", [*changes, "prefix_cache.eviction=fifo", "parallel={tp: 4}"])
    assert (changed.replicas, changed.traffic.made.rate_per_s) == (3, 0.5)
    assert (changed.prices, changed.engine) == ("tco-neocloud", "ideal")
    assert changed.prefix_cache.eviction == "fifo"
    assert (changed.parallel.tp, changed.parallel.dp) == (4, 1)
    assert changed.traffic.made.input_tokens == plain.traffic.made.input_tokens
    closed = open_scenario("chat", ["traffic.made.rate_per_s=null", "traffic.made.concurrency=8"])
    assert closed.traffic.made.concurrency == 8


def test_files_are_found_beside_the_scenario_or_from_here(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "mine.yaml"
    path.write_text(MINE)
    assert open_scenario(path).traffic.trace == str(path.with_name("requests.jsonl"))
    monkeypatch.chdir(tmp_path)
    changed = open_scenario(path, ["traffic.trace=other.jsonl"])
    assert changed.traffic.trace == str(tmp_path / "other.jsonl")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("foo", r"'foo' is not of the form key=value"),
        ("=3", r"'=3' is not of the form key=value"),
        ("a..b=3", r"not of the form key=value"),
        ("replicas=", r"gives no value; null takes a key out"),
        ("name.x=3", r"--set name.x: name is 'chat', not a section with keys"),
        ("trafic=3", r"unknown key 'trafic': did you mean 'traffic'\?"),
        ("traffic.made.rate=3", r"unknown key 'traffic.made.rate': did you mean 'rate_per_s'"),
        ("replicas=two", r"'replicas' is 'two', expected a whole number"),
        ("replicas=0", r"'replicas' is 0, expected more than 0"),
        ("traffic.trace=x.jsonl", r"give one of trace, made"),
        ("traffic.made.concurrency=3", r"give either rate_per_s \(open loop\) or concurrency"),
        ("speculation={draft_tokens: 2, accepted: [1.5]}", r"accepted has 1 values"),
        ("speculation={draft_tokens: 2}", r"give one of them"),
        (
            "speculation={draft_tokens: 1, accepted: [1.5], accepted_by_position: [0.5]}",
            r"give one of them",
        ),
        ("speculation={draft_tokens: 2, accepted_by_position: [0.5]}", r"has 1 values"),
        (
            "speculation={draft_tokens: 2, accepted_by_position: [0.5, 0.6]}",
            r"accepted_by_position.1.*rises from 0.5 to 0.6 at draft 2",
        ),
        ('model="[x', r"not valid YAML"),
    ],
)
def test_a_change_that_is_wrong_is_a_sentence(change: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        open_scenario("chat", [change])
    assert "\n" not in caught.value.message
    assert "--set" in caught.value.message


def test_a_fault_of_the_file_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.replace("chip: h200", "chp: h200"))
    with pytest.raises(InputError, match=r"mine.yaml:4: unknown key 'chp': did you mean 'chip'"):
        open_scenario(path)
    path.write_text(MINE + "  made: {input_tokens: 1, output_tokens: 1, requests: 1}\n")
    with pytest.raises(InputError, match=r"mine.yaml:\d: 'traffic.made': give either rate_per_s"):
        open_scenario(path)
    with pytest.raises(InputError, match="did you mean 'chat'"):
        open_scenario("chta")
