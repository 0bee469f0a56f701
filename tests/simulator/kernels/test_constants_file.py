"""Constants on disk: exact round trip, strict reading, borrowed architectures, the registry."""

import math

import pytest

from hwmodels.chip import find_chip, list_chips
from simulator.basis.errors import FileFormatError, InputError
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constant import Constant
from simulator.kernels.constants_file import (
    FOLDER,
    NEAREST,
    check_constants,
    constants_for,
    constants_path,
    fresh_constants,
    read_constants,
    write_constants,
)
from simulator.kernels.family import MOST_CONSTANTS
from simulator.kernels.fitted import FamilyFile, Fitted
from simulator.kernels.regime import Regime
from simulator.kernels.registry import FAMILIES


def fit_of(**constants):
    return Fitted(
        constants=constants,
        rows=12,
        median_error=0.05,
        p90_error=0.1,
        bias=-0.01,
        standard_errors=dict.fromkeys(constants, 0.02),
        regimes=(
            Regime(
                cause="launch", seconds_below=1e-5, log_error_p10=-0.3, log_error_p90=0.1, rows=5
            ),
            Regime(log_error_p10=-0.1, log_error_p90=0.2, rows=7),
        ),
    )


def file_of(*architectures, family="made_up", **constants):
    return FamilyFile(family=family, architectures={a: fit_of(**constants) for a in architectures})


def test_what_is_written_is_read_back(tmp_path):
    content = file_of("hopper", "blackwell", start=5e-06, rate=1234567.0, whole=3.0, tiny=1e-30)
    path = write_constants(content, tmp_path)
    assert path == tmp_path / "made_up.yaml"
    back = read_constants("made_up", tmp_path)
    for name, value in content.architectures["hopper"].constants.items():
        assert math.isclose(back.architectures["hopper"].constants[name], value, rel_tol=1e-5)
    assert back.architectures["blackwell"].rows == 12
    assert back.architectures["hopper"].regimes == content.architectures["hopper"].regimes
    assert [p.name for p in tmp_path.iterdir()] == ["made_up.yaml"]


def test_a_family_without_constants_says_what_to_run(tmp_path):
    with pytest.raises(InputError, match="v4sim calibrate"):
        read_constants("made_up", tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("family: other\narchitectures: {}\n", "expected 'made_up'"),
        ("family: made_up\narchitectures: {}\n", "at least one"),
        ("family: made_up\narchitectures: {hopper: {constants: {a: x}, rows: 1}}\n", "number"),
        ("family: made_up\nextra: 1\narchitectures: {}\n", "extra"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_name(tmp_path, text, words):
    path = constants_path("made_up", tmp_path)
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_constants("made_up", tmp_path)
    assert str(path) in caught.value.message
    assert words in caught.value.message


def test_names_and_bounds_are_checked():
    constants = (Constant(name="a", unit="us", meaning="x", start=1.0, low=0.5, high=2.0),)
    check_constants(file_of("hopper", a=1.5), constants, FOLDER)
    with pytest.raises(FileFormatError, match=r"expected 0\.5 to 2 us"):
        check_constants(file_of("hopper", a=3.0), constants, FOLDER)
    with pytest.raises(FileFormatError, match="expected a"):
        check_constants(file_of("hopper", b=1.0), constants, FOLDER)


def test_chips_of_the_same_cores_share_constants_and_others_borrow(tmp_path):
    write_constants(file_of("hopper", "blackwell", a=1.0), tmp_path)
    found = {
        chip: constants_for("made_up", find_chip(chip), tmp_path)
        for chip in ("h100", "gb300", "mi355x", "ascend-910c")
    }
    assert [f.architecture for f in found.values()] == [
        "hopper",
        "blackwell",
        "blackwell",
        "hopper",
    ]
    assert [f.calibrated for f in found.values()] == [True, True, False, False]


def test_the_only_calibrated_architecture_serves_all(tmp_path):
    write_constants(file_of("blackwell", a=1.0), tmp_path)
    found = constants_for("made_up", find_chip("h200"), tmp_path)
    assert (found.architecture, found.calibrated) == ("blackwell", False)


def test_every_shipped_chip_finds_constants_of_every_family():
    for chip in list_chips():
        own = core_architecture(find_chip(chip))
        assert own in {"hopper", "blackwell"} | set(NEAREST)
        for name in FAMILIES:
            assert constants_for(name, find_chip(chip)).values


def test_fresh_constants_stand_in_for_files(tmp_path):
    with fresh_constants([file_of("hopper", a=7.0)]):
        assert constants_for("made_up", find_chip("h200"), tmp_path).values == {"a": 7.0}
    with pytest.raises(InputError):
        constants_for("made_up", find_chip("h200"), tmp_path)


def test_shipped_constants_are_of_known_families_and_few():
    shipped = {path.stem for path in FOLDER.glob("*.yaml")}
    assert shipped == set(FAMILIES)
    for name, family in FAMILIES.items():
        assert len(family.constants) <= MOST_CONSTANTS
        check_constants(read_constants(name), family.constants, constants_path(name))
        for constant in family.constants:
            assert constant.unit
            assert constant.meaning
