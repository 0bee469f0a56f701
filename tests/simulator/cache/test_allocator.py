"""Admission, growth, forks and returns, by hand; what each broken invariant is called."""

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.cache.allocator import Allocator
from simulator.cache.block_pool import OutOfPagesError
from simulator.cache.page_tables import PageCopy
from simulator.cache.pool_spec import V4_POOLS, PoolSpec, with_pages


def allocator(rows=3, max_tokens=1024, own=None, own_pages=None, **options):
    pools = with_pages(V4_POOLS, own or {}, own_pages or {})
    return Allocator(rows, max_tokens, pools=pools, debug=True, **options)


def free(a):
    return {name: tables.blocks.free for name, tables in a.tables.items()}


def test_pools_that_follow_the_token_pages_have_their_slots_by_division():
    a = allocator(rows=1, page_tokens=256, page_order=[2, 0, 3, 1])
    row = a.admit(tokens=600)
    assert a.pages_of(row).tolist() == a.pages_of(row, "c128").tolist() == [2, 0, 3]
    # Token 256 is the first of page 0; entry 64 of C4 stands for tokens 256 .. 259.
    assert a.entry_slots("token", row, np.array([0, 255, 256])).tolist() == [512, 767, 0]
    assert a.entry_slots("c4", row, np.array([0, 63, 64, 149])).tolist() == [128, 191, 0, 213]
    assert a.entry_slots("c128", row, np.array([0, 1, 2, 3])).tolist() == [4, 5, 0, 1]
    assert (a.pool_slots("c4"), a.pool_slots("c128"), a.page_entries("c128")) == (256, 8, 2)


def test_pools_with_pages_of_their_own_take_them_with_the_first_token():
    a = allocator(rows=1, page_tokens=256, own={"c128": 512, "c4": 64})
    row = a.admit()
    taken = a.extend(row, 1)
    assert taken.pages == {"token": 1, "c4": 1, "c128": 1}
    taken = a.extend(row, 599)
    # 600 tokens: 3 token pages, 10 pages of 64, 2 of 512.
    assert taken.pages == {"token": 2, "c4": 9, "c128": 1}
    assert a.page_entries("c4") == 16
    assert a.entry_slots("c4", row, np.array([15, 16])).tolist() == [15, 16]
    assert free(a) == {"token": 1, "c4": 6, "c128": 0}


def test_a_fork_shares_pages_and_the_first_to_write_into_the_last_one_copies_it():
    a = allocator(page_tokens=256, own={"c4": 64})
    row = a.admit(tokens=300)
    child = a.fork(row)
    assert (child, a.lengths[child]) == (1, 300)
    assert free(a) == {"token": 10, "c4": 43}
    # Tokens 300 .. 302 complete no entry: C4 (75 entries, 11 in its fifth page) is not written.
    first = a.extend(child, 3)
    assert first.copies == (PageCopy("c4_index", 1, 2, 11), PageCopy("c128", 1, 2, 0))
    second = a.extend(child, 1)
    assert second.copies == (PageCopy("c4", 4, 5, 11),)
    # The parent is now the only holder of its last pages: it writes in place.
    assert a.extend(row, 4).copies == ()
    assert a.pages_of(row).tolist() == [0, 1]
    assert a.pages_of(child).tolist() == [0, 2]
    assert a.pages_of(row, "c4").tolist()[:4] == a.pages_of(child, "c4").tolist()[:4]


def test_of_two_forks_extended_in_one_step_only_one_needs_a_page():
    a = allocator(page_tokens=256, pages=3)
    row = a.admit(tokens=300)
    child = a.fork(row)
    taken = a.extend_all([(row, 1), (child, 1)])
    assert taken.pages == {"token": 1}
    assert a.free_pages() == 0


def test_a_fork_at_a_page_boundary_copies_nothing():
    a = allocator(page_tokens=256)
    child = a.fork(a.admit(tokens=512))
    assert a.extend(child, 5).copies == ()


def test_whoever_ends_first_leaves_the_other_its_pages():
    a = allocator(page_tokens=256, own={"c128": 512})
    row = a.admit(tokens=700)
    child = a.fork(row)
    pages = a.pages_of(child).tolist()
    a.release(row)
    assert a.pages_of(child).tolist() == pages
    assert free(a) == {"token": 9, "c128": 4}
    a.release(child)
    assert free(a) == {"token": 12, "c128": 6}
    assert a.slots.free == 3


def test_preemption_returns_everything_and_the_request_can_come_back():
    a = allocator(rows=2, page_tokens=256, own={"c4": 128})
    before = free(a)
    row = a.admit(tokens=777)
    assert a.preempt(row) == 777
    assert free(a) == before
    assert a.admit(tokens=777) == row
    assert a.lengths[row] == 777


def test_an_extension_that_one_pool_cannot_serve_changes_nothing():
    a = allocator(rows=2, page_tokens=256, own={"c128": 512}, own_pages={"c128": 2})
    first, second = a.admit(tokens=100), a.admit(tokens=100)
    before = free(a), a.lengths.tolist(), a.pages_of(first).tolist()
    message = "2 rows need 2 more c128 pages of 512 tokens, only 0 of 2 are free; release a request"
    with pytest.raises(OutOfPagesError, match=message) as caught:
        a.extend_all([(first, 500), (second, 500)])
    assert (caught.value.pool, caught.value.needed_pages) == ("c128", 2)
    assert (free(a), a.lengths.tolist(), a.pages_of(first).tolist()) == before
    assert a.shortage([(first, 500), (second, 500)]) == {"c128": 2}
    assert a.shortage([(first, 300)]) == {}


