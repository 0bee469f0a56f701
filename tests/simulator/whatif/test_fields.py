"""Numbers of a chip halved and doubled, to the next value that its file may have."""

from __future__ import annotations

import pytest

from hwmodels.chip import find_chip
from hwmodels.chip_edits import edited_chip, number_keys, number_of
from hwmodels.dram.memory_preset import memory_preset
from simulator.basis.errors import InputError
from simulator.cost.question import AskedStep, ask
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step
from simulator.whatif.change import kernel_changes, on_chip, step_parts
from simulator.whatif.fields import FieldChange, chosen_fields, field_changes
from tests.laws.models import config
from tests.reports.factory import make_kernel, make_result

B200 = find_chip("b200")


def asked(chip: str = "h200") -> AskedStep:
    step = ask(model="v4-flash", chip=chip, count=1, context=256, engine="ideal", tp=1)
    return step.changed(config=config())


def changes(chip: str, *fields: str) -> list[FieldChange]:
    """What is tried for each field; every chip costs the same."""
    result = make_result(make_kernel("gemm", 0, 100))
    return list(field_changes(asked(chip), result, fields, lambda step: result))


def test_all_are_the_numbers_of_the_file_and_others_are_named() -> None:
    keys = chosen_fields(B200, ["all"])
    assert "cores.count" in keys
    assert "memory.RC" not in keys
    assert set(keys) < set(number_keys())
    assert chosen_fields(B200, ["memory.RC, cores.count", "memory.rows"]) == (
        "memory.RC",
        "cores.count",
        "memory.rows",
    )
    assert "memory.RC" in chosen_fields(edited_chip(B200, ["memory.RC=60ns"]), ["all"])


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("cores.cont", "near it are cores.count"),
        ("llc.ways", "b200 gives no llc.ways to halve and double"),
        ("memory.preset", "is a name and no number"),
        ("all,cores.count", "give no others beside it"),
    ],
)
def test_what_cannot_be_halved_is_one_sentence(word: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        chosen_fields(B200, [word])
    assert ". " not in caught.value.message


def test_values_are_half_and_double_or_the_next_legal_ones() -> None:
    edits = [change.edit for change in changes("b200", "cores.count", "memory.bandwidth")]
    assert edits == [
        "cores.count=74",
        "cores.count=296",
        "memory.bandwidth=3850GB/s",
        "memory.bandwidth=15400GB/s",
    ]
    # A row cannot be open for less than RAS and RP take.
    halved, doubled = changes("h200", "memory.RC")
    timing = memory_preset(find_chip("h200").memory).timing
    least = timing.in_clocks["RAS"] + timing.in_clocks["RP"]
    assert (halved.edit, doubled.edit) == (f"memory.RC={least}clk", "memory.RC=142clk")
    rcd = changes("h200", "memory.RCD")
    assert all(change.edit and not change.fault for change in rcd)
    assert rcd[1].edit < "memory.RCD=62clk"  # twice as much does not fit beside RAS


def test_a_number_of_one_has_no_half() -> None:
    (halved, doubled) = changes("h200", "dies_per_package")
    assert halved.fault == "no smaller value is legal"
    assert doubled.edit == "dies_per_package=2"


def test_presets_give_timings_that_the_file_does_not() -> None:
    assert number_of(B200, "memory.RC", stated=True) is None
    timing = number_of(B200, "memory.RC")
    assert timing is not None
    assert timing.unit == "clk"
    assert number_of(B200, "memory.RCD") == number_of(B200, "memory.RCDRD")
    own = number_of(edited_chip(B200, ["memory.RC=60ns"]), "memory.RC")
    assert own is not None
    assert (own.value, own.unit) == (60, "ns")


def test_a_change_is_that_of_the_edited_chip_and_names_what_moves_most() -> None:
    step = asked()
    base = cost_step(step)
    halved, doubled = field_changes(step, base, ["launch.graph_gap"], cost_step)
    quick = cost_step(on_chip(step, edited_chip(step.chip, [halved.edit])))
    assert halved.total_ps == quick.total_ps == base.total_ps + halved.change_ps
    assert halved.change_ps < 0 < doubled.change_ps
    first = kernel_changes(step_parts(base), step_parts(quick))[0]
    assert (halved.kernel, halved.kernel_change_ps) == (first.name, first.change_ps)


def test_a_step_that_is_refused_says_why() -> None:
    def refuse(step: AskedStep) -> StepResult:
        raise InputError(f"{step.chip.name} is too small")

    base = make_result(make_kernel("gemm", 0, 100))
    found = list(field_changes(asked("b200"), base, ["cores.count"], refuse))
    assert [c.fault for c in found] == [
        "b200 (cores.count=74) is too small",
        "b200 (cores.count=296) is too small",
    ]


def test_parts_and_their_changes_add_up() -> None:
    before = make_result(make_kernel("a", 0, 100), make_kernel("b", 110, 200), total_ps=210)
    after = make_result(make_kernel("a", 0, 40), make_kernel("c", 40, 90))
    parts = step_parts(before)
    assert parts == {"a": 100, "b": 90, "(between launches)": 20}
    changed = kernel_changes(parts, step_parts(after))
    assert [(k.name, k.change_ps) for k in changed] == [
        ("b", -90),
        ("a", -60),
        ("c", 50),
        ("(between launches)", -20),
    ]
    assert sum(k.change_ps for k in changed) == after.total_ps - before.total_ps
