"""The kept answers are today's: `python -m tests.answers.questions` writes them anew."""

import pytest
import yaml

from tests.answers.questions import ANSWERS, answerers
from tests.sampling import tenth

REMEDY = "'python -m tests.answers.questions' writes what moved, 'git diff' shows it"


def test_every_question_has_its_answer() -> None:
    assert list(yaml.safe_load(ANSWERS.read_text())) == list(answerers()), REMEDY


@pytest.mark.parametrize("name", tenth(list(answerers()), 7))
def test_answers_are_those_that_are_kept(name: str) -> None:
    kept = yaml.safe_load(ANSWERS.read_text())[name]
    assert answerers()[name]() == pytest.approx(kept, rel=1e-9), REMEDY
