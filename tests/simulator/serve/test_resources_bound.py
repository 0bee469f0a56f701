"""The quick bound of the ledger never lets in what does not fit, and changes no answer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.serve.resources import Ledger, Resource

pages = st.lists(st.tuples(st.integers(1, 512), st.floats(0.1, 300)), max_size=3).map(tuple)
resources = st.lists(
    st.builds(
        Resource,
        name=st.just("pool"),
        capacity=st.floats(1, 1e6),
        fixed=st.floats(0, 1000),
        pages=pages,
    ),
    min_size=1,
    max_size=3,
)


@given(
    resources,
    st.lists(st.floats(0, 5000), max_size=20),
    st.integers(0, 3000),
    st.floats(1, 4),
    st.integers(1, 4096),
)
def test_steps_that_fit_are_those_that_are_counted(found, contexts, held, rate, most):
    ledger = Ledger(found)
    ledger.hold(held)
    decoding = np.array(contexts)
    steps = ledger.steps_that_fit(decoding, rate, most)

    def fits(count):
        return all(
            r.units(held) + r.units_of_all(decoding + rate * count) <= r.capacity for r in found
        )

    assert 0 <= steps <= most
    if steps:
        assert fits(steps)
    if steps < most:
        assert not fits(steps + 1)
