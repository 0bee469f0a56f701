"""Tenants: none hits the prefix of another, and each keeps to its part of a pool."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.prefix.reference import (
    capacity_counts,
    parse_quotas,
    quota_counts,
    reference_counts,
)
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from tests.simulator.prefix.made_traces import prompts
from workloads.traffic.readers import read_trace

COLUMNS = "input=n,output=o,ids=b,tenant=who"


def of_tenants(folder, asked, names):
    rows = [
        {"n": 4 * len(ids), "o": 1, "b": ids, "who": names[k % len(names)]}
        for k, ids in enumerate(asked)
    ]
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_trace(path, columns=COLUMNS, block_tokens=4)


def full_hits(trace, capacities=()):
    policy = parse_window_policy("full")
    return reference_counts(trace, [policy], WindowGeometry(4, 2), capacities)


@settings(max_examples=40)
@given(asked=prompts(max_requests=12), tenants=st.integers(1, 4))
def test_no_tenant_hits_another_prefix(tmp_path_factory, asked, tenants):
    """All together hit what each hits alone."""
    folder = tmp_path_factory.mktemp("t")
    names = [f"t{n}" for n in range(tenants)]
    together = full_hits(of_tenants(folder, asked, names)).policies[0].hit_tokens
    apart = 0
    for n in range(tenants):
        own = asked[n::tenants]
        if own:
            apart += full_hits(of_tenants(folder, own, ["one"])).policies[0].hit_tokens
    assert together == apart


def test_equal_prompts_of_two_tenants(tmp_path):
    trace = of_tenants(tmp_path, [[7, 8, 9]] * 4, ["a", "b"])
    assert trace.tenants == ("a", "b")
    assert trace.tenant.tolist() == [0, 1, 0, 1]
    assert full_hits(trace).policies[0].hit_tokens == 2 * 12
    assert full_hits(of_tenants(tmp_path, [[7, 8, 9]] * 4, ["a"])).policies[0].hit_tokens == 3 * 12


def test_a_quota_keeps_room_that_others_would_take(tmp_path):
    """Tenant b asks for much, which leaves nothing of a's prompt in a pool that they share."""
    asked = [[1, 2], list(range(100, 108)), [1, 2], list(range(200, 208))]
    trace = of_tenants(tmp_path, asked, ["a", "b"])
    assert capacity_counts(trace, "lru", [32])[0].hit_blocks == 0
    [kept] = quota_counts(trace, "lru", [32], {"a": 0.25, "b": 0.75})
    assert (kept.hit_blocks, kept.capacity_blocks) == (2, 8)


def test_quotas_as_written():
    assert parse_quotas("a=0.5, b=0.25") == {"a": 0.5, "b": 0.25}
    for wrong in ("a", "a=0", "a=2", "a=0.5,a=0.1", "a=0.7,b=0.7", "=0.5"):
        with pytest.raises(InputError, match="quota"):
            parse_quotas(wrong)


def test_quotas_of_nobody(tmp_path):
    trace = of_tenants(tmp_path, [[1]], ["a"])
    with pytest.raises(InputError, match="unknown tenant 'c'"):
        quota_counts(trace, "lru", [32], {"c": 1.0})
