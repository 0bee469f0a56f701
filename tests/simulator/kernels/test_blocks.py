"""Every form that prices a call has one kernel program for the machine."""

from __future__ import annotations

import pytest

from simulator.kernels.attention_module import AttentionModule
from simulator.kernels.blocks import BUILDERS
from simulator.kernels.registry import FAMILIES
from simulator.kernels.sparse_core import SparseCore
from simulator.kernels.unit_rates import HostDispatch, UnitRates

# The steps of these are built one by one, from a call's form and not its family alone.
# Tiles price those of `UnitRates`, and the host's waits are plain launches.
BY_FORM = (SparseCore, AttentionModule, UnitRates, HostDispatch)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_one_builder(name: str) -> None:
    builders = [kind for kind in BUILDERS if isinstance(FAMILIES[name], kind)]
    assert len(builders) == (0 if isinstance(FAMILIES[name], BY_FORM) else 1)
