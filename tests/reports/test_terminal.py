"""The terminal shows sentence, tables and memory, and cuts nothing."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from reports.answer import answer_sentence
from reports.terminal import memory_sentence, print_step
from simulator.basis.units import format_time_ps
from simulator.cost.result import StepResult
from tests.reports.factory import make_memory, make_proof, make_step


def _printed(result: StepResult, width: int, **options: object) -> str:
    out = io.StringIO()
    print_step(Console(file=out, width=width), result, **options)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.fixture(scope="module")
def result() -> StepResult:
    return make_step()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_nothing_is_cut(result: StepResult, width: int) -> None:
    text = _printed(result, width, proof=make_proof())
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert " ".join(text.split()).startswith(answer_sentence(result))
    assert format_time_ps(result.total_ps) in text.rsplit("\nstep ", 1)[1]
    assert "\nheavily compressed (HCA) ×20 " in text
    assert not [line for line in text.splitlines() if line.startswith("%")]
    assert "of one chip of 8" in " ".join(text.split())


def test_wider_terminals_show_more(result: StepResult) -> None:
    shown = {}
    for width in (60, 80, 100, 120, 140):
        lines = _printed(result, width).splitlines()
        line = next(line for line in lines if line.startswith("operation "))
        shown[width] = line.replace("of peak", "of-peak").split()[1:]
    assert shown[60] == ["time", "share", "bound"]
    assert shown[80] == [*shown[60], "DRAM", "FLOP"]
    assert shown[100] == [*shown[60], "DRAM", "of-peak", "FLOP", "of-peak"]
    assert shown[120] == ["launches", *shown[100]]
    rates = ["DRAM", "rate", "of-peak", "FLOP", "rate", "of-peak"]
    assert shown[140] == ["launches", *shown[60], *rates]


def test_what_is_hidden_is_explained(result: StepResult) -> None:
    text = " ".join(_printed(result, 100, top=100).split())
    assert "Hidden: runs beside something longer" in text


def test_what_is_not_shown_is_summed(result: StepResult) -> None:
    operations = len({kernel.name for kernel in result.kernels}) + 1  # and between launches
    assert f"{operations - 5} others together" in _printed(result, 120, top=5)
    assert "others together" not in _printed(result, 120, top=operations)


def test_memory() -> None:
    memory = make_memory()
    assert memory_sentence(memory).startswith(
        "Memory of one chip: weights 20 GiB, state 18.35 GiB (window 176 MiB, "
    )
    assert "compressor rows 90 MiB" in memory_sentence(memory)
    assert memory_sentence(memory).endswith("89.97 GiB free of 131.3 GiB.")
    small = replace(memory, capacity_bytes=memory.used_bytes - 2**30)
    assert "OVER by 1 GiB" in memory_sentence(small)


def test_brackets_in_names_are_no_markup(result: StepResult) -> None:
    kernel = replace(result.kernels[0], name="copy[0]")
    odd = replace(result, kernels=(kernel, *result.kernels[1:]), notes=("see [1]",))
    text = _printed(odd, 120, top=100)
    assert "copy[0]" in text
    assert "see [1]" in text
