import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workloads.batch import pack

# Request 0: tokens 5 6 7 after nothing; request 1: token 8 after 7; request 2: 9 10 after 3.
BATCH = pack([([5, 6, 7], 0), ([8], 7), ([9, 10], 3)])


def test_rows_are_packed_request_after_request():
    assert BATCH.token_ids.tolist() == [5, 6, 7, 8, 9, 10]
    assert BATCH.positions.tolist() == [0, 1, 2, 7, 3, 4]
    assert BATCH.boundaries.tolist() == [0, 3, 4, 6]
    assert BATCH.past.tolist() == [0, 7, 3]
    assert BATCH.lengths.tolist() == [3, 8, 5]
    assert BATCH.next_ids is None


def test_step_and_rows():
    assert BATCH.step.requests == ((3, 0), (1, 7), (2, 3))
    assert list(BATCH.rows()) == [(0, slice(0, 3), 0), (1, slice(3, 4), 7), (2, slice(4, 6), 3)]


def test_completed_entries():
    assert BATCH.emitted(4) == [range(0, 0), range(1, 2), range(0, 1)]
    assert BATCH.entry_positions(4).tolist() == [4, 0]
    assert list(BATCH.entry_rows(4)) == [
        (0, slice(0, 0), range(0, 0)),
        (1, slice(0, 1), range(1, 2)),
        (2, slice(1, 2), range(0, 1)),
    ]
    assert BATCH.entry_positions(128).tolist() == []


def test_next_ids_are_packed_alike():
    batch = pack([([1, 2], 0), ([3], 5)], next_ids=[[2, 9], [8]])
    assert batch.next_ids.tolist() == [2, 9, 8]
    assert batch.next_ids.dtype == batch.token_ids.dtype == np.int64


@given(
    requests=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 50)), min_size=1, max_size=5),
    ratio=st.sampled_from([1, 3, 4, 128]),
)
def test_entries_complete_with_the_last_token_of_their_block(requests, ratio):
    batch = pack([([0] * new, past) for new, past in requests])
    last = [int(t) for t in batch.positions if t % ratio == ratio - 1]
    assert batch.entry_positions(ratio).tolist() == [t - (ratio - 1) for t in last]
    assert batch.step.emitted(ratio) == len(last)
    assert batch.step.requests == tuple(requests)
