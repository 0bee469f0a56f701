import pickle

import pytest

from simulator.basis.errors import InputError
from simulator.cache.block_pool import BlockPool, OutOfPagesError


def test_pages_are_handed_out_in_the_given_order_and_the_first_freed_comes_next():
    pool = BlockPool(4, order=[2, 0, 3, 1])
    assert pool.take(3) == [2, 0, 3]
    assert pool.drop([0, 3]) == [0, 3]
    assert pool.take(3) == [0, 3, 1]
    assert pool.free == 0


def test_a_shared_page_is_free_only_when_its_last_holder_drops_it():
    pool = BlockPool(2)
    (page,) = pool.take(1)
    pool.share([page])
    assert pool.is_shared(page)
    assert pool.references == [2, 0]
    assert pool.drop([page]) == []
    assert not pool.is_shared(page)
    assert pool.drop([page]) == [page]
    assert pool.free == 2


def test_copy_on_write_gives_a_page_of_its_own_to_who_shares_and_none_to_the_only_holder():
    pool = BlockPool(2)
    (page,) = pool.take(1)
    assert pool.writable(page) == page
    pool.share([page])
    own = pool.writable(page)
    assert own != page
    assert pool.references == [1, 1]


def test_more_pages_than_are_free_are_refused_and_nothing_changes():
    pool = BlockPool(3, name="c4 pages")
    pool.take(2)
    with pytest.raises(OutOfPagesError, match="5 more c4 pages are needed, only 1 of 3") as caught:
        pool.take(5)
    assert (caught.value.needed_pages, caught.value.free_pages) == (5, 1)
    assert pool.free == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.message, again.pool) == (caught.value.message, "c4 pages")


def test_sharing_or_dropping_a_free_page_is_a_bug():
    pool = BlockPool(1)
    with pytest.raises(AssertionError, match="page 0 of pages is free"):
        pool.share([0])
    with pytest.raises(AssertionError, match="free already"):
        pool.drop([0])


def test_bad_orders_are_refused():
    with pytest.raises(InputError, match="each of the 3 pages once"):
        BlockPool(3, order=[0, 1, 1])
    with pytest.raises(InputError, match="0 pages or more, but got -1"):
        BlockPool(-1)
