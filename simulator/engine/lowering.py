"""The graph as a list of kernels, by an engine profile.

Layers with equal operations are lowered once. What remains for each layer are names, and how far
the kernels that write a value are from those that read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simulator.engine.kernel import Demand, Kernel, Operand
from simulator.engine.phase import Phase, phase_of
from simulator.engine.physical_layout import PhysicalLayout
from simulator.engine.profile import EngineProfile, layout_of
from simulator.engine.template import KernelTemplate, LayerTemplate, lower_layer, resolve
from workloads.graph import Graph, Node
from workloads.run_stats import RunStats


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