def test_an_admission_that_cannot_be_served_takes_no_row():
    a = allocator(rows=2, page_tokens=256, pages=1)
    a.admit(tokens=256)
    with pytest.raises(OutOfPagesError, match="row 1 needs 1 more pages of 256 tokens, only 0"):
        a.admit(tokens=1)
    assert a.slots.live == {0}


def test_a_copy_on_write_without_a_free_page_is_refused():
    a = allocator(rows=2, page_tokens=256, pages=1)
    child = a.fork(a.admit(tokens=100))
    with pytest.raises(OutOfPagesError, match="needs 1 more pages of 256 tokens, only 0 of 1"):
        a.extend(child, 1)
    assert a.lengths.tolist() == [100, 100]


def test_shortening_returns_pages_but_not_what_a_fork_still_reads():
    a = allocator(page_tokens=256, own={"c4": 64})
    row = a.admit(tokens=300)
    a.extend(row, 300)
    a.shorten(row, 310)
    assert (len(a.pages_of(row)), len(a.pages_of(row, "c4"))) == (2, 5)
    child = a.fork(row)
    with pytest.raises(InputError, match="from 310 to 301 tokens: its token page 1 is shared"):
        a.shorten(child, 301)
    a.shorten(child, 256)
    assert len(a.pages_of(child)) == 1
    a.release(row)
    assert free(a) == {"token": 11, "c4": 44}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: a.extend(0, 900), r"row 0 would hold 1100 tokens, the map has 1024 \(76 short"),
        (lambda a: a.extend(0, -1), "row 0 cannot grow by -1 tokens"),
        (lambda a: a.extend(2, 1), "request row 2 is not live"),
        (lambda a: a.fork(2), "request row 2 is not live"),
        (lambda a: a.fork(0, 1), "request row 1 is not free"),
        (lambda a: a.release(2), "request row 2 is not live"),
        (lambda a: a.shorten(0, 201), "holds 200 tokens, it cannot be cut to 201"),
        (lambda a: a.extend_all([(0, 1), (0, 1)]), r"may appear once in a step, but rows \[0, 0\]"),
        (lambda a: [a.admit(), a.admit()], "all 3 request rows are taken"),
    ],
)
def test_bad_calls_are_refused_and_change_nothing(call, words):
    a = allocator(page_tokens=256)
    a.admit(tokens=200)
    a.admit(tokens=200)
    before = free(a), a.lengths.tolist()
    with pytest.raises(InputError, match=words):
        call(a)
    assert (free(a), a.lengths.tolist()) == before
    a.check_invariants()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_tokens": 0}, "allowed 1 token or more, but got 0"),
        ({"page_tokens": 0}, "a page stands for 1 token or more, but got 0"),
        ({"page_tokens": 64}, "a page of pool c128 stands for 64 tokens, but one entry for 128"),
        ({"pools": (PoolSpec(name="a", ratio=4),) * 2}, "a name of its own, but got a, a"),
        ({"rows": 0}, "1 request row or more"),
    ],
)
def test_bad_sizes_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        Allocator(**({"rows": 1, "max_tokens": 512} | options))


BROKEN = {
    "a lost page": (
        lambda a: a.tables["c4"].blocks._free.pop(),
        r"free c4 pages are .* are in no table",
    ),
    "a page free and held": (
        lambda a: a.tables["token"].blocks._free.append(0),
        "free token pages are",
    ),
    "a wrong count": (
        lambda a: a.tables["token"].blocks.share([0]),
        "token page 0 counts 3 references, but 2 tables list it",
    ),
    "a page of another's request": (
        lambda a: a.tables["c4"].rows[2].__setitem__(0, a.tables["c4"].rows[0][4]),
        "c4 page 4 has two owners",
    ),
    "a page twice": (
        lambda a: a.tables["token"].rows[2].append(a.tables["token"].rows[2][0]),
        "row 2 lists a token page twice",
    ),
    "tables that do not cover": (
        lambda a: a.tables["c4"].rows[2].pop(),
        "row 2 has 1 c4 pages for 100 tokens, but they take 2",
    ),
    "a write into a shared page": (
        lambda a: a.lengths.__setitem__(0, 304),
        "two owners: row 0 at place 1 with 48 entries, row 1 at place 1 with 44",
    ),
    "state of a finished request": (
        lambda a: a.slots.release(2),
        "row 2 is free, but holds 100 tokens",
    ),
    "a lost row": (
        lambda a: a.slots._live.remove(2),
        r"rows \[2\] are neither live nor free",
    ),
    "more rows than there are": (
        lambda a: a.slots._live.add(9),
        "there are only 3",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_every_broken_invariant_is_named(case):
    breaking, words = BROKEN[case]
    a = allocator(page_tokens=256, own={"c4": 64})
    a.fork(a.admit(tokens=300))
    a.admit(tokens=100)
    a.check_invariants()
    breaking(a)
    with pytest.raises(AssertionError, match=words):
        a.check_invariants()


def test_debug_mode_checks_after_every_operation():
    a = allocator()
    a.admit(tokens=300)
    a.tables["token"].blocks.share([0])
    with pytest.raises(AssertionError, match="counts 2 references"):
        a.admit()
    quiet = Allocator(3, 1024)
    quiet.admit(tokens=300)
    quiet.tables["token"].blocks.share([0])
    quiet.admit()
