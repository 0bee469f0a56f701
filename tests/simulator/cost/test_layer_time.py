"""The plain loop over a layer gives the end that the simulated machine gives."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.cost.layer_time import Cost, layer_ps
from simulator.cost.price import PIPES, Price
from simulator.cost.timeline import simulate_layer
from simulator.cost.traffic import Traffic


@dataclass(frozen=True)
class Placed:
    stream: int
    after: tuple[int, ...]


@st.composite
def layers(draw):
    """Kernels on up to three streams, with launches, waits and shares of pipes."""
    kernels, prices = [], []
    for i in range(draw(st.integers(1, 12))):
        after = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        kernels.append(Placed(draw(st.integers(0, 2)), tuple(sorted(after))))
        run_ps = draw(st.sampled_from([0, 1, 7, 1000]) | st.integers(0, 10**7))
        busy = {pipe: draw(st.sampled_from([0, run_ps]) | st.integers(0, run_ps)) for pipe in PIPES}
        busy["launch"] = draw(st.sampled_from([0, 1000, 1234]))
        price = Price(
            run_ps=run_ps,
            busy_ps=busy,
            traffic=Traffic(0, 0, 0),
            causes_ps={},
            priced_by="test",
            contends=draw(st.booleans()),
        )
        prices.append(price)
    return kernels, prices


@settings(max_examples=150)
@given(layers())
def test_a_layer_ends_when_the_machine_ends(layer):
    kernels, prices = layer
    costs = [Cost(p.launch_ps, p.run_ps, p.shares) for p in prices]
    end = max(placed.end_ps for placed in simulate_layer(kernels, prices, find_chip("b200")))
    assert layer_ps(costs, [k.stream for k in kernels], [k.after for k in kernels]) == end
