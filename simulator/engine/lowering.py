"""The graph as a list of kernels, by an engine profile.

Layers with equal operations are lowered once. What remains for each layer are names, and how far
the kernels that write a value are from those that read it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simulator.basis.errors import UnsupportedError
from simulator.engine.demand import DemandBuilder
from simulator.engine.kernel import Demand, Kernel, Operand
from simulator.engine.phase import Phase, phase_of, uniform
from simulator.engine.physical_layout import PhysicalLayout
from simulator.engine.profile import EngineProfile, FusedKernel, layout_of
from simulator.engine.sizes import core_of
from workloads.graph import Graph, Node
from workloads.ops import GroupedLinear, TopK
from workloads.run_stats import RunStats
from workloads.work import Work

# (position of the node in its layer, position of the operand)
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTemplate:
    """A kernel of a layer without names; `demand` lacks its operands.

    `stream` is the one that the step's tokens allow.
    `inputs` and `outputs` are (place, bytes) of the dense values that cross the kernel's border.
    """

    fused: FusedKernel
    stream: int
    nodes: tuple[int, ...]
    after: tuple[int, ...]
    demand: Demand
    inputs: tuple[tuple[Place, int], ...]
    outputs: tuple[tuple[Place, int], ...]


@dataclass(frozen=True, slots=True)
class LayerTemplate:
    """Kernels of a layer in launch order, and nodes that do nothing but pass operands on.

    Nodes of kernels that the engine leaves out for this step are among the latter. It refers to
    nodes by their position in the layer, never by name, so that it can be put in the place of every
    layer with equal operations.
    """

    kernels: tuple[KernelTemplate, ...]
    passing: tuple[int, ...]


_NO_WORK = Work()


def lower_layer(
    graph: Graph,
    nodes: Sequence[Node],
    outside: frozenset[str],
    profile: EngineProfile,
    stats: RunStats,
    phase: Phase,
    physical: PhysicalLayout,
) -> LayerTemplate:
    """Template of a layer; `outside` are values that other layers or the caller read.

    Raises `UnsupportedError` when the profile has no kernel for a node, or fuses nodes around
    another kernel that needs the first and feeds the last.
    """
    works = [graph.work(node, stats) for node in nodes]
    layer = _Layer(nodes, works, profile, _left_out(graph, nodes, profile, phase))
    edges = layer.edges()
    order = layer.ordered(edges)
    position = {name: i for i, name in enumerate(order)}
    exported = layer.exported(outside)
    builder = DemandBuilder(graph, profile, physical, phase)
    kernels = []
    for name in order:
        members = [(i, nodes[i], works[i]) for i in layer.groups[name]]
        fused = layer.fused[name]
        kernels.append(
            KernelTemplate(
                fused=fused,
                stream=fused.stream if fused.runs_beside(graph.step.tokens, phase) else 0,
                nodes=tuple(layer.groups[name]),
                after=tuple(sorted(position[other] for other in edges[name])),
                demand=builder.demand(fused, [(n, work) for _, n, work in members], nodes),
                inputs=_inputs(members, layer.same),
                outputs=_outputs(members, exported),
            )
        )
    return LayerTemplate(tuple(kernels), tuple(sorted(layer.passing)))


def _left_out(
    graph: Graph, nodes: Sequence[Node], profile: EngineProfile, phase: Phase
) -> frozenset[str]:
    """Kernels of a layer, by name, that the engine does not launch for the step."""
    return frozenset(
        kernel.name
        for kernel in profile.kernels
        if kernel.when != "always" and not _launched(kernel, graph, nodes, phase)
    )


def _launched(kernel: FusedKernel, graph: Graph, nodes: Sequence[Node], phase: Phase) -> bool:
    core, step = core_of(nodes), graph.step
    if core is None:
        return False
    tokens, heads, _ = core.types.inputs[0].shape
    if kernel.when == "few_heads":
        return bool(heads < (kernel.pads_to or 0))
    if kernel.when == "several_groups":
        groups = [n.types.params[0].matrix[0] for n in nodes if isinstance(n.op, GroupedLinear)]
        return bool(sum(groups) > 1 and tokens > 1)
    picks = next((n.op for n in nodes if isinstance(n.op, TopK)), None)
    if picks is None or phase.decode:
        return True
    _, new, past = uniform(step)
    return bool((past + new) / picks.ratio > picks.top_k)


class _Layer:
    """Nodes of a layer, gathered into the kernels of a profile but for those `left_out`."""

    def __init__(
        self,
        nodes: Sequence[Node],
        works: Sequence[Work],
        profile: EngineProfile,
        left_out: frozenset[str],
    ) -> None:
        self.nodes = nodes
        self.works = works
        self.passing = {i for i, work in enumerate(works) if work == _NO_WORK}
        self.fused: dict[str, FusedKernel] = {}
        self.groups: dict[str, list[int]] = {}
        self.kernel_of: dict[int, str] = {}
        kernel_of_node = profile.kernel_of_node()
        for i, node in enumerate(nodes):
            fused = kernel_of_node.get(node.local_path)
            if fused is None:
                raise UnsupportedError(
                    f"engine {profile.name!r} has no kernel for node {node.path!r} "
                    f"({type(node.op).__name__}): list {node.local_path!r} under one of its kernels"
                )
            if fused.name in left_out:
                self.passing.add(i)
            if i not in self.passing:
                self.fused[fused.name] = fused
                self.groups.setdefault(fused.name, []).append(i)
                self.kernel_of[i] = fused.name
        self.same = resolve(nodes, sorted(self.passing))
        self.begins = {name: members[0] for name, members in self.groups.items()}
        for fused in profile.kernels:
            if fused.before in self.begins and fused.name not in left_out:
                self.fused[fused.name] = fused
                self.groups[fused.name] = []
                self.begins[fused.name] = self.begins[fused.before]
        self.rank = {kernel.name: i for i, kernel in enumerate(profile.kernels)}

    def edges(self) -> dict[str, set[str]]:
        """For every kernel, those that it reads, that stand before it, or of the stage before."""
        writer: dict[str, str] = {}
        appenders: dict[str, list[str]] = {}
        edges: dict[str, set[str]] = {name: set() for name in self.groups}
        for i, own in self.kernel_of.items():
            node, work = self.nodes[i], self.works[i]
            before = {writer.get(self.same.get(name, name), own) for name in node.inputs}
            for read in work.reads:
                before.update(appenders.get(node.regions[read.region], ()))
            edges[own] |= before - {own}
            writer.update(dict.fromkeys(node.outputs, own))
            for append in work.appends:
                appenders.setdefault(node.regions[append.region], []).append(own)
        self._add_stages(edges)
        return edges

    def _add_stages(self, edges: dict[str, set[str]]) -> None:
        stages: dict[int, list[str]] = {}
        for name, fused in self.fused.items():
            if fused.before is not None:
                edges[fused.before].add(name)
            if fused.stage:
                stages.setdefault(fused.stage, []).append(name)
        before: list[str] = []
        for stage in sorted(stages):
            for name in stages[stage]:
                edges[name].update(before)
            before = stages[stage]

    def ordered(self, edges: dict[str, set[str]]) -> list[str]:
        """Kernels so that each comes after those that it reads; else in the graph's order."""
        waiting = {name: len(before) for name, before in edges.items()}
        readers: dict[str, list[str]] = {name: [] for name in self.groups}
        for name, before in edges.items():
            for other in before:
                readers[other].append(name)
        ready = [self._place(name) for name in self.groups if not waiting[name]]
        heapq.heapify(ready)
        order: list[str] = []
        while ready:
            *_, name = heapq.heappop(ready)
            order.append(name)
            for reader in readers[name]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, self._place(reader))
        if len(order) < len(self.groups):
            stuck = sorted(set(self.groups) - set(order))
            raise UnsupportedError(
                f"kernels {', '.join(stuck)} of layer {self.nodes[0].scope!r} wait for each "
                "other: one of them fuses nodes around another"
            )
        return order

    def _place(self, name: str) -> tuple[int, int, str]:
        return self.begins[name], self.rank[name], name

    def exported(self, outside: frozenset[str]) -> set[str]:
        """Values that leave their kernel: read by another one, by another layer, or by nobody."""
        readers: dict[str, set[str]] = {}
        for i, own in self.kernel_of.items():
            for name in self.nodes[i].inputs:
                readers.setdefault(self.same.get(name, name), set()).add(own)
        return {
            output
            for i, own in self.kernel_of.items()
            for output in self.nodes[i].outputs
            if output in outside or readers.get(output) != {own}
        }


