"""`v4sim calibrate`, its file under `--constants` and installed, and what it refuses."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from hwmodels.chip import find_chip
from simulator.cli import calibrate as calibrate_module
from simulator.kernels.constants_file import FOLDER, chip_standing, constants_for, read_constants
from simulator.kernels.fitted import FamilyFile
from simulator.kernels.registry import FAMILIES
from simulator.kernels.user_constants import (
    GIVEN,
    ConstantsFile,
    given_constants,
    read_constants_file,
    write_constants_file,
)
from tests.simulator.cli.test_validate import SIZES, refused, row, run, table

pytestmark = pytest.mark.skipif(find_spec("scipy") is None, reason="fits need scipy")
SHIPPED = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """An empty folder of installed constants, and the package's files as they were."""
    monkeypatch.setenv("V4SIM_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv(GIVEN, raising=False)
    yield
    assert {path.name: path.read_text() for path in FOLDER.glob("*.yaml")} == SHIPPED


def rows_of(chip="h100", factor=1.0):
    return [row(chip, size=s, ranks=n, factor=factor) for s in SIZES for n in (2, 4, 8)]


def calibrated(capsys, tmp_path, *rows, name="mine.yaml", options=()):
    tables = tmp_path / "rows"
    tables.mkdir(exist_ok=True)
    table(tables, *rows)
    code, text, err = run(capsys, "calibrate", tables, "--out", tmp_path / name, *options)
    assert code == 0, err
    return tmp_path / name, text


def median_error(capsys, folder, *options):
    out = folder / "validated.json"
    code, _, err = run(capsys, "validate", folder, "--json", out, *options)
    assert code == 0, err
    return json.loads(out.read_text())["all"]["median_abs_error"]


def test_a_slower_chip_gets_constants_of_its_own(capsys, tmp_path):
    path, text = calibrated(capsys, tmp_path, *rows_of(factor=1.4), options=["--note", "ours"])
    assert "nccl_ring on h100: 30 rows" in text
    assert "one dependent step from rank to rank" in text
    content = read_constants_file(path)
    assert content.note == "ours"
    assert content.fitted_to == ("collective.csv, 30 rows",)
    assert content.chips["h100"].name == "h100"
    (family,) = content.families
    assert set(family.chips) == {"h100"}
    before = median_error(capsys, tmp_path / "rows")
    after = median_error(capsys, tmp_path / "rows", "--constants", path)
    assert before > 0.25
    assert after < 0.05


def test_rows_that_agree_leave_constants_as_they_are(capsys, tmp_path):
    path, _ = calibrated(capsys, tmp_path, *rows_of())
    own = read_constants_file(path).families[0].chips["h100"].constants
    known = constants_for("nccl_ring", find_chip("h100")).values
    assert own == pytest.approx(known, rel=1e-5)


def test_other_chips_keep_their_results_to_the_digit(capsys, tmp_path):
    path, _ = calibrated(capsys, tmp_path, *rows_of(factor=1.4))
    outs = []
    for chip in ("h200", "b200"):
        for given in ([], ["--constants", path]):
            tables = tmp_path / chip
            tables.mkdir(exist_ok=True)
            table(tables, *rows_of(chip, factor=1.1), *rows_of("h100"))
            out = tmp_path / f"{chip}{len(given)}.csv"
            code, _, _ = run(capsys, "validate", tables, "--rows", out, *given)
            assert code == 0
            outs.append([line for line in out.read_text().splitlines() if f",{chip}," in line])
    assert outs[0] == outs[1]
    assert outs[2] == outs[3]


def test_the_standing_names_the_file(capsys, tmp_path):
    path, _ = calibrated(capsys, tmp_path, *rows_of(factor=1.4))
    h100 = find_chip("h100")
    with given_constants(path):
        found = chip_standing(h100)
        assert not found.calibrated
        assert found.words.startswith("1 of ")
        assert "kernel families fitted in mine.yaml, the others: same cores as h200" in found.words
        assert constants_for("nccl_ring", h100).standing.calibrated
        assert constants_for("nccl_ring", h100).source == "mine.yaml"
        assert constants_for("gemm_bf16", h100).source == ""
        assert constants_for("nccl_ring", find_chip("h200")).source == ""


def test_the_file_is_recorded_in_a_result(capsys, tmp_path):
    path, _ = calibrated(capsys, tmp_path, *rows_of(factor=1.4))
    out = tmp_path / "step.json"
    code, text, _ = run(
        capsys, "step", "--model", "v4-flash", "--chip", "h100", "--count", 8, "--constants", path,
        "--json", out,
    )  # fmt: skip
    assert code == 0
    data = json.loads(out.read_text())
    assert data["constants"][0]["file"] == "mine.yaml"
    assert "mine.yaml" in data["standing"]["words"]
    assert "mine.yaml" in " ".join(text.split())


def test_a_chip_of_ones_own_is_described_by_a_file(capsys, tmp_path):
    data = yaml.safe_load(Path("hwmodels/chips/h100.yaml").read_text())
    data["name"] = "lab"
    data["memory"]["bandwidth"]["value"] = 3000
    chip = tmp_path / "lab-chip.yaml"
    chip.write_text(yaml.safe_dump(data))
    rows = [line.replace("h100,", "lab,", 1) for line in rows_of(factor=1.4)]
    tables = tmp_path / "rows"
    tables.mkdir()
    table(tables, *rows)
    message = refused(capsys, "calibrate", tables, "--out", tmp_path / "no.yaml")
    assert "unknown chip 'lab'" in message
    assert "--chip FILE" in message
    path, _ = calibrated(capsys, tmp_path, *rows, options=["--chip", chip])
    with given_constants(path):
        assert constants_for("nccl_ring", find_chip(chip)).standing.calibrated
        assert not constants_for("nccl_ring", find_chip("h100")).standing.calibrated
    assert median_error(capsys, tables, "--constants", path) < 0.05


def test_installed_constants_are_listed_used_and_removed(capsys, tmp_path):
    tables = tmp_path / "rows"
    tables.mkdir()
    table(tables, *rows_of(factor=1.4))
    code, text, _ = run(capsys, "calibrate", "--installed")
    assert code == 0
    assert "nothing is installed" in text
    assert run(capsys, "calibrate", tables, "--install", "lab")[0] == 0
    code, text, _ = run(capsys, "calibrate", "--installed")
    assert text.startswith("lab: 1 families of h100")
    assert constants_for("nccl_ring", find_chip("h100")).standing.calibrated
    assert "is there already" in refused(capsys, "calibrate", tables, "--install", "lab")
    assert run(capsys, "calibrate", tables, "--install", "lab", "--force")[0] == 0
    assert "only lab" in refused(capsys, "calibrate", "--remove", "other")
    assert run(capsys, "calibrate", "--remove", "lab")[0] == 0
    assert not constants_for("nccl_ring", find_chip("h100")).standing.calibrated


def test_nothing_is_replaced_unasked(capsys, tmp_path):
    path, _ = calibrated(capsys, tmp_path, *rows_of())
    before = path.read_text()
    assert "--force" in refused(capsys, "calibrate", tmp_path / "rows", "--out", path)
    assert path.read_text() == before


def test_without_enough_rows_nothing_is_written(capsys, tmp_path):
    table(tmp_path, row("h100"), row("h100", size=2048))
    message = refused_last(capsys, "calibrate", tmp_path, "--out", tmp_path / "mine.yaml")
    assert "needs 10 on a chip, and the most are 2, of nccl_ring on h100" in message
    assert not (tmp_path / "mine.yaml").exists()


def refused_last(capsys, *arguments):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    return err.strip().splitlines()[-1]


def test_a_place_for_the_file_is_asked_for(capsys, tmp_path):
    table(tmp_path, row())
    assert "--out FILE" in refused(capsys, "calibrate", tmp_path)
    assert "YAML" in refused(capsys, "calibrate", tmp_path, "--out", tmp_path / "a.csv")
    assert "no folder" in refused(capsys, "calibrate", tmp_path, "--out", tmp_path / "x" / "a.yaml")
    assert "letters" in refused(capsys, "calibrate", tmp_path, "--install", "../x")
    assert "nothing to fit to" in refused(capsys, "calibrate")


def test_constants_of_another_architecture_are_refused(capsys, tmp_path):
    path, _ = calibrated(capsys, tmp_path, *rows_of())
    message = refused(
        capsys, "step", "--model", "v4-flash", "--chip", "b200", "--count", 8, "--constants", path
    )
    assert "its constants are of hopper, and none serves b200 (blackwell)" in message
    tables = tmp_path / "other"
    tables.mkdir()
    table(tables, *rows_of("b200"))
    assert "none serves b200" in refused(capsys, "validate", tables, "--constants", path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("start_us: ", "start_us: 1e6 #", "start_us is 1e+06, expected"),
        ("start_us: ", "begin_us: ", "expected start_us"),
        ("family: nccl_ring", "family: nccl_rings", "did you mean 'nccl_ring'"),
        ("format: 1", "format: 2", "format"),
        ("    h100:\n      constants", "    h101:\n      constants", "does not describe"),
    ],
)
def test_a_file_edited_by_hand_is_checked(capsys, tmp_path, old, new, words):
    path, _ = calibrated(capsys, tmp_path, *rows_of())
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    message = refused(
        capsys, "step", "--model", "v4-flash", "--chip", "h100", "--count", 8, "--constants", path
    )
    assert message.startswith(f"{path}:")
    assert words in message


