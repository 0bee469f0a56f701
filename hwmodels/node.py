"""A node as facts: how many chips share a scale-up domain, and by which links.

`find_node("h200", 8)` gives the node that the chip sits in; `load_node` reads one by name or path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hwmodels.chip import ChipSpec, find_chip
from simulator.basis.data_files import find_data_file, is_path, list_data_names, path_beside
from simulator.basis.errors import InputError
from simulator.basis.sourced import BytesPerSecond, Count, Ratio, Seconds
from simulator.basis.yaml_loader import StrictModel, load_yaml

_NODES = Path(__file__).parent / "nodes"
LinkKind = Literal[
    "NVLink3", "NVLink4", "NVLink5", "HCCS", "UB", "InfinityFabric", "PCIe4", "PCIe5", "RoCE"
]  # fmt: skip


class ScaleUpLink(StrictModel):
    """Links inside the node; their bandwidth is the chip's unless it is given here.

    In a `mesh` every pair of chips has its own link, an even share of the chip's bandwidth; through
    a `switch` a chip may send its whole bandwidth to one peer.
    """

    kind: LinkKind
    topology: Literal["switch", "mesh"]
    latency: Seconds
    in_switch_reduction: bool
    bandwidth: BytesPerSecond | None = None


class Link(StrictModel):
    """A link of one chip to the host or to the network, one way."""

    kind: str
    bandwidth: BytesPerSecond
    latency: Seconds


class HostSpec(StrictModel):
    """The processor that launches kernels: how many times as long as an x86 host it takes."""

    processor: str
    single_thread_time: Ratio


class NodeSpec(StrictModel):
    """Chips that share one scale-up domain, and what joins them."""

    name: str
    chip: str
    chips_per_node: Count
    scale_up: ScaleUpLink
    host_link: Link
    scale_out: Link
    host: HostSpec | None = None

    @property
    def chip_count(self) -> int:
        """Chips in one scale-up domain."""
        return self.chips_per_node.whole

    @property
    def link_bytes_per_s(self) -> float:
        """Scale-up bandwidth of one chip, one way."""
        own = self.scale_up.bandwidth
        return own.si if own else find_chip(self.chip).scale_up_bytes_per_s

    @property
    def peer_bytes_per_s(self) -> float:
        """What one chip can send to one peer: a mesh has one link a pair."""
        links = self.chip_count - 1 if self.scale_up.topology == "mesh" else 1
        return self.link_bytes_per_s / links

    @property
    def link_latency_s(self) -> float:
        """Time of an empty message between two chips of the node."""
        return self.scale_up.latency.si

    @property
    def in_switch_reduction(self) -> bool:
        """True where the switch adds up operands, so that an all-reduce sends them once."""
        return self.scale_up.in_switch_reduction

    @property
    def host_bytes_per_s(self) -> float:
        """Bandwidth of one chip to host memory, one way."""
        return self.host_link.bandwidth.si

    @property
    def host_latency_s(self) -> float:
        """Time of an empty transfer to host memory."""
        return self.host_link.latency.si

    @property
    def host_factor(self) -> float:
        """Time of single-threaded host work, on an x86 host 1."""
        return float(self.host.single_thread_time.si) if self.host else 1.0

    @property
    def scale_out_bytes_per_s(self) -> float:
        """Network bandwidth of one chip to other nodes, one way."""
        return self.scale_out.bandwidth.si

    @property
    def scale_out_latency_s(self) -> float:
        """Time of an empty message to another node."""
        return self.scale_out.latency.si

    def with_links_of(self, chip: ChipSpec) -> NodeSpec:
        """The node with the links of an edited chip of its kind."""
        edited = chip.scale_up.bandwidth
        if edited == find_chip(self.chip).scale_up.bandwidth:
            return self
        links = self.scale_up.model_copy(update={"bandwidth": edited})
        return self.model_copy(update={"scale_up": links})

    def nodes_for(self, chips: int) -> int:
        """Nodes that this many chips take."""
        return -(-chips // self.chip_count)


def list_nodes() -> list[str]:
    """Names of the nodes that ship with the package."""
    return list_data_names(_NODES)


def load_node(name_or_path: str | Path) -> NodeSpec:
    """Node by name (`h200-x8`) or by path to a YAML file of the same form.

    A chip that the file names by a relative path is found beside it.
    """
    path = find_data_file("node", name_or_path, _NODES)
    node = load_yaml(path, NodeSpec)
    return node.model_copy(update={"chip": path_beside(path, node.chip)})


def find_node(chip: str | Path, count: int = 1) -> NodeSpec:
    """Node for `count` chips of a kind: the smallest shipped one that holds them all.

    More chips than any one node holds is no error: they take several nodes (`nodes_for`), joined by
    `scale_out`. A chip file of the user's sits in the node that its key `node` names.
    """
    if count < 1:
        raise InputError(f"{count} chips asked for, expected at least 1")
    spec = find_chip(chip)
    usual = load_node(spec.node)
    if is_path(chip):
        return usual.model_copy(update={"chip": str(chip)})
    others = [load_node(name) for name in list_nodes() if name.startswith(f"{spec.name}-")]
    nodes = sorted({node.name: node for node in [usual, *others]}.values(), key=_chip_count)
    return next((node for node in nodes if node.chip_count >= count), nodes[-1])


def _chip_count(node: NodeSpec) -> int:
    return node.chip_count