def resolve(nodes: Sequence[Node], passing: Sequence[int]) -> dict[str, str]:
    """Value that each output of a passing node stands for."""
    same: dict[str, str] = {}
    for i in passing:
        for output, given in zip(nodes[i].outputs, nodes[i].inputs, strict=False):
            same[output] = same.get(given, given)
    return same


def _inputs(
    members: Sequence[tuple[int, Node, Work]], same: dict[str, str]
) -> tuple[tuple[Place, int], ...]:
    """Values from outside of the kernel, each once."""
    inside = {output for _, node, _ in members for output in node.outputs}
    found: dict[str, tuple[Place, int]] = {}
    for i, node, work in members:
        for operand, (given, nbytes) in enumerate(zip(node.inputs, work.input_bytes, strict=True)):
            name = same.get(given, given)
            if name in inside or not nbytes:
                continue
            place, known = found.get(name, ((i, operand), 0))
            found[name] = (place, max(known, nbytes))
    return tuple(found.values())


def _outputs(
    members: Sequence[tuple[int, Node, Work]], exported: set[str]
) -> tuple[tuple[Place, int], ...]:
    """Values that somebody outside of the kernel reads."""
    return tuple(
        ((i, operand), nbytes)
        for i, node, work in members
        for operand, (name, nbytes) in enumerate(zip(node.outputs, work.output_bytes, strict=True))
        if name in exported
    )


