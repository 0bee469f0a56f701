"""Deployments that prefixes are compared on: how a model lies on the chips of a node."""

from __future__ import annotations

import pytest

from simulator.basis.errors import InputError
from simulator.prefix.comparison import CacheDeployment, deployment_for, restore_setup


def deployed(model: str, node: str, **degrees: int) -> CacheDeployment:
    return deployment_for(model=model, node=node, tiers="node", engine="sglang-0.5", **degrees)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "node", "degrees", "layout", "chips"),
    [
        ("v4-flash", "h200-x8", {}, "tp8 dp1 ep1", "8 h200"),
        ("v4-flash", "h200-x8", {"tp": 4, "dp": 2}, "tp4 dp2 ep8", "8 h200"),
        ("v4-pro", "gb300-nvl72", {}, "tp8 dp9 ep24", "72 gb300"),
        ("v4-pro", "gb200-nvl72", {"dp": 72}, "tp1 dp72 ep24", "72 gb200"),
        ("v4-flash", "gb300-nvl72", {}, "tp8 dp8 ep64", "64 of 72 gb300"),
    ],
)
def test_a_node_is_laid_out(
    model: str, node: str, degrees: dict[str, int], layout: str, chips: str
) -> None:
    """Where no layout takes all chips, as many as one takes; the note says so."""
    found = deployed(model, node, **degrees)
    question = found.asked.question
    assert str(question.layout) == layout
    assert question.count == question.layout.ranks
    assert found.layout_note.startswith(f"{model} lies on {chips} as {layout}")
    assert ("no layout of all" in found.layout_note) == (" of " in chips)
    timer, _ = restore_setup(found)
    assert 0 < timer.prefill_ns(128, 0) < timer.prefill_ns(8192, 0)


@pytest.mark.parametrize(
    ("degrees", "says"),
    [
        ({"tp": 24, "dp": 3}, "24 ranks do not divide the 128 heads .* tp8 dp9 ep24 works"),
        ({"tp": 72}, "72 ranks do not divide the 128 heads"),
        ({"tp": 8}, "tp 8 x dp 1 is 8 chips, but node gb300-nvl72 has 72"),
    ],
)
def test_degrees_that_do_not_work_are_a_sentence(degrees: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        deployed("v4-pro", "gb300-nvl72", **degrees)
