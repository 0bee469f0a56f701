"""Every command: what it prints, what it writes, and one sentence for every bad input."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import workloads
from hwmodels.chip import find_chip, list_chips
from simulator.basis.yaml_loader import compose_yaml
from simulator.cli.main import main
from simulator.cli.options import console
from simulator.evaluate.verify import shipped_golden_file
from tests.sampling import WHOLE
from workloads.deepseek_v4.config import list_models

MODELS = Path(workloads.__file__).parent / "deepseek_v4" / "models"
FLASH_JSON = compose_yaml(MODELS / "v4-flash.yaml")[0]
STEP = ["step", "--model", "v4-flash", "--chip", "h200", "--count", "8"]


def run(capsys, *arguments):
    """(exit code, standard output, standard error) of one command."""
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    """The one sentence of a refused command."""
    code, _, err = run(capsys, *arguments)
    assert code == 2
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    return lines[0].removeprefix("error: ")


@pytest.mark.parametrize(
    "command",
    ["demo", "step", "verify", "claims", "models list", "models show", "chips list", "chips show"],
)
def test_every_command_has_help_with_an_example(capsys, command):
    code, out, _ = run(capsys, *command.split(), "--help")
    assert code == 0
    assert "Example: v4sim" in out
    assert "--json" in out


def test_step_prints_the_answer_and_writes_json_with_units_in_names(capsys, tmp_path):
    path = tmp_path / "step.json"
    arguments = ["--batch", 64, "--context", 131072, "--json", path]
    code, out, _ = run(capsys, *STEP, *arguments)
    assert code == 0
    assert "One decode step of v4-flash for 64 requests at 131,072 tokens" in " ".join(out.split())
    data = json.loads(path.read_text())
    assert data["question"]["chips"] == 8
    assert data["total_ps"] == max(kernel["end_ps"] for kernel in data["kernels"])
    counts = data["counts"]
    assert counts["step"]["flops"] == data["totals"]["flops"]
    assert sum(row["total_flops"] for row in counts["layers"].values()) == sum(
        data["totals"]["flops"].values()
    )
    # Pages hold rows and padding.
    assert counts["step"]["state_bytes"] < data["memory"]["state_bytes"]
    period = data["period"]
    assert period["tokens"] == 128
    assert period["shortest_ps"] < data["total_ps"] < period["longest_ps"]


def test_step_writes_report_tables_and_timeline(capsys, tmp_path):
    code, out, _ = run(
        capsys, *STEP, "--phase", "prefill", "--context", 2048, "--out", tmp_path / "out"
    )
    assert code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.html", "timeline.perfetto-trace", "prefill-launches.parquet"} <= names
    assert str(tmp_path / "out" / "report.html") in out


def test_data_parallel_attention_splits_requests_and_state(capsys, tmp_path):
    totals = {}
    for dp in (1, 8):
        path = tmp_path / f"{dp}.json"
        run(capsys, *STEP, "--dp", dp, "--batch", 64, "--context", 65536, "--json", path)
        totals[dp] = json.loads(path.read_text())["memory"]["state_bytes"]
    assert totals[1] == 8 * totals[8]


def test_experts_stay_in_four_bits_when_asked(capsys, tmp_path):
    sizes = {}
    for dtype in ("fp4", "fp8"):
        path = tmp_path / f"{dtype}.json"
        run(capsys, *STEP, "--batch", 8, "--expert-dtype", dtype, "--json", path)
        sizes[dtype] = json.loads(path.read_text())["memory"]["weight_bytes"]
    experts = 43 * 256 * 3 * 4096 * 2048 // 8
    assert sizes["fp8"] - sizes["fp4"] == pytest.approx(experts * (1 - 0.53125), rel=0.001)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--chip", "h20O0"], "unknown chip 'h20O0': did you mean 'h200'?"),
        (["--model", "v4-flsh"], "unknown model 'v4-flsh': did you mean 'v4-flash'?"),
        (["--model", "v3.2"], "counted reference only"),
        (["--phase", "decod"], "unknown phase 'decod': did you mean 'decode'?"),
        (["--fidelity", "tiles"], "unknown fidelity 'tiles': did you mean 'tile'?"),
        (["--engine", "ideel"], "unknown engine 'ideel': did you mean 'ideal'?"),
        (["--index-dtype", "fp16"], "unknown index dtype 'fp16'"),
        (["--expert-dtype", "int4"], "unknown expert dtype 'int4'"),
        (["--batch", "0"], "batch must be at least 1, but 0 was given"),
        (["--batch", "-4"], "batch must be at least 1, but -4 was given"),
        (["--context", "0"], "context must be at least 1"),
        (["--context", "1048577"], "takes at most 1,048,576 (1 too many)"),
        (["--count", "0"], "count is 0, expected 1"),
        (["--tp", "3"], "tp 3 x dp 1 is 3 chips, but --count is 8"),
        (["--dp", "3"], "dp 3 does not divide the 8 chips"),
        (["--ep", "3"], "ep 3 does not divide the 8 chips; try one of 1, 2, 4, 8"),
        (["--phase", "prefill", "--context", "100", "--new-tokens", "101"], "1 too many"),
        (["--phase", "prefill", "--new-tokens", "0"], "new-tokens must be at least 1"),
        (["--new-tokens", "2"], "a decode step adds 1 token a request"),
        (["--batch", "many"], "Invalid value for '--batch'"),
        (["--bach", "1"], "No such option: --bach"),
    ],
)
def test_bad_questions_are_one_sentence(capsys, arguments, words):
    assert words in refused(capsys, *STEP, *arguments)


def test_weights_that_do_not_fit_name_the_gap_and_what_would_fit(capsys):
    sentence = refused(capsys, "step", "--model", "v4-pro", "--chip", "h200", "--count", "4")
    assert "weights and workspace alone exceed the 124.11 GiB of a chip" in sentence
    assert "smallest change that fits: --" in sentence


def test_state_that_does_not_fit_names_the_batch_that_would(capsys):
    sentence = refused(capsys, *STEP, "--batch", 512, "--context", 1048576)
    assert "short" in sentence
    assert "batch" in sentence


@pytest.mark.parametrize(
    ("model", "tp", "words"),
    [
        ("v4-flash", 16, "o_groups|groups"),
        ("v4-pro", 16, "192"),
        ("v4-pro", 3, "3 ranks do not divide the 128 heads"),
    ],
)
def test_tensor_degrees_that_do_not_divide_name_the_nearest_that_works(capsys, model, tp, words):
    sentence = refused(
        capsys, "step", "--model", model, "--chip", "b200", "--count", tp, "--tp", tp
    )
    assert any(word in sentence for word in words.split("|")), sentence
    assert "nearest tensor-parallel degree that works:" in sentence


def test_a_chip_file_of_the_users_own_works_by_path(capsys, tmp_path):
    from importlib import resources

    source = resources.files("hwmodels") / "chips" / "h200.yaml"
    mine = tmp_path / "mine.yaml"
    text = source.read_text().replace("name: h200", "name: mine", 1)
    mine.write_text(text.replace("value: 4800, unit: GB/s", "value: 9600, unit: GB/s", 1))
    times = {}
    for chip in ("h200", mine):
        path = tmp_path / "out.json"
        arguments = ["--batch", 8, "--json", path]
        assert run(capsys, *STEP[:4], chip, *STEP[5:], *arguments)[0] == 0
        times[str(chip)] = json.loads(path.read_text())["total_ps"]
    assert times[str(mine)] < times["h200"]
    mine.write_text(text + "colour: green\n")
    sentence = refused(capsys, "chips", "show", mine)
    assert f"{mine}:{len(text.splitlines()) + 1}: unknown key 'colour'" in sentence


def test_duplicate_keys_are_refused_with_file_and_line(capsys, tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text("name: x\nvendor: y\nname: z\n")
    assert f"{path}:3:" in refused(capsys, "chips", "show", path)


def test_verify_prints_one_line_a_check_and_fails_past_the_tolerance(capsys, tmp_path):
    code, out, _ = run(capsys, "verify", "--json", tmp_path / "v.json")
    assert code == 0
    assert "42 of 42 checks hold" in out
    assert json.loads((tmp_path / "v.json").read_text())["failed"] == 0
    with np.load(shipped_golden_file()) as stored:
        arrays = dict(stored)
    arrays["logits"] = arrays["logits"] + 1e-6
    np.savez(tmp_path / "off.npz", **arrays)
    code, out, _ = run(capsys, "verify", tmp_path / "off.npz")
    assert code == 1
    assert "FAIL" in out


@pytest.mark.parametrize("fault", ["missing", "shape", "nan"])
def test_damaged_golden_files_are_refused(capsys, tmp_path, fault):
    with np.load(shipped_golden_file()) as stored:
        arrays = dict(stored)
    name = "w/model.layers.0.self_attn.q_a_proj.weight"
    if fault == "missing":
        del arrays[name]
    elif fault == "shape":
        arrays[name] = arrays[name][:, :-1]
    else:
        arrays[name] = arrays[name].copy()
        arrays[name][0, 0] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    sentence = refused(capsys, "verify", tmp_path / "bad.npz")
    assert "q_a_proj" in sentence
    assert "bad.npz" in sentence


def test_claims_print_thirty_lines_and_none_differs(capsys, tmp_path):
    path = tmp_path / "claims.json"
    code, out, _ = run(capsys, "claims", "--json", path)
    assert code == 0
    rows = json.loads(path.read_text())["claims"]
    assert [row["number"] for row in rows] == list(range(1, 31))
    assert {row["verdict"] for row in rows} == {"met", "not yet"}
    lines = [line for line in out.splitlines() if ": published " in line and "; ours " in line]
    assert [line[:12].split()[0] for line in lines] == [str(n) for n in range(1, 31)]
    places = {line.index(row["quantity"]) for line, row in zip(lines, rows, strict=True)}
    assert len(places) == 1
    assert "  met" in lines[3]
    assert "1.76 %  computed" in lines[3]
    assert "published 27 / 10 %; ours 27.0764 / 10.1761" in lines[3]
    assert "ours not yet: see v4sim claims --fused, which has all published layers" in lines[23]
    assert out.count("source: ") == 30
    assert "28 met, 2 not yet" in out
    kinds = {row["number"]: row["kind"] for row in rows}
    assert kinds[14] == kinds[29] == "executed"


@pytest.mark.skipif(not WHOLE, reason="takes long: a part of make test-all")
def test_fused_layers_are_printed_with_their_median(capsys, tmp_path):
    path = tmp_path / "fused.json"
    code, out, _ = run(capsys, "claims", "--fused", "--json", path)
    assert code == 0
    data = json.loads(path.read_text())
    assert len(data["layers"]) == 19
    assert f"19 layers, off by {data['median_off']:.1%} in the median" in out
    assert run(capsys, "claims", "--fused", "--serving")[0] == 2


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("what", ["chips", "models"])
def test_lists_are_one_uncut_line_a_name_at_any_width(monkeypatch, capsys, what, width):
    monkeypatch.setenv("COLUMNS", str(width))
    console.cache_clear()
    _, out, _ = run(capsys, what, "list")
    console.cache_clear()
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= width
    names = list_chips() if what == "chips" else [*list_models(), "v3.2", "v4.1-flash"]
    rule = next(i for i, line in enumerate(out.splitlines()) if line.startswith("──"))
    assert [line.split()[0] for line in out.splitlines()[rule + 1 :][: len(names)]] == names


def test_small_models_have_sizes(capsys):
    _, out, _ = run(capsys, "models", "list")
    assert "3.841 M" in out
    assert "3.642 MiB" in out
    assert "1.573 T     1.599 T" in out


def test_models_and_chips_are_listed_and_shown(capsys):
    code, out, _ = run(capsys, "models", "list")
    assert code == 0
    assert "v4-pro" in out
    code, out, _ = run(capsys, "models", "show", "v4-flash")
    assert code == 0
    assert "3,514.25 B" in out
    assert "norm_topk_prob             true" in out
    text = " ".join(out.split())
    assert "parameters without MTP 284.3 B 284,33" in text
    assert "parameters with MTP 290.9 B 290,94" in text
    code, out, _ = run(capsys, "chips", "show", "b200")
    assert code == 0
    assert "7,700" in out or "7.7" in out
    assert find_chip("b200").architecture in out


def test_what_a_configuration_does_not_say_is_told(capsys, tmp_path):
    text = (MODELS / "v4-flash.yaml").read_text()
    path = tmp_path / "own.yaml"
    layers = "num_nextn_predict_layers: "
    for old, new in (("expert_dtype: fp4\n", ""), (f"{layers}1", f"{layers}3")):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    told = "the configuration of own has no expert_dtype: routed experts are taken as stored in fp4"
    for command in (
        ["models", "show", path],
        ["step", "--model", path, *STEP[3:], "--engine", "sglang-0.5"],
        ["capacity", "--model", path, "--chip", "h200", "--count", 8],
    ):
        code, out, _ = run(capsys, *command)
        assert code == 0
        text = " ".join(out.split())
        assert told in text
        if command[0] == "models":
            assert "parameters with MTP 304.2 B 304,164,714,184" in text
            assert "166,797,061,408 B" in text


def test_an_output_directory_that_is_a_file_is_refused(capsys, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("x")
    assert "file" in refused(capsys, *STEP, "--out", blocker)
    assert shutil.which("v4sim") is None or blocker.read_text() == "x"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["models"], "'v4sim models' needs a command: list or show"),
        (["bogus"], "No such command 'bogus'; known are demo, step"),
        (["stp"], "Did you mean 'step'?"),
    ],
)
def test_a_missing_or_unknown_command_names_the_known(capsys, arguments, words):
    assert words in refused(capsys, *arguments)


def test_nothing_given_shows_the_help(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert "First minutes:" in out
    assert run(capsys, "--version")[1].startswith("v4sim ")


def test_files_are_written_although_the_reader_has_gone(tmp_path):
    path = tmp_path / "step.json"
    script = f"{sys.executable} -m simulator.cli.main {' '.join(STEP)} --json {path} | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert json.loads(path.read_text())["question"]["chips"] == 8


def test_step_of_an_engine_lists_its_kernels(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    console.cache_clear()
    path = tmp_path / "step.json"
    engine = ["--engine", "sglang-0.5", "--batch", 64, "--context", 131072]
    code, out, _ = run(capsys, *STEP, *engine, "--kernels", "--json", path)
    console.cache_clear()
    assert code == 0
    assert "index_logits" in out
    assert "moe_triton_sglang" in out
    data = json.loads(path.read_text())
    assert data["low_ps"] < data["total_ps"] < data["high_ps"]
    assert sum(k["launches"] for k in data["kernel_list"]) == len(data["kernels"])
    assert sum(data["totals"]["critical_ps_by_cause"].values()) == data["total_ps"]


def test_unknown_engine_lists_the_known_ones(capsys):
    error = refused(capsys, *STEP, "--engine", "tensorrt")
    for name in ("ideal", "sglang-0.5", "vllm-0.22", "vllm-0.33", "trtllm-1.3", "ascend"):
        assert name in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--batch", "1000000000000"], "at most 1,048,576 can be costed"),
        (["--count", "1000000000000", "--ep", "7"], "expected 1 to 16,384"),
        (["--chip", "x" * 400 + ".yaml"], "cannot be opened"),
        (["--expert-dtype", ""], "unknown expert dtype ''"),
        (["--json", "nowhere/step.json"], "there is no folder nowhere"),
    ],
)
def test_wild_input_is_one_sentence(capsys, arguments, words):
    assert words in refused(capsys, *STEP, *arguments)


def test_names_with_square_brackets_are_printed_as_they_are(capsys, tmp_path):
    out = tmp_path / "a[red]x[/b]"
    tiny = ("--model", "tiny", "--chip", "h200", "--engine", "ideal")
    code, text, _ = run(capsys, "step", *tiny, "--out", out)
    assert code == 0
    assert str(out / "report.html") in text


def test_advice_for_a_long_prefill_fits(capsys):
    asked = ["--batch", "3", "--phase", "prefill"]
    sentence = refused(capsys, *STEP, *asked, "--context", "1048576")
    (advised,) = re.findall(r"--new-tokens (\d+)", sentence)
    chunk = ["--context", "1048576", "--new-tokens", advised]
    assert run(capsys, *STEP, *asked, *chunk)[0] == 0


def test_a_report_is_whole_or_absent(tmp_path, monkeypatch, capsys):
    def broken(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("reports.bundle.write_page", broken)
    out = tmp_path / "out"
    code, _, err = run(capsys, *STEP, "--out", out)
    assert code == 130
    assert "interrupted; nothing partial was written" in err
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_terminals_of_any_encoding(encoding):
    done = subprocess.run(
        [sys.executable, "-m", "simulator.cli.main", "chips", "list"],
        capture_output=True,
        env=dict(os.environ, PYTHONIOENCODING=encoding),
    )
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_one_sentence():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "simulator.cli.main", "chips", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.strip() == "error: output: No space left on device"


def test_a_published_file_says_what_it_leaves_out(capsys, tmp_path):
    data = FLASH_JSON | {"quantization_config": {"bits": 4, "group_size": 64}, "use_cache": True}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data))
    code, out, _ = run(capsys, "models", "show", path, "--json", tmp_path / "out.json")
    assert code == 0
    assert "Known keys that change nothing here: " in out
    assert "use_cache (the cache is always used)" in " ".join(out.split())
    facts = json.loads((tmp_path / "out.json").read_text())["facts"]
    assert facts["routed_expert_bytes"] == 159_450_660_864


def test_a_file_of_v32_is_shown(capsys, tmp_path):
    from workloads.deepseek_v32.config import find_v32

    path = tmp_path / "own.json"
    path.write_text(json.dumps(find_v32().model_dump(exclude={"name"}) | {"num_hidden_layers": 4}))
    code, out, _ = run(capsys, "models", "show", path)
    assert code == 0
    assert "cache a token adds" in out
    assert "3,152.0 B" in out  # 4 x (656 + 132)


@pytest.mark.parametrize("engine", ["ascend", "ideal"])
def test_verify_keeps_windows_as_an_engine_does(capsys, engine):
    code, out, _ = run(capsys, "verify", "--engine", engine)
    assert code == 0
    assert ("windows in pages of 128 tokens" in out) == (engine == "ascend")
