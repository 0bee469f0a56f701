"""What three users come for, with the README alone: ten commands and five minutes each at most,
and nothing written by hand but the prices.

Minutes are of processor time, so that a busy machine fails nobody. The planner's fleets are smaller
in `make test` than in `make test-all`.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import v4sim
from simulator.cli.main import main
from tests.sampling import WHOLE

MOST_COMMANDS, MOST_S = 10, 300.0


class User:
    """Types commands in a folder of their own; counts them and the time that they take."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        self._began_s = time.process_time()
        self.commands: list[str] = []

    def types(self, line: str) -> str:
        """What a command prints; it has to succeed."""
        self.commands.append(line)
        self._capsys.readouterr()
        words = shlex.split(line)
        self._monkeypatch.setattr("sys.argv", words)
        code = main(words[1:])
        told = self._capsys.readouterr()
        assert code == 0, f"{line}: {told.err}"
        return told.out

    def check(self) -> None:
        """Within ten commands and five minutes."""
        assert len(self.commands) <= MOST_COMMANDS, self.commands
        assert time.process_time() - self._began_s <= MOST_S


@pytest.fixture
def user(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[User]:
    monkeypatch.chdir(tmp_path)
    found = User(capsys, monkeypatch)
    yield found
    found.check()


def own_log(path: Path, requests: int) -> None:
    """What a service of the user's has logged: a table of no known format."""
    draw = np.random.default_rng(7)
    seconds = np.cumsum(draw.exponential(1 / 8, requests))
    prompts = draw.lognormal(7.3, 0.9, requests).astype(int) + 16
    answers = draw.lognormal(5, 0.7, requests).astype(int) + 2
    rows = [f"{s:.3f},{p},{a}\n" for s, p, a in zip(seconds, prompts, answers, strict=True)]
    path.write_text("when,prompt,answer\n" + "".join(rows))


@pytest.mark.skipif(not WHOLE, reason="takes long: a part of make test-all")
def test_a_planner_finds_the_cheapest_plan_and_what_a_fleet_carries(user: User) -> None:
    most = 16 if WHOLE else 4
    own_log(Path("mine.csv"), 400 if WHOLE else 200)
    columns = "--columns time=when:s,input=prompt,output=answer"
    assert "requests of" in user.types(f"v4sim trace info mine.csv {columns}")
    for chip, price in (("h200", "2.10"), ("b200", "3.40")):
        user.types(f"v4sim init prices --from {chip} --out {chip}-prices.yaml")
        path = Path(f"{chip}-prices.yaml")  # by hand: the price that is rented at
        lines = path.read_text().splitlines(keepends=True)
        place = next(n for n, line in enumerate(lines) if "name: rental" in line)
        at = next(n for n in range(place, len(lines)) if "usd_per_hour" in lines[n])
        before, _, after = lines[at].partition("value: ")
        lines[at] = f"{before}value: {price}{after[after.index(',') :]}"
        path.write_text("".join(lines))
    made = user.types(
        f"v4sim init plan --trace mine.csv {columns} --chip h200 --chip b200 --most-chips {most} "
        "--prices h200-prices.yaml --prices b200-prices.yaml"
    )
    assert "then: v4sim plan my-plan.yaml" in made
    user.types("v4sim plan my-plan.yaml --no-sensitivity --out out/plan")
    plan = json.loads(Path("out/plan/report.json").read_text())
    assert plan["best"]["meets"]
    rows = plan["best_of_each"] + plan["nearest_of_each"]
    assert {row["chip"] for row in rows} == {"h200", "b200"}
    for row in rows:
        outcome = row["outcome"]
        price = outcome["usd_per_hour"] / outcome["chips"]
        assert price == pytest.approx({"h200": 2.10, "b200": 3.40}[row["chip"]])
    fleet = "16xh200,16xb200" if WHOLE else "4xh200"
    user.types(f"v4sim plan my-plan.yaml --fleet {fleet} --out out/fleet")
    fleets = json.loads(Path("out/fleet/report.json").read_text())["fleets"]
    for found in fleets:
        for more in found["more"]:
            assert more["met"]["requests_per_s"] >= found["met"]["requests_per_s"]
    # The rate that is printed, served, meets the targets; 1.03 times it does not.
    user.types("v4sim serve out/fleet/fleet-1.yaml --json met.json")
    levels = json.loads(Path("met.json").read_text())["goodput"]["levels"]
    assert all(level["found"] <= level["asked"] for level in levels)
    scale = fleets[0]["missed"]["rate_scale"]
    assert scale == pytest.approx(1.03 * fleets[0]["met"]["rate_scale"])
    user.types(
        f"v4sim serve out/fleet/fleet-1.yaml --set traffic.rate_scale={scale!r} --json missed.json"
    )
    levels = json.loads(Path("missed.json").read_text())["goodput"]["levels"]
    assert any(level["found"] > level["asked"] for level in levels)
    assert "v4sim plan my-plan.yaml" in user.types("v4sim show out/plan")


def test_an_engineer_compares_engines_and_sees_the_timeline(user: User) -> None:
    step = "--model v4-flash --chip b200 --count 8 --batch 64 --context 128K"
    engines = "sglang-0.5,vllm-0.33,trtllm-1.3"
    user.types(f"v4sim compare {step} --engine {engines} --index-dtype fp8,fp4 --out out/six")
    six = json.loads(Path("out/six/report.json").read_text())
    assert len(six["sides"]) == 6
    for part in ("causes", "operations", "layer_kinds"):
        for place, side in enumerate(six["sides"]):
            changes = sum(row["changes_ps"][place] for row in six[part])
            assert changes == side["change_ps"]
    for name in ("fp8", "fp4"):
        user.types(f"v4sim step {step} --engine vllm-0.33 --index-dtype {name} --out out/{name}")
    assert Path("out/fp4/timeline.perfetto-trace").stat().st_size > 10_000
    told = user.types("v4sim compare out/fp8 out/fp4 --page two.html")
    assert "index_score" in told
    assert "figure-causes" in Path("two.html").read_text()
    # In Python the same figures.
    found = v4sim.step(
        model="v4-flash", chip="b200", count=8, batch=64, context="128K", engine="vllm-0.33",
        index_dtype="fp4",
    )  # fmt: skip
    stored = json.loads(Path("out/fp4/decode.json").read_text())
    assert found.to_dict()["total_ps"] == stored["total_ps"]
    assert len(found._repr_html_()) < 4_000
    assert len(found.to_pandas()) > 10


def test_a_researcher_has_own_tiers_and_figures_as_svg(user: User) -> None:
    user.types("v4sim trace synth --out mine.jsonl --sessions 4 --seed 1")
    assert "sessions" in user.types("v4sim trace info mine.jsonl")
    user.types("v4sim init tiers")
    told = user.types(
        "v4sim prefix compare --trace mine.jsonl --tiers my-tiers.yaml "
        "--policies full,boundary+junction,zero --out out/prefix"
    )
    assert "without a prefix cache" in " ".join(told.split())
    drawn = sorted(Path("out/prefix").glob("*.svg"))
    assert drawn
    for path in drawn:
        text = path.read_text()
        assert text.startswith("<svg")
        assert "<text" in text
