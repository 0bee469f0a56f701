"""Any damage to any format is read with its laws kept, or refused in one sentence."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from tests.workloads.traffic.test_aiperf import ROWS as AIPERF
from tests.workloads.traffic.test_bailian import ROWS as BAILIAN
from tests.workloads.traffic.test_found_forms import BATCH, CUSTOM, EXPORT, FOUND, HASHED
from tests.workloads.traffic.test_llmservingsim import agentic, flat
from tests.workloads.traffic.test_mooncake import ROWS as MOONCAKE
from tests.workloads.traffic.test_servegen import CLIENTS
from tests.workloads.traffic.test_tables import ALL as TABLES
from tests.workloads.traffic.test_weka import session as weka
from tests.workloads.traffic.test_weka_ranges import session as weka_ranges
from workloads.traffic.readers import READERS, read_trace

ROWS = {
    "mooncake": MOONCAKE,
    "bailian": BAILIAN,
    "aiperf": AIPERF,
    "weka": [weka("a"), weka("b")],
    "weka-ranges": [weka_ranges("a"), weka_ranges("b", start=3.0)],
    "llmservingsim": [flat(0, [1] * 40), agentic(5)],
    "servegen-offline": HASHED,
    "aiperf-export": EXPORT,
    "openai-batch": BATCH,
    "custom": CUSTOM,
}
SAMPLES = {
    **{name: "".join(json.dumps(row) + "\n" for row in rows) for name, rows in ROWS.items()},
    **TABLES,
    "servegen": CLIENTS,
    **FOUND,
}
ODD = [None, -1, 0, 1.5, 1e300, float("nan"), 1 << 70, "x", "", True, [], [1], [[1, 2]], {}, [None]]


def read(text: bytes, format=None, **options):
    """Read bytes as a file; None where they are refused in one sentence."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        path.write_bytes(text)
        try:
            return read_trace(path, format, chars_per_token=4, **options)
        except InputError:
            return None


def check(trace):
    """Laws of every trace that was read."""
    count = len(trace)
    assert count > 0
    assert trace.notes
    assert (trace.parent < np.arange(count)).all()
    assert ((trace.arrival_ns >= 0) | (trace.parent >= 0)).all()
    assert (trace.delay_ns >= 0).all()
    assert (trace.input_tokens > 0).all()
    assert (trace.output_tokens >= 0).all()
    assert set(trace.session.tolist()) == set(range(trace.sessions))
    assert len(trace.run_offsets) == count + 1
    assert (trace.run_count >= 1).all()
    assert (trace.run_first >= 0).all()
    if trace.block_tokens:
        for request in range(count):
            ids = len(trace.block_ids(request))
            low, rest = divmod(int(trace.input_tokens[request]), trace.block_tokens)
            assert ids in (0, low, low + (rest > 0))


def test_every_format_has_a_sample():
    assert set(SAMPLES) == set(READERS)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_told_and_keep_the_laws(name):
    trace = read(SAMPLES[name].encode())
    assert trace.notes[0] == f"read as {name}"
    check(trace)


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40)
@given(data=st.data())
def test_damaged_bytes(name, data):
    text = bytearray(SAMPLES[name].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        if data.draw(st.booleans()):
            text[place] = data.draw(st.integers(0, 255))
        else:
            del text[place : place + data.draw(st.integers(1, 40))]
        if not text:
            break
    trace = read(bytes(text), data.draw(st.sampled_from([None, name])))
    if trace is not None:
        check(trace)


def paths(value, before=()):
    """Places of all values in nested JSON."""
    yield before
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in children if isinstance(value, (dict, list)) else ():
        if isinstance(item, (dict, list)):
            yield from paths(item, (*before, key))
        else:
            yield (*before, key)


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=80)
@given(data=st.data())
def test_odd_values(name, data):
    rows = json.loads(json.dumps(ROWS[name]))
    where = data.draw(st.sampled_from([path for path in paths(rows) if path]))
    holder = rows
    for key in where[:-1]:
        holder = holder[key]
    if isinstance(holder, dict) and data.draw(st.integers(0, 3)) == 0:
        del holder[where[-1]]
    else:
        holder[where[-1]] = data.draw(st.sampled_from(ODD))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    strict = data.draw(st.booleans())
    trace = read(text.encode(), data.draw(st.sampled_from([None, name])), strict=strict)
    if trace is not None:
        check(trace)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("other", READERS)
def test_a_wrong_format_is_refused_or_keeps_the_laws(name, other):
    trace = read(SAMPLES[name].encode(), other)
    if trace is not None:
        check(trace)
