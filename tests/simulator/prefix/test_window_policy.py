"""Window policies: names, typos, where windows are kept, and how much a replay takes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.prefix.engine_policies import ENGINE_POLICIES
from simulator.prefix.reference import granule_hits
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_parts import Boundary, Periodic, StoredSpan, WindowPart
from simulator.prefix.window_policy import (
    engine_rules,
    parse_window_policies,
    parse_window_policy,
)
from tests.oracles.engine_windows import served_hits
from tests.simulator.prefix.made_traces import prompts, trace_of
from workloads.deepseek_v4.config import find_model

FLASH, PRO = WindowGeometry(128, 43), WindowGeometry(128, 61)


def test_geometry_is_the_models():
    assert WindowGeometry.of_model(find_model("v4-flash")) == FLASH
    assert WindowGeometry.of_model(find_model("v4-pro")) == PRO


@pytest.mark.parametrize(
    ("geometry", "first", "tight", "usual", "rows", "token_layers"),
    [(FLASH, 5_461, 5_462, 5_504, 120_185, 114_723), (PRO, 7_747, 7_748, 7_808, 240_218, 232_470)],
)
def test_replay_of_the_published_models(geometry, first, tight, usual, rows, token_layers):
    assert geometry.first_token_tokens == first
    assert geometry.tight_tokens == tight
    assert geometry.replay_tokens == usual
    work = geometry.trimmed(1 << 20)
    assert (work.tokens, work.kv_rows, work.token_layers) == (tight, rows, token_layers)


@given(st.integers(1, 9), st.integers(1, 7), st.integers(0, 80))
def test_the_triangle_is_what_dependencies_demand(n_win, layers, distance):
    """Rows walked back from the top layer's window, one token and one layer at a time."""
    needed = [set() for _ in range(layers)]
    needed[-1] = {-k for k in range(1, n_win + 1)}
    for layer in range(layers - 1, 0, -1):
        needed[layer - 1] = {at - back for at in needed[layer] for back in range(n_win)}
    kept = [{at for at in rows if at >= -distance} for rows in needed]
    work = WindowGeometry(n_win, layers).trimmed(distance)
    assert work.tokens == len(kept[0])
    assert work.kv_rows == sum(map(len, kept))
    assert work.token_layers == sum(map(len, kept[1:]))


@given(st.integers(0, 100_000))
def test_a_replay_is_never_longer_than_the_distance(distance):
    for name in ("zero", "zero:trimmed", "bounded:128", "bounded:300+zero"):
        work = parse_window_policy(name).replay(distance, PRO)
        assert work.tokens <= distance
        assert work.token_layers <= distance * PRO.layers


def test_where_windows_are_kept():
    span = StoredSpan(resumed=1_000, known=2_200, resend=4_999, prompt=5_000, end=5_500)
    kept = {
        "full": [],
        "periodic:2048": [2_048, 4_096],
        "boundary": [4_992, 5_376],
        "boundary+periodic:4096": [4_096, 4_992, 5_376],
        "junction": [2_176],
        "zero": [],
    }
    for name, expected in kept.items():
        assert parse_window_policy(name).kept(span, 128) == expected
    assert parse_window_policy("full").everywhere


def test_a_prompt_that_ends_with_a_granule_keeps_the_one_before():
    span = StoredSpan(resumed=0, known=0, resend=1_023, prompt=1_024, end=1_100)
    assert parse_window_policy("boundary").kept(span, 256) == [768, 1_024]
    assert parse_window_policy("boundary").kept(replace(span, resumed=768), 256) == [1_024]
    one_more = replace(span, resend=1_024, prompt=1_025)
    assert parse_window_policy("boundary").kept(one_more, 256) == [1_024]


def test_engines_are_sums_of_the_same_parts():
    (every,) = parse_window_policy("periodic:256").parts
    assert parse_window_policy("vllm:none").parts == (replace(every, clips=False),)
    assert parse_window_policy("vllm:0").parts == parse_window_policy("boundary+junction").parts
    assert parse_window_policy("sglang").parts == parse_window_policy("vllm:0").parts
    assert parse_window_policy("vllm:8192").granule_tokens == 256


def test_which_policies_store_windows():
    stores = ("periodic:512", "boundary", "junction", "vllm:none", "sglang", "zero+periodic:512")
    assert all(parse_window_policy(name).stores_windows for name in stores)
    for name in ("full", "full+boundary", "zero", "zero:trimmed", "bounded:128"):
        assert not parse_window_policy(name).stores_windows


