"""What a chip's times rest on: sentences, distances, and how far they reach."""

from pathlib import Path

import pytest
import yaml

from hwmodels.chip import find_chip
from hwmodels.chip_edits import edited_chip
from simulator.kernels.constants_file import chip_standing
from simulator.kernels.standing import distance_between

CHIPS = Path("hwmodels/chips")


def own_chip(tmp_path, base, **changes):
    """A copy of a shipped chip's file with other values, by dotted path."""
    data = yaml.safe_load((CHIPS / f"{base}.yaml").read_text())
    for key, value in changes.items():
        place = data
        *path, last = key.split("__")
        for name in path:
            place = place[name]
        if isinstance(place.get(last), dict):
            place[last]["value"] = value
        else:
            place[last] = value
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data))
    return find_chip(path)


@pytest.mark.parametrize(
    ("chip", "words"),
    [
        ("h200", "calibrated on this chip"),
        ("b200", "calibrated on this chip"),
        ("h100", "same cores as h200, 4 guessed facts, not fitted on h100"),
        ("h20", "same cores as h200, 9 guessed facts, not fitted on h20"),
        ("b300", "same cores as b200, 12 guessed facts, not fitted on b300"),
        ("gb300", "same cores as b200, 11 guessed facts, not fitted on gb300"),
        (
            "mi355x",
            "calibrated on this chip: its products and experts; its other kernels rest on single "
            "published times",
        ),
        ("mi300x", "no measurement of such cores (cdna3), constants of mi355x"),
    ],
)
def test_standing_of_shipped_chips(chip, words):
    assert chip_standing(find_chip(chip)).words == words


def test_a_renamed_chip_stands_as_what_it_equals(tmp_path):
    found = chip_standing(own_chip(tmp_path, "h200", name="myh200"))
    assert found.calibrated
    assert found.words == ("calibrated on h200, which myh200 (mine.yaml) equals in every number")
    assert found.reaches(1e-6) == (0.0, 0.0)


def test_a_quarter_of_the_memory_counts_as_edited(tmp_path):
    found = chip_standing(own_chip(tmp_path, "b200", memory__capacity=45850))
    assert found.kind == "edited"
    assert not found.calibrated
    assert found.measured_cores
    assert "memory.capacity 45850 MiB, b200's 183398 MiB" in found.words


def test_an_edit_counts_as_edited():
    found = chip_standing(edited_chip(find_chip("h200"), ["memory.RC=60ns"]))
    assert found.kind == "edited"


def test_another_machine_of_the_same_label_is_not_measured(tmp_path):
    found = chip_standing(
        own_chip(
            tmp_path,
            "b200",
            name="small",
            memory__type="GDDR7",
            memory__bandwidth=1792,
            cores__count=48,
            matrix__bf16=125,
            matrix__fp8=250,
            matrix__fp4=500,
            scale_up__bandwidth=50,
        )
    )
    assert not found.measured_cores
    assert found.words.startswith("no measurement of such a machine, constants of b200")
    assert found.far == 1.0


def test_unknown_cores_are_foreign(tmp_path):
    found = chip_standing(own_chip(tmp_path, "h200", name="mine", architecture="volta"))
    assert found.kind == "foreign"


def test_distance_is_a_metric_that_grows_with_every_fact():
    h200 = find_chip("h200")
    assert distance_between(h200, h200) == 0
    before = 0.0
    for share in (0.9, 0.7, 0.5, 0.25):
        edits = [f"cores.count={round(132 * share)}", f"memory.bandwidth={4800 * share} GB/s"]
        found = distance_between(edited_chip(h200, edits), h200)
        assert found > before
        before = found
    assert distance_between(find_chip("b200"), h200) == pytest.approx(
        distance_between(h200, find_chip("b200"))
    )


def test_reach_grows_with_distance_and_has_an_end():
    chips = [find_chip("h200"), find_chip("h100"), find_chip("h20"), find_chip("mi300x")]
    reaches = [chip_standing(chip).reaches(1e-4) for chip in chips]
    assert reaches == sorted(reaches)
    low, high = reaches[-1]
    assert high + low < 1.4
