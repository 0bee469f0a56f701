import pytest

from workloads.dtype import BF16
from workloads.entry_format import PlainEntry
from workloads.graph import GraphBuilder
from workloads.ops import Add, AppendEntries, Linear, RmsNorm, WriteWindow
from workloads.run_stats import RunStats
from workloads.state_layout import Every, Region, Ring
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Append, Work

X = TensorType((("tokens", 4), ("hidden", 8)), BF16)
WEIGHT = TensorType((("rows", 3), ("hidden", 8)), BF16)
STEP = StepShape(((4, 0),))
RING = Region("ring", "window", Ring(2), PlainEntry(8))
POOL = Region("pool", "c4", Every(4), PlainEntry(8))


@pytest.fixture
def graph():
    builder = GraphBuilder(STEP)
    builder.input("x", X)
    return builder


def test_a_node_has_its_path_operands_and_types(graph):
    with graph.scope("layer00", "swa"), graph.scope("attn"):
        w = graph.param("wkv", WEIGHT)
        ring = graph.region("ring", RING)
        y = graph.add1("wkv", Linear(), ["x"], [w], reads=[ring])
    assert (w, ring, y) == ("layer00/attn/wkv", "layer00/attn/ring", "layer00/attn/wkv")
    built = graph.build([y])
    (node,) = built.nodes
    assert (node.path, node.inputs, node.params) == (y, ("x",), (w,))
    assert (node.scope, node.local_path) == ("layer00", "attn/wkv")
    assert node.types.inputs == (X,)
    assert node.types.params == (WEIGHT,)
    assert node.types.outputs == (built.values[y],)
    assert built.values[y] == TensorType((("tokens", 4), ("rows", 3)), BF16)
    assert built.kinds == {"layer00": "swa"}
    assert built.outputs == (y,)
    assert built.weight_bytes == 3 * 8 * 2
    assert built.state_layout.regions == (RING,)


def test_demand_of_a_node(graph):
    ring = graph.region("ring", RING)
    assert graph.add("write", WriteWindow(2), ["x"], updates=[ring]) == ()
    built = graph.build([])
    assert built.work(built.nodes[0], RunStats()) == Work(
        input_bytes=(4 * 8 * 2,), appends=(Append(region=0, entries=2),)
    )


def test_regions_come_in_the_order_read_then_updated(graph):
    ring, pool = graph.region("ring", RING), graph.region("pool", POOL)
    graph.add("write", WriteWindow(2), ["x"], reads=[pool], updates=[ring])
    assert graph.nodes[0].regions == ("pool", "ring")


def test_outputs_are_numbered_from_the_second_on(graph):
    class Two(Add):
        def infer(self, types, step):
            return (X, X, X)

    assert graph.add("op", Two(), ["x", "x"]) == ("op", "op:1", "op:2")
    with pytest.raises(ValueError, match="unpack"):
        graph.add1("again", Two(), ["x", "x"])


def test_layers_in_order(graph):
    with graph.scope("embed", "embed"):
        graph.add1("a", Add(), ["x", "x"])
        graph.add1("b", Add(), ["x", "embed/a"])
    with graph.scope("layer00", "hca"):
        graph.add1("a", Add(), ["x", "embed/b"])
    graph.add1("last", Add(), ["x", "x"])
    scopes = [(name, [n.path for n in nodes]) for name, nodes in graph.build([]).scopes()]
    assert scopes == [
        ("embed", ["embed/a", "embed/b"]),
        ("layer00", ["layer00/a"]),
        ("last", ["last"]),
    ]
    assert graph.nodes[-1].local_path == "last"
    assert list(GraphBuilder(STEP).build([]).scopes()) == []


def test_a_scope_ends_also_when_its_content_fails(graph):
    with pytest.raises(RuntimeError), graph.scope("layer00"):
        raise RuntimeError
    assert graph.name("x") == "x"


def test_twice_bound_names_are_refused(graph):
    graph.param("w", WEIGHT)
    graph.region("r", RING)
    graph.add("op", Add(), ["x", "x"])
    for bind in (
        lambda: graph.input("x", X),
        lambda: graph.param("w", X),
        lambda: graph.region("r", POOL),
        lambda: graph.add("op", Add(), ["x", "x"]),
        lambda: graph.add("x", Add(), ["x", "x"]),
    ):
        with pytest.raises(ValueError, match="bound twice"):
            bind()


def test_a_node_without_outputs_cannot_be_added_twice_either(graph):
    graph.region("r", RING)
    graph.add("write", WriteWindow(2), ["x"], updates=["r"])
    with pytest.raises(ValueError, match="'write' is bound twice"):
        graph.add("write", WriteWindow(2), ["x"], updates=["r"])


def test_one_local_name_may_be_used_in_two_scopes(graph):
    for layer in ("layer00", "layer01"):
        with graph.scope(layer):
            graph.add("op", Add(), ["x", "x"])
    assert [n.path for n in graph.nodes] == ["layer00/op", "layer01/op"]


@pytest.mark.parametrize(
    ("names", "what"),
    [
        ({"inputs": ["y"], "params": ["w"]}, "value 'y'"),
        ({"inputs": ["x"], "params": ["y"]}, "parameter 'y'"),
        ({"inputs": ["w"], "params": ["w"]}, "value 'w'"),
        ({"inputs": ["x"], "params": ["w"], "reads": ["y"]}, "cache region 'y'"),
        ({"inputs": ["x"], "params": ["w"], "updates": ["x"]}, "cache region 'x'"),
    ],
)
def test_unknown_names_are_refused(graph, names, what):
    graph.param("w", WEIGHT)
    with graph.scope("layer00"), pytest.raises(KeyError, match=f"layer00/op: unknown {what}"):
        graph.add("op", Linear(), **names)
    assert graph.nodes == []


def test_unknown_outputs_of_the_graph_are_refused(graph):
    with pytest.raises(KeyError, match="unknown value 'y'"):
        graph.build(["x", "y"])


def test_types_are_checked_at_insertion_and_the_message_has_the_path(graph):
    wrong = TensorType((("rows", 3), ("hidden", 7)), BF16)
    with graph.scope("layer00"), graph.scope("attn"):
        w = graph.param("wkv", wrong)
        with pytest.raises(ValueError, match="layer00/attn/wkv: Linear: ") as caught:
            graph.add("wkv", Linear(), ["x"], [w])
    assert "'hidden', 7" in str(caught.value)
    assert "'hidden', 8" in str(caught.value)
    assert graph.nodes == []
    with graph.scope("layer00"), graph.scope("attn"):
        right = graph.param("wkv2", WEIGHT)
        assert graph.add1("wkv", Linear(), ["x"], [right]) == "layer00/attn/wkv"


def test_types_are_checked_against_the_step(graph):
    graph.region("pool", POOL)
    with pytest.raises(ValueError, match="append: AppendEntries: 1 completed"):
        graph.add("append", AppendEntries(4), ["x"], updates=["pool"])
    assert graph.add1("norm", RmsNorm(1e-6), ["x"]) == "norm"