def test_a_missing_file_says_how_it_is_made(capsys, tmp_path):
    missing = tmp_path / "none.yaml"
    assert "v4sim calibrate DIR --out FILE" in refused(
        capsys, "chips", "list", "--constants", missing
    )


def test_missing_scipy_names_the_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(calibrate_module, "find_spec", lambda name: None)
    table(tmp_path, row())
    message = refused(capsys, "calibrate", tmp_path, "--out", tmp_path / "a.yaml")
    assert "v4sim[calibrate]" in message
    assert "v4sim[calibrate]" in refused(capsys, "validate", tmp_path, "--cv")


def test_interrupted_calibration_writes_nothing(capsys, tmp_path, monkeypatch):
    table(tmp_path, *rows_of())

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.calibration.calibrate.drawn_fit", interrupt)
    code, _, _ = run(capsys, "calibrate", tmp_path, "--out", tmp_path / "mine.yaml")
    assert code == 130
    assert not (tmp_path / "mine.yaml").exists()


def test_a_chip_with_every_family_is_calibrated(tmp_path):
    h100 = find_chip("h100")
    families = [
        FamilyFile(family=name, chips={"h100": read_constants(name).architectures["hopper"]})
        for name in FAMILIES
        if "hopper" in read_constants(name).architectures
    ]
    path = tmp_path / "all.yaml"
    write_constants_file(path, ConstantsFile(chips={"h100": h100}, families=tuple(families)))
    with given_constants(path):
        assert chip_standing(h100).words == "calibrated on this chip (all.yaml)"
    write_constants_file(path, ConstantsFile(chips={"h100": h100}, families=tuple(families[1:])))
    with given_constants(path):
        assert not chip_standing(h100).calibrated
