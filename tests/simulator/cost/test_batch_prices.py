"""Short cuts of prices in arrays give what the plain rules give."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.machine.live import to_ps
from simulator.cost.roofline import whole_ps
from simulator.kernels.causes import CAUSES, part_of, shared_out

SHARES = st.floats(0, 10) | st.sampled_from([0.0, 1.0, 1e-6])
DURATIONS = st.integers(0, 10**13) | st.integers(0, 20) | st.integers(0, 10**18)
# Whole picoseconds and little beside them, where rounding decides.
SECONDS = st.floats(0, 1e3) | st.builds(
    lambda ps, beside: (ps + beside) * 1e-12,
    st.integers(0, 10**12),
    st.sampled_from([0.0, 4e-4, 5e-4, 6e-4, 1e-3, 0.9995, 0.9996]),
)


@given(DURATIONS, st.dictionaries(st.sampled_from(CAUSES), SHARES, min_size=1))
def test_a_part_of_a_duration_is_the_one_that_is_shared_out(total_ps, weights):
    for cause, weight in weights.items():
        if weight:
            assert part_of(cause, total_ps, weights) == shared_out(total_ps, weights).get(cause, 0)


@given(st.lists(SECONDS, min_size=1))
def test_picoseconds_of_an_array_are_those_of_its_values(seconds):
    assert whole_ps(np.array(seconds)).tolist() == [to_ps(value) for value in seconds]
