"""Dated prices: every file that ships is sound, and words that are wrong are sentences."""

from __future__ import annotations

import pytest

from hwmodels.chip import list_chips
from hwmodels.chip_price import ChipPrices, find_price, list_priced_chips, prices_of
from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import load_yaml

ONE = """
chip: x
default: {default}
prices:
  - name: a
    about: about
    date: "{date}"
    usd_per_hour: {{value: 2, unit: USD/h, kind: published, source: s}}
"""


@pytest.mark.parametrize("chip", list_priced_chips())
def test_every_file_names_its_chip_and_has_a_default(chip):
    found = prices_of(chip)
    assert found.chip == chip
    assert chip in list_chips()
    assert find_price(chip).name == found.default
    for price in found.prices:
        assert 0.5 < price.usd_per_hour.si < 15
        assert price.up_to is None or price.up_to.si > price.usd_per_hour.si


def test_prices_as_published():
    # SemiAnalysisAI/InferenceX-app @77ca49a, GPU_SPECS: costr and costh of H200, costn of B200.
    h200 = [find_price("h200", n).usd_per_hour.si for n in ("rental", "tco-hyperscaler")]
    assert h200 == [1.60, 1.41]
    assert find_price("b200", "tco-neocloud").usd_per_hour.si == 2.34
    superchip = find_price("gb200", "spheron")
    assert superchip.usd_per_hour.si == 9.08 / 2
    assert superchip.usd_per_hour.kind == "derived"


def test_a_wrong_name_says_which_there_are():
    with pytest.raises(InputError, match=r"'rentl': did you mean 'rental'\? known are"):
        find_price("h200", "rentl")
    with pytest.raises(InputError, match="no price of a h20 is known here, only of b200"):
        find_price("h20")


@pytest.mark.parametrize(
    ("default", "date", "told"),
    [("b", "2026-01-01", "unknown price 'b'"), ("a", "soon", "text of the form")],
)
def test_a_bad_file_is_a_sentence(tmp_path, default, date, told):
    path = tmp_path / "x.yaml"
    path.write_text(ONE.format(default=default, date=date))
    with pytest.raises(FileFormatError, match=told):
        load_yaml(path, ChipPrices)
