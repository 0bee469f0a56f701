"""Points: what a grid makes of a file, what is refused before anything runs, and hashes."""

from __future__ import annotations

import pytest

from simulator.basis.errors import InputError
from simulator.serve.scenario import load_scenario
from simulator.sweep.grid import parse_grid
from simulator.sweep.inputs import product_version
from simulator.sweep.point import span
from tests.simulator.sweep.scenarios import TEXT, scenario_file


def points(path, *texts):
    return span(path, parse_grid(texts))


def test_points_are_the_scenarios_of_files_that_say_the_same(tmp_path):
    path = scenario_file(tmp_path)
    found = points(path, "parallel.tp=4,8", "scheduler.max_requests=2,3", "engine=vllm-0.33")
    assert [p.values for p in found] == [
        (tp, most, "vllm-0.33") for tp in (4, 8) for most in (2, 3)
    ]
    other = tmp_path / "other.yaml"
    other.write_text(
        TEXT.replace("tp: 4", "tp: 8").replace("engine: ideal", "engine: vllm-0.33")
        + "scheduler:\n  max_requests: 2\n"
    )
    assert found[2].scenario == load_scenario(other)
    assert len({p.digest for p in found}) == 4


def test_equal_scenarios_have_one_hash_whatever_the_grid_says(tmp_path):
    path = scenario_file(tmp_path)
    found = points(path, "parallel={tp: 4},{tp: 4, dp: 1},{tp: 2, dp: 2}")
    assert found[0].digest == found[1].digest != found[2].digest
    (same,) = points(path, "traffic.made.concurrency=4")
    (alone,) = points(path, "rate=1".replace("rate", "replicas"))
    assert same.digest == alone.digest == found[0].digest


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["paralel.tp=4"], "--grid paralel.tp=4: unknown key 'paralel': did you mean 'parallel'?"),
        (["parallel.tpp=4"], "did you mean 'tp'?"),
        (["parallel.tp=4,x"], "--grid parallel.tp=x: 'parallel.tp' is 'x', expected a whole"),
        (["parallel.tp=0"], "--grid parallel.tp=0: 'parallel.tp' is 0, expected more than 0"),
        (["fidelity=tile,tiles"], "did you mean 'tile'?"),
        (["chip=h200,h21"], "--grid chip=h21: unknown chip 'h21': did you mean 'h20'?"),
        (["model=v4-flas"], "did you mean 'v4-flash'?"),
        (["engine=vllm-0.3"], "did you mean 'vllm-0.33'?"),
        (["name.first=a"], "'name' is tiny in"),
        (["speculation.draft_tokens=1"], "say the same thing: give one of them"),
        (["traffic.made.rate_per_s=2.0,3.0"], "either rate_per_s (open loop) or concurrency"),
    ],
)
def test_a_value_that_is_never_valid_is_refused_before_anything_runs(tmp_path, texts, words):
    with pytest.raises(InputError, match=r".") as caught:
        points(scenario_file(tmp_path), "seed=1,2", *texts)
    assert words in caught.value.message


def test_a_fault_of_the_file_names_its_line(tmp_path):
    path = scenario_file(tmp_path, TEXT.replace("ideal", "ideel"))
    with pytest.raises(InputError, match="unknown engine 'ideel'") as caught:
        points(path, "seed=1,2")
    assert caught.value.message.startswith(f"{path}:6: ")


def test_a_grid_may_complete_the_file(tmp_path):
    path = scenario_file(tmp_path, TEXT.replace("chip: h200\n", ""))
    assert all(p.scenario is not None for p in points(path, "chip=h200,b200"))
    with pytest.raises(InputError, match="missing key 'chip'"):
        points(path, "seed=1,2")


def test_combinations_that_exclude_each_other_are_points_that_say_so(tmp_path):
    path = scenario_file(tmp_path)
    found = points(path, "traffic.made.rate_per_s=5.0,null", "traffic.made.concurrency=null,4")
    assert [p.scenario is not None for p in found] == [True, False, False, True]
    assert "either rate_per_s (open loop) or concurrency" in found[1].error
    assert len({p.digest for p in found}) == 4


def test_a_trace_counts_by_its_content_not_its_path(tmp_path):
    text = TEXT[: TEXT.index("  made:")] + "  trace: a.jsonl\n"
    digests = []
    for folder, row in (("a", b'{"x": 1}\n'), ("b", b'{"x": 1}\n'), ("c", b'{"x": 2}\n')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_bytes(row)
        (point,) = points(scenario_file(tmp_path / folder, text), "seed=1")
        digests.append(point.digest)
    assert digests[0] == digests[1] != digests[2]
    (tmp_path / "a" / "a.jsonl").write_bytes(b'{"x": 33}\n')
    (point,) = points(tmp_path / "a" / "tiny.yaml", "seed=1")
    assert point.digest not in digests


def test_a_trace_that_is_missing_is_refused(tmp_path):
    text = TEXT[: TEXT.index("  made:")] + "  trace: a.jsonl\n"
    with pytest.raises(InputError, match=r"a\.jsonl: No such file"):
        points(scenario_file(tmp_path, text), "seed=1,2")


def test_the_inputs_name_version_and_every_field(tmp_path):
    (point,) = points(scenario_file(tmp_path), "seed=7")
    assert product_version() in point.inputs
    assert '"seed":7' in point.inputs
    assert str(tmp_path) not in point.inputs
