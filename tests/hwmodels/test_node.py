"""Nodes: one for every chip, links that agree with the chip's, several nodes for many chips."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwmodels.chip import find_chip, list_chips
from hwmodels.node import find_node, list_nodes, load_node
from simulator.basis.errors import FileFormatError, InputError

FOLDER = Path(__file__).parents[2] / "hwmodels"


@pytest.mark.parametrize("name", list_chips())
def test_every_chip_has_its_node(name: str) -> None:
    chip = find_chip(name)
    node = find_node(name, 8)
    assert node.name == chip.node
    assert node.chip == name
    assert node.link_bytes_per_s == chip.scale_up_bytes_per_s
    held = {"gb200": 72, "gb300": 72, "gb10": 1, "ascend-a3-die": 16}
    assert node.chip_count == held.get(name, 8)
    assert node.scale_out_bytes_per_s <= node.link_bytes_per_s
    assert 0 < node.link_latency_s < 5e-6
    assert node.host_bytes_per_s >= 31e9
    assert node.host_latency_s > 0
    assert node.scale_out_latency_s > 1e-6


def test_names() -> None:
    assert "h200-x8" in list_nodes()
    assert "gb200-nvl72" in list_nodes()
    assert len(list_nodes()) == 24


def test_switch_and_mesh() -> None:
    h200 = load_node("h200-x8")
    assert h200.in_switch_reduction
    assert h200.peer_bytes_per_s == 450e9
    mi300x = load_node("mi300x-x8")
    assert not mi300x.in_switch_reduction
    assert mi300x.peer_bytes_per_s == 64e9
    assert 7 * mi300x.peer_bytes_per_s == mi300x.link_bytes_per_s
    ascend = load_node("ascend-910b3-x8")
    assert 7 * ascend.peer_bytes_per_s == ascend.link_bytes_per_s == 196e9


def test_many_chips_take_several_nodes() -> None:
    node = find_node("h200", 20)
    assert node.name == "h200-x8"
    assert [node.nodes_for(chips) for chips in (1, 8, 9, 20)] == [1, 1, 2, 3]


def test_a_users_chip_sits_in_the_node_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (FOLDER / "chips" / "b200.yaml").read_text()
    path.write_text(text.replace("name: b200", "name: mine"))
    node = find_node(path, 4)
    assert node.name == "b200-x8"
    assert node.chip == str(path)
    own = tmp_path / "own-node.yaml"
    own.write_text((FOLDER / "nodes" / "b200-x8.yaml").read_text().replace("b200-x8", "own"))
    path.write_text(text.replace("node: b200-x8", f"node: {own}"))
    assert find_node(path, 4).name == "own"


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 chips asked for, expected at least 1"):
        find_node("h200", 0)
    with pytest.raises(InputError, match=r"unknown node 'h200x8': did you mean 'h200-x8'\?"):
        load_node("h200x8")
    path = tmp_path / "node.yaml"
    text = (FOLDER / "nodes" / "h200-x8.yaml").read_text()
    path.write_text(text.replace("NVLink4", "NVLnk4"))
    line = text[: text.index("kind: NVLink4")].count("\n") + 1
    with pytest.raises(FileFormatError) as caught:
        load_node(path)
    assert caught.value.message.startswith(f"{path}:{line}: 'scale_up.kind' is 'NVLnk4', expected")
    assert caught.value.message.endswith("did you mean 'NVLink4'?")
