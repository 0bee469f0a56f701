"""`make fuzz N=1000 SEED=1`: cases drawn from a seed; every new fault is kept, made small."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.fuzz.mutations import Case, mutated
from tests.fuzz.oracle import Ending, run
from tests.fuzz.samples import QUESTIONS, write_samples

FOUND = Path(__file__).parent / "found"


def draw_case(seed: int, number: int) -> Case:
    """The case of a number; commands take turns, and questions of each."""
    draw = random.Random(f"{seed}/{number}")
    asked = list(questions_by_command().values())
    own = asked[number % len(asked)]
    question = own[number // len(asked) % len(own)]
    with tempfile.TemporaryDirectory() as folder:
        write_samples(Path(folder))
        return mutated(question, Path(folder), draw)


@cache
def questions_by_command() -> dict[str, list[str]]:
    """Questions of the samples by their command."""
    found: dict[str, list[str]] = {}
    for question in QUESTIONS:
        found.setdefault(Case(tuple(question.split())).command, []).append(question)
    return found


def ending_of(case: Case) -> Ending:
    """The case in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return run(case, Path(folder))


def smaller(case: Case, root: str) -> Case:
    """Without the options and the lines of files that the fault does not need."""
    for name in case.options:
        if name in case.words:
            at = case.words.index(name)
            for end in (at + 2, at + 1):
                less = replace(case, words=case.words[:at] + case.words[end:])
                if ending_of(less).root == root:
                    case = less
                    break
    return case


def keep(case: Case, folder: Path = FOUND) -> Path:
    """The case as a file, which the tests run from then on."""
    number = 1 + max((int(p.stem) for p in folder.glob("*.json")), default=0)
    path = folder / f"{number:03d}.json"
    files = {name: content.decode("latin-1") for name, content in case.files.items()}
    data = {"words": case.words, "options": case.options, "files_latin_1": files}
    path.write_text(json.dumps(data, indent=1) + "\n")
    return path


def kept(path: Path) -> Case:
    """A case from its file."""
    data = json.loads(path.read_text())
    files = {name: text.encode("latin-1") for name, text in data["files_latin_1"].items()}
    return Case(tuple(data["words"]), files, tuple(data["options"]))


def main() -> int:
    """Prints a line a finding and the counts; 1 where there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--keep", action="store_true", help="write each fault to found/")
    given = parser.parse_args()
    codes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    commands: Counter[str] = Counter()
    valid = 0
    roots: dict[str, int] = {}
    began = time.monotonic()
    for number in range(given.first, given.first + given.cases):
        if time.monotonic() - began > given.seconds:
            break
        if codes.total() % 500 == 499:
            print(f"  {codes.total() + 1} cases, {len(roots)} distinct faults", flush=True)
        case = draw_case(given.seed, number)
        ending = ending_of(case)
        codes[f"{ending.code}"] += 1
        commands[case.command] += 1
        valid += not case.files and not case.options
        if ending.fault is None:
            continue
        faults[ending.fault.partition(":")[0]] += 1
        if ending.root not in roots:
            case = smaller(case, ending.root)
            said = f"{' '.join(case.words)!r} {[*case.files]} {ending.fault}"
            print(f"{given.seed}/{number} {said}", flush=True)
            if given.keep:
                print(f"  kept as {keep(case)}")
        roots[ending.root] = roots.get(ending.root, 0) + 1
    took = time.monotonic() - began
    print(
        f"seed {given.seed}: {codes.total()} cases in {took:.0f} s, {valid} of them valid; "
        f"exit codes {dict(codes)}; commands {dict(commands)}"
    )
    print(f"faults {dict(faults)}, {len(roots)} distinct")
    return 1 if roots else 0


if __name__ == "__main__":
    raise SystemExit(main())
