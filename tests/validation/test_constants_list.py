"""The printed list of constants: whose they are, how many a kernel has, that none is left out."""

import json
from collections import Counter

import pytest

from simulator.calibration.published_constants import (
    KERNEL_OF,
    MODULES,
    UNFITTED,
    fitted_constants,
    listed_family,
)
from simulator.cli.main import main
from simulator.kernels.attention_module import AttentionModule
from simulator.kernels.constants_file import read_constants
from simulator.kernels.family import MOST_CONSTANTS
from simulator.kernels.registry import FAMILIES

FITTED = fitted_constants()
MODULE_FAMILIES = [f for f in FAMILIES.values() if isinstance(f, AttentionModule)]


def test_every_stored_constant_is_listed_once_with_its_value():
    listed = {(c.rows_of, c.architecture, c.name): c.value for c in FITTED}
    stored = {
        (name, architecture, constant): value
        for name in FAMILIES
        for architecture, fit in read_constants(name).architectures.items()
        for constant, value in fit.constants.items()
    }
    assert listed == stored
    assert len(FITTED) == len(stored)


def test_no_kernel_has_more_constants_than_the_rule_allows():
    counts = Counter((c.family, c.architecture) for c in FITTED)
    assert max(counts.values()) <= MOST_CONSTANTS


def test_a_whole_module_keeps_its_fixed_part_alone():
    assert {f.name for f in MODULE_FAMILIES} == {n for n in FAMILIES if n.startswith(MODULES)}
    for family in MODULE_FAMILIES:
        own = {c.name for c in FITTED if c.family == family.name}
        assert own == {"fixed"}


def test_the_mapping_names_what_modules_are_fitted_with_and_no_more():
    used = {constant.name for family in MODULE_FAMILIES for constant in family.constants}
    assert set(KERNEL_OF) == used


def test_kernels_of_a_module_are_listed_under_their_engine():
    assert listed_family("attention_module_vllm", "move") == "elementwise_vllm"
    trtllm = listed_family("attention_module_trtllm", "vector_ops_per_clock")
    assert trtllm == "sparse_core_trtllm"
    assert listed_family("gemm_fp8_trtllm", "move") == "gemm_fp8_trtllm"


def test_a_listed_kernel_takes_its_constants_from_one_fit():
    fits = {}
    for c in FITTED:
        fits.setdefault((c.family, c.architecture), set()).add(c.rows_of)
    assert all(len(names) == 1 for names in fits.values()), fits


def test_a_value_at_its_bound_says_so():
    for c in FITTED:
        inside = c.low * 1.001 < c.value < c.high * 0.999
        assert c.at_bound != inside, c


def test_numbers_that_are_not_fitted_are_those_of_the_programs():
    names = [(u.module, u.name) for u in UNFITTED]
    assert len(set(names)) == len(names)
    assert all(u.value > 0 for u in UNFITTED)
    assert dict(zip(names, UNFITTED, strict=True))["nccl", "SWITCH_SHARE"].value == 0.75


def test_the_command_prints_all_of_them(capsys, tmp_path):
    out = tmp_path / "constants.json"
    assert main(["calibrate", "--list", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    data = json.loads(out.read_text())
    assert len(data["fitted"]) == len(FITTED)
    assert len(data["unfitted"]) == len(UNFITTED)
    assert "elementwise_vllm on hopper: 671 rows, fitted with attention_module_vllm" in text
    assert sum(line.startswith("  ") for line in text.splitlines()) == len(FITTED) + len(UNFITTED)


@pytest.mark.parametrize("also", [["folder"], ["--out", "folder"]])
def test_the_list_is_asked_for_alone(capsys, also):
    assert main(["calibrate", "--list", *also]) == 2
    assert "--list fits nothing" in capsys.readouterr().err


def test_nothing_to_fit_to_says_what_to_give(capsys):
    assert main(["calibrate"]) == 2
    assert "give a folder of tables, or --list" in capsys.readouterr().err
