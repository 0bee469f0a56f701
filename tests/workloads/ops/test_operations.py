"""Every operation is listed, complete, and tested for shape, refusal, value and demand."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import workloads.ops
from workloads.op import Op
from workloads.ops import OPERATIONS

ASPECTS = ("test_shape", "test_refuses", "test_value", "test_demand")


def test_every_operation_of_the_package_is_listed_once():
    found = set()
    for info in pkgutil.iter_modules(workloads.ops.__path__):
        module = importlib.import_module(f"workloads.ops.{info.name}")
        for thing in vars(module).values():
            if isinstance(thing, type) and issubclass(thing, Op) and thing is not Op:
                found.add(thing)
    assert found == set(OPERATIONS.values())
    assert len(OPERATIONS) == len(found)


@pytest.mark.parametrize(("name", "op"), OPERATIONS.items(), ids=list(OPERATIONS))
def test_every_operation_has_tests_of_each_aspect(name, op):
    file = op.__module__.rpartition(".")[2]
    tests = importlib.import_module(f"tests.workloads.ops.test_{file}")
    cases = getattr(tests, f"Test{op.__name__}", None)
    assert cases is not None, f"{name}: no class Test{op.__name__} in test_{file}.py"
    for aspect in ASPECTS:
        assert any(case.startswith(aspect) for case in vars(cases)), f"{name}: no {aspect}"


PARTS = {
    "infer": lambda self, types, step: (),
    "evaluate": lambda self, arrays, context: (),
    "work": lambda self, types, step, stats: None,
}


@pytest.mark.parametrize("missing", PARTS)
def test_an_operation_without_one_of_its_three_parts_cannot_be_built(missing):
    kept = {part: method for part, method in PARTS.items() if part != missing}
    incomplete = type("Incomplete", (Op,), kept)
    with pytest.raises(TypeError, match=missing):
        incomplete()
    whole = type("Whole", (Op,), dict(PARTS))
    assert isinstance(whole(), Op)
