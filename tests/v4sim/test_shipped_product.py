"""Whatever ships goes with whatever else ships: an answer, or a refusal in a sentence.

`make test-all` asks the whole product of nodes, engines and commands, models drawn; `make test` a
seeded part of rows that hold every pair of values.
"""

from __future__ import annotations

import itertools
import random
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from hwmodels.chip import list_chips
from hwmodels.node import list_nodes, load_node
from simulator.cli.main import main
from simulator.engine.profile import list_profiles
from tests.fuzz.samples import write_samples
from tests.sampling import WHOLE
from workloads.deepseek_v4.config import list_models

COMMANDS = {
    "decode": "step --chip {chip} --count {count} --dp {dp} --batch 4 --context 8192",
    "prefill": "step --chip {chip} --count {count} --dp {dp} --phase prefill --context 1000",
    "capacity": "capacity --chip {chip} --count {count} --dp {dp} --context 8192:0.5,100000:0.5",
    "compare": "prefix compare --trace a.jsonl --node {node} --policies boundary,zero",
    "crossover": "prefix crossover --node {node} --prefixes 4096",
}
VALUES: Mapping[str, Sequence[str]] = {
    "node": list_nodes(),
    "model": list_models(),
    "engine": list_profiles(),
    "command": tuple(COMMANDS),
}
SAMPLE, PARTS, SEED = 16, 4, 19
CODES = (0, 2, 3, 4)
_FAULTS = re.compile("Traceback|bug in v4sim|cannot be worked with|Warning")
Row = dict[str, str]


def product() -> list[Row]:
    """Every combination."""
    return [dict(zip(VALUES, row, strict=True)) for row in itertools.product(*VALUES.values())]


def pairs_of(row: Row) -> set[tuple[str, str]]:
    """Pairs of values in a row."""
    return set(itertools.combinations((f"{name}={value}" for name, value in row.items()), 2))


def pairwise(draw: random.Random) -> Iterator[Row]:
    """Rows that together hold every pair of values; each the best of some drawn ones."""
    left = set().union(*(pairs_of(row) for row in product()))
    rows = product()
    while left:
        best = max(draw.sample(rows, 60), key=lambda row: len(pairs_of(row) & left))
        new = pairs_of(best) & left
        if not new:
            best = next(row for row in rows if pairs_of(row) & left)
            new = pairs_of(best) & left
        left -= new
        yield best


def rows() -> list[Row]:
    """What this run asks."""
    if WHOLE:
        models = VALUES["model"]
        groups = itertools.product(VALUES["node"], VALUES["engine"], VALUES["command"])
        draw = random.Random(SEED)
        return [
            {"node": node, "model": draw.choice(models), "engine": engine, "command": command}
            for node, engine, command in groups
        ]
    return random.Random(SEED).sample(list(pairwise(random.Random(SEED))), SAMPLE)


def words_of(row: Row) -> list[str]:
    """The question of a row, laid out over its node, or one chip more than it has."""
    node = load_node(row["node"])
    draw = random.Random(str(row))
    count = draw.choice((node.chip_count, node.chip_count, 1))
    where = {"node": row["node"], "chip": node.chip, "count": count, "dp": draw.choice((1, count))}
    asked = COMMANDS[row["command"]].format(**where)
    return [*asked.split(), "--model", row["model"], "--engine", row["engine"]]


@pytest.mark.parametrize("part", range(PARTS))
def test_shipped_files_go_together(
    part: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_samples(tmp_path)
    faults, answered = [], 0
    for row in rows()[part::PARTS]:
        words = words_of(row)
        with warnings.catch_warnings(record=True) as noise:
            warnings.simplefilter("always")
            code = main(words)
        out, err = capsys.readouterr()
        answered += code == 0
        # That a deployment does not fit is what capacity answers.
        silent = "error: " not in err and not (code in (0, 3) and out.strip())
        if code not in CODES or _FAULTS.search(err) or silent:
            faults.append(f"{' '.join(words)}: {code} {err[-300:]}")
        faults += [
            f"{' '.join(words)}: {w.message}"
            for w in noise
            if issubclass(w.category, RuntimeWarning)
        ]
    assert not faults, "\n".join(faults)
    assert answered


def test_the_sample_is_drawn_from_every_pair() -> None:
    held = set().union(*(pairs_of(row) for row in pairwise(random.Random(SEED))))
    assert held == set().union(*(pairs_of(row) for row in product()))
    assert {load_node(name).chip for name in list_nodes()} == set(list_chips())
