import pytest

from simulator.basis.errors import InputError
from simulator.cache.pool_spec import V4_POOLS, PoolSpec, pools_of, with_pages
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state


@pytest.mark.parametrize("model", ["v4-pro", "v4-flash"])
def test_the_pools_of_a_model_are_those_that_grow(model):
    pools = pools_of(model_state(find_model(model), Precision()))
    assert {p.name: p for p in pools} == {p.name: p for p in V4_POOLS}


def test_named_pools_get_pages_of_their_own():
    layout = model_state(find_model("v4-flash"), Precision())
    pools = {p.name: p for p in pools_of(layout, {"c128": 2048, "c4": 64}, {"c4": 9})}
    assert pools["c128"] == PoolSpec(name="c128", ratio=128, page_tokens=2048)
    assert pools["c4"] == PoolSpec(name="c4", ratio=4, page_tokens=64, pages=9)
    assert pools["c4_index"].page_tokens is None


@pytest.mark.parametrize(
    ("pool", "page_tokens", "words"),
    [
        ("c128", 64, r"for 64 tokens, but one entry for 128 \(64 short\): it cannot hold one"),
        ("c4", 0, r"for 0 tokens, but one entry for 4 \(4 short\)"),
        ("c4", -8, r"\(12 short\)"),
        ("c128", 200, "1.5625 entries of 128 tokens; give 128 or 256"),
        ("c5", 256, "unknown compressed pool 'c5': did you mean 'c4'"),
    ],
)
def test_a_page_holds_a_whole_number_of_entries(pool, page_tokens, words):
    with pytest.raises(InputError, match=words):
        with_pages(V4_POOLS, {pool: page_tokens}, {})


def test_contradictions_are_refused():
    with pytest.raises(InputError, match="follows the token pages, so it cannot have 7 pages"):
        PoolSpec(name="c4", ratio=4, pages=7)
    with pytest.raises(InputError, match="cannot be named 'token'"):
        PoolSpec(name="token", ratio=1)
