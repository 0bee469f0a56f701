"""When the four write policies write."""

import pytest

from simulator.basis.errors import InputError
from simulator.prefix.write_policy import find_write_policy


@pytest.mark.parametrize(
    ("name", "store", "first_hit", "evict_dirty", "exclusive"),
    [
        ("through", True, True, False, False),
        ("back", False, False, True, False),
        ("on-eviction", False, False, True, True),
        ("selective", False, True, False, False),
    ],
)
def test_moments(name, store, first_hit, evict_dirty, exclusive):
    policy = find_write_policy(name)
    assert policy.on_store() is store
    assert policy.on_hit(1, lower_copy=False) is first_hit
    assert policy.on_hit(1, lower_copy=True) is False
    assert policy.on_evict(lower_copy=False) is evict_dirty
    assert policy.on_evict(lower_copy=True) is False
    assert policy.exclusive is exclusive


def test_a_typo_is_a_sentence():
    with pytest.raises(InputError, match="did you mean 'through'"):
        find_write_policy("trough")