def lower(
    graph: Graph,
    profile: EngineProfile,
    stats: RunStats,
    phase: Phase | None = None,
    physical: PhysicalLayout | None = None,
) -> tuple[Kernel, ...]:
    """Kernels in launch order; every node of the graph with any work is in exactly one of them.

    `phase` is told by the step's shapes unless it is given; `physical` is how cache rows are
    stored, where not as the profile has it.
    Raises `UnsupportedError` naming the node or the kernels that the profile cannot place.
    """
    lowering = _Lowering(
        graph,
        profile,
        stats,
        phase or phase_of(graph.step),
        physical or PhysicalLayout(layout_of(profile)),
    )
    placed = lowering.placed()
    spans = _ValueSpans(graph)
    for kernel in placed:
        spans.walk(kernel)
    return tuple(lowering.kernel(kernel, spans) for kernel in placed)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A template in the place of one layer: names of the values that cross its border."""

    template: KernelTemplate
    nodes: Sequence[Node]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]

    @property
    def moved_bytes(self) -> int:
        dense = sum(nbytes for _, nbytes in (*self.inputs, *self.outputs))
        return self.template.demand.moved_bytes + dense


@dataclass(slots=True)
class _ValueSpans:
    """Footprint between the write of each value and each of its uses."""

    graph: Graph
    written_at: dict[str, int] = field(default_factory=dict)
    last_use: dict[str, int] = field(default_factory=dict)
    uses: dict[tuple[int, str], int] = field(default_factory=dict)
    moved: int = 0

    def walk(self, kernel: _Placed) -> None:
        """Pass over the next kernel."""
        for name, nbytes in kernel.inputs:
            if name in self.written_at:
                footprint = self.moved - self.written_at[name] + nbytes
                self.uses[id(kernel), name] = footprint
                self.last_use[name] = footprint
        self.moved += kernel.moved_bytes
        self.written_at.update((name, self.moved) for name, _ in kernel.outputs)


class _Lowering:
    """Templates of the layers met so far, and demands with the operands filled in."""

    def __init__(
        self,
        graph: Graph,
        profile: EngineProfile,
        stats: RunStats,
        phase: Phase,
        physical: PhysicalLayout,
    ) -> None:
        self.graph = graph
        self.profile = profile
        self.stats = stats
        self.phase = phase
        self.physical = physical
        self.outside = _read_outside(graph)
        self.templates: dict[object, LayerTemplate] = {}
        self.demands: dict[object, Demand] = {}

    def placed(self) -> list[_Placed]:
        """All kernels of all layers, with the names of their operands."""
        kernels: list[_Placed] = []
        for _, nodes in self.graph.scopes():
            template = self._template(nodes)
            same = resolve(nodes, template.passing)
            for kernel in template.kernels:
                inputs = tuple(
                    (same.get(nodes[i].inputs[j], nodes[i].inputs[j]), nbytes)
                    for (i, j), nbytes in kernel.inputs
                )
                outputs = tuple((nodes[i].outputs[j], nbytes) for (i, j), nbytes in kernel.outputs)
                kernels.append(_Placed(kernel, nodes, inputs, outputs))
        return kernels

    def kernel(self, placed: _Placed, spans: _ValueSpans) -> Kernel:
        """The finished kernel."""
        template, scope = placed.template, placed.nodes[0].scope
        inputs = tuple(
            Operand(nbytes, spans.uses.get((id(placed), name))) for name, nbytes in placed.inputs
        )
        outputs = tuple(
            Operand(nbytes, None if name in self.graph.outputs else spans.last_use.get(name))
            for name, nbytes in placed.outputs
        )
        key = (id(template), inputs, outputs)
        if key not in self.demands:
            self.demands[key] = replace(template.demand, inputs=inputs, outputs=outputs)
        return Kernel(
            name=template.fused.name,
            scope=scope,
            kind=self.graph.kinds.get(scope, scope),
            stream=template.stream,
            stage=template.fused.stage,
            after=template.after,
            nodes=tuple(placed.nodes[i].path for i in template.nodes),
            demand=self.demands[key],
        )

    def _template(self, nodes: Sequence[Node]) -> LayerTemplate:
        key = self._layer_key(nodes)
        if key not in self.templates:
            self.templates[key] = lower_layer(
                self.graph,
                nodes,
                self.outside,
                self.profile,
                self.stats,
                self.phase,
                self.physical,
            )
        return self.templates[key]

    def _layer_key(self, nodes: Sequence[Node]) -> object:
        """Operations, types, formats and wiring of a layer, without its name."""
        scope = nodes[0].scope
        cut = len(scope)
        return tuple(
            (
                node.local_path,
                node.op,
                node.types,
                tuple(
                    (self.graph.regions[name].pool, self.graph.regions[name].format)
                    for name in node.regions
                ),
                tuple(name[cut:] if name.startswith(scope + "/") else None for name in node.inputs),
                tuple(name in self.outside for name in node.outputs),
            )
            for node in nodes
        )


def _read_outside(graph: Graph) -> frozenset[str]:
    """Values that another layer reads, or whoever asked for the step."""
    outside = set(graph.outputs)
    for node in graph.nodes:
        prefix = node.scope + "/"
        outside.update(name for name in node.inputs if not name.startswith(prefix))
    return frozenset(outside)
