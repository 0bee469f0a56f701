"""A seeded sample of fuzzed cases, and every case that once ended badly."""

from pathlib import Path

import pytest

from tests.fuzz.mutations import Case, command_names
from tests.fuzz.oracle import run
from tests.fuzz.run import FOUND, draw_case, ending_of, kept
from tests.fuzz.samples import QUESTIONS
from tests.sampling import WHOLE

CASES = 1000 if WHOLE else 60
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_fuzzed_cases_answer_or_say_what_is_wrong_and_where(part, tmp_path):
    faults = []
    for number in range(part, CASES, PARTS):
        case = draw_case(7, number)
        ending = ending_of(case)
        if ending.fault:
            faults.append(f"7/{number} {' '.join(case.words)} {[*case.files]}: {ending.fault}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.json")), ids=lambda path: path.stem)
def test_what_once_ended_badly_does_no_more(path: Path, tmp_path):
    ending = run(kept(path), tmp_path)
    assert ending.fault is None


# `ui` waits for a browser, `demo` takes half a minute and is killed in tests/interrupted; `claims`
# reads no file of the user's.
_NOT_ASKED = {"ui", "demo", "claims"}


def test_every_command_has_a_question():
    asked = {Case(tuple(question.split())).command for question in QUESTIONS}
    assert asked == set(command_names()) - _NOT_ASKED
