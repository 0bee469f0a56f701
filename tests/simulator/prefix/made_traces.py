"""Small made-up traces and prompts for the tests of prefix caching."""

import numpy as np
from hypothesis import strategies as st

from workloads.traffic.trace import Trace, as_runs, pack_runs


def trace_of(prompts, block_tokens=4, lengths=None, arrival_s=None):
    """A trace of prompts given as lists of ids; lengths default to whole blocks."""
    offsets, first, count = pack_runs([as_runs(ids) for ids in prompts])
    requests = len(prompts)
    if lengths is None:
        lengths = [len(ids) * block_tokens for ids in prompts]
    times = np.zeros(requests) if arrival_s is None else np.asarray(arrival_s)
    return Trace(
        name="made",
        block_tokens=block_tokens,
        arrival_ns=(times * 1e9).astype(np.int64),
        delay_ns=np.zeros(requests, dtype=np.int64),
        input_tokens=np.array(lengths, dtype=np.int64),
        output_tokens=np.ones(requests, dtype=np.int64),
        session=np.arange(requests, dtype=np.int64),
        parent=np.full(requests, -1, dtype=np.int64),
        run_offsets=offsets,
        run_first=first,
        run_count=count,
    )


@st.composite
def prompts(draw, max_requests=25, max_blocks=12):
    """Prompts that share prefixes: each one goes on from a cut of an earlier one.

    Ids behind a cut are new and partly consecutive, so that a prefix is told by its last id.
    """
    done, fresh = [], 0
    for _ in range(draw(st.integers(1, max_requests))):
        base = list(draw(st.sampled_from(done))) if done and draw(st.booleans()) else []
        base = base[: draw(st.integers(0, len(base)))]
        for _ in range(draw(st.integers(0 if base else 1, 3))):
            fresh += draw(st.integers(0, 1)) * 5
            length = draw(st.integers(1, max_blocks // 3))
            base += range(fresh, fresh + length)
            fresh += length
        done.append(base)
    return done