@given(st.integers(1, 3_000), st.integers(0, 20_000))
def test_where_a_policy_keeps_windows_by_position_follows_from_what_it_keeps(period, run):
    part = Periodic(period)
    assert WindowPart.boundary(part, run) == part.boundary(run)
    assert WindowPart.boundary(Boundary(), run) == 0


def test_a_period_between_the_granules_is_refused():
    policy = parse_window_policy("periodic:300+zero")
    policy.check(128)
    with pytest.raises(InputError, match="300 tokens is no multiple of the 256 of a hit; nearest"):
        policy.check(256)


def test_numbers_may_have_separators():
    parts = parse_window_policy("periodic:8192").parts
    assert parse_window_policy("periodic:8_192").parts == parts
    assert parse_window_policy(" Periodic:8192").parts == parts


def test_only_bounded_replay_is_approximate():
    assert parse_window_policy("periodic:4096+zero:trimmed").exact
    assert not parse_window_policy("periodic:4096+bounded:128").exact


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("peridoic:4096", "did you mean 'periodic'"),
        ("periodic", "such as 'periodic:4096'"),
        ("periodic:0", "at least 1"),
        ("periodic:-3", "at least 1"),
        ("periodic:4.5", "at least 1"),
        ("periodic:8K", "at least 1"),
        ("periodic:²", "at least 1"),
        (f"periodic:{10**30}", "at most 2^40"),
        ("full:3", "full takes no value"),
        ("boundary:", "boundary takes no value"),
        ("zero:trim", "'zero:trimmed'"),
        ("vllm:300", "nearest is 256"),
        ("vllm", "needs a whole number"),
        ("boundary+", "empty part"),
    ],
)
def test_a_typo_is_a_sentence(text, says):
    with pytest.raises(InputError) as caught:
        parse_window_policy(text)
    assert says in caught.value.message


def test_lists():
    assert [p.name for p in parse_window_policies("full, zero,full")] == ["full", "zero"]
    with pytest.raises(InputError, match="no window policy given"):
        parse_window_policies(" , ")


def test_stores_keep_what_their_masks_say():
    span = StoredSpan(resumed=512, known=1_400, resend=2_047, prompt=2_048, end=2_600)
    kept = {
        "lmcache": [768, 1_024, 1_280, 1_536, 1_792, 2_048, 2_304, 2_560],
        "hicache": [],
        "hicache:tail": [1_280, 1_792, 2_048, 2_560],
        "mooncake": [1_792],
        "mooncake:1024": [1_024, 1_792, 2_048],
        "mooncake:none": [768, 1_024, 1_280, 1_536, 1_792, 2_048, 2_304, 2_560],
    }
    for name, expected in kept.items():
        policy = parse_window_policy(name)
        assert (policy.kept(span, 256), policy.granule_tokens) == (expected, 256)
    assert parse_window_policy("hicache").everywhere
    assert parse_window_policy("mooncake:0").parts == parse_window_policy("mooncake").parts


@given(prompts(max_requests=10), st.sampled_from([128, 256]))
def test_stores_hit_as_an_independent_count_does(asked, block_tokens):
    trace = trace_of(asked, block_tokens)
    for name in ("lmcache", "hicache", "mooncake", "mooncake:none", "mooncake:512"):
        hits, _ = granule_hits(trace, parse_window_policy(name), FLASH, 256)
        assert hits.tolist() == served_hits(name, asked, block_tokens)


def test_every_engine_names_its_rule_and_its_source():
    policies = parse_window_policies("hbm=sglang/mooncake=hicache;lmcache+zero,boundary,sglang")
    named = [line.split()[1] for line in engine_rules(policies)]
    assert named == ["sglang:", "hicache:", "lmcache:"]
    assert all("source: " in engine.rule for engine in ENGINE_POLICIES.values())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hicache:head", "write 'hicache' or 'hicache:tail'"),
        ("lmcache:256", "lmcache takes no value"),
        ("mooncake:300", "nearest is 256"),
        ("moncake", "did you mean 'mooncake'"),
    ],
)
def test_stores_refuse_what_they_do_not_take(name, says):
    with pytest.raises(InputError, match=says):
        parse_window_policy(name)
