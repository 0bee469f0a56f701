"""Laws of the allocator under the evaluator: forks, pools with pages of their own, drafts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.request_table import RequestTable
from tests.laws.models import config, run_alone, tokens, weights

OWN_PAGES = (
    {},
    {"c4": 64, "c4_index": 192, "c128": 384},
    {"c4": 4, "c128": 128},
    {"c4_index": 1024},
)


def runner(rows=3, max_tokens=512, own=None, draft_tokens=0, **options):
    table = RequestTable(
        rows, max_tokens, page_tokens=128, pool_page_tokens=own, debug=True, **options
    )
    return Evaluator(config(), weights(), table, all_logits=True, draft_tokens=draft_tokens)


def feed(evaluator, row, ids, chunks):
    logits, start = [], 0
    for count in chunks:
        logits.append(evaluator.step([(row, ids[start : start + count])]).logits)
        start += count
    return np.concatenate(logits)


@pytest.mark.parametrize("own", OWN_PAGES[1:], ids=str)
def test_pools_with_pages_of_their_own_change_nothing_to_the_bit(own):
    ids, chunks = tokens(300), (130, 1, 169)
    evaluator = runner(own=own)
    row = evaluator.table.admit()
    assert np.array_equal(feed(evaluator, row, ids, chunks), run_alone(ids, chunks))


@pytest.mark.parametrize("own", OWN_PAGES, ids=str)
@pytest.mark.parametrize("stem", [130, 255, 256, 263])
def test_forks_go_on_independently_and_equal_the_run_without_a_fork(own, stem):
    prompt, left, right = tokens(stem), tokens(40, seed=1), tokens(40, seed=2)
    evaluator = runner(own=own)
    row = evaluator.table.admit()
    evaluator.step([(row, prompt)])
    child = evaluator.table.fork(row)
    got = {row: [], child: []}
    for start, stop in ((0, 1), (1, 2), (2, 9), (9, 40)):
        step = evaluator.step([(child, right[start:stop]), (row, left[start:stop])])
        got[child].append(step.logits[: stop - start])
        got[row].append(step.logits[stop - start :])
    for request, branch in ((row, left), (child, right)):
        alone = run_alone(np.concatenate([prompt, branch]), (stem, 1, 1, 7, 31))
        assert np.abs(np.concatenate(got[request]) - alone[stem:]).max() < 1e-12


@settings(max_examples=6)
@given(
    own=st.sampled_from(OWN_PAGES),
    stems=st.lists(st.integers(1, 140), min_size=2, max_size=3),
    release=st.booleans(),
)
def test_a_tree_of_forks_equals_every_branch_run_alone(own, stems, release):
    evaluator = runner(rows=4, own=own)
    row = evaluator.table.admit()
    branches = {row: np.empty(0, dtype=int)}
    for seed, stem in enumerate(stems):
        for number, request in enumerate(sorted(branches)):
            more = tokens(stem, seed=10 * seed + number)
            evaluator.step([(request, more)])
            branches[request] = np.concatenate([branches[request], more])
        newest = max(branches)
        child = evaluator.table.fork(newest)
        branches[child] = branches[newest]
        if release and len(branches) > 2:
            oldest = min(branches)
            evaluator.table.release(oldest)
            del branches[oldest]
    for seed, (request, ids) in enumerate(branches.items()):
        last = tokens(9, seed=seed + 99)
        alone = run_alone(np.concatenate([ids, last]), (len(ids), 9), max_tokens=640)
        logits = evaluator.step([(request, last)]).logits
        assert np.abs(logits - alone[len(ids) :]).max() < 1e-12
        evaluator.table.release(request)
    allocator = evaluator.table.allocator
    assert all(t.blocks.free == t.blocks.pages for t in allocator.tables.values())
    assert all((pool.data == 0xFF).all() for pool in evaluator.pools.values())


@pytest.mark.filterwarnings("ignore:invalid value")  # the NaN that this test is about
def test_without_the_copy_on_write_the_branches_would_disturb_each_other():
    prompt, left, right = tokens(130), tokens(130, seed=1), tokens(130, seed=2)
    logits = []
    for copies in (True, False):
        evaluator = runner()
        row = evaluator.table.admit()
        evaluator.step([(row, prompt)])
        if not copies:
            evaluator.table.allocator._storages.clear()
        child = evaluator.table.fork(row)
        evaluator.step([(child, right)])
        evaluator.step([(row, left)])
        logits.append(evaluator.step([(child, left[:1])]).logits)
    assert np.isfinite(logits[0]).all()
    assert not np.isfinite(logits[1]).all()


def test_a_preempted_request_that_runs_again_equals_the_run_without_preemption():
    ids = tokens(290)
    evaluator = runner(own=OWN_PAGES[1])
    row = evaluator.table.admit()
    evaluator.step([(row, ids[:200])])
    assert evaluator.table.preempt(row) == 200
    row = evaluator.table.admit(2)
    logits = feed(evaluator, row, ids, (200, 90))
    assert np.abs(logits - run_alone(ids, (200, 90))).max() < 1e-12


@pytest.mark.parametrize("stem", [21, 126, 255])
@pytest.mark.parametrize("drafts", [1, 3, 5])
def test_refused_draft_tokens_leave_no_trace_where_rings_are_longer_by_them(stem, drafts):
    ids, refused = tokens(stem + 30), tokens(drafts, seed=7)
    expected = run_alone(ids, (stem, 1, 29))[stem:]

    def speculate(draft_tokens):
        evaluator = runner(draft_tokens=draft_tokens, own=OWN_PAGES[1])
        row = evaluator.table.admit()
        evaluator.step([(row, ids[:stem])])
        step = evaluator.step([(row, np.concatenate([ids[stem : stem + 1], refused]))])
        evaluator.table.shorten(row, stem + 1)
        rest = evaluator.step([(row, ids[stem + 1 :])]).logits
        return np.concatenate([step.logits[:1], rest])

    assert np.abs(speculate(drafts) - expected).max() < 1e-12
    # A ring of 16 serves 15 earlier rows and one to spare: it can lose one, no more.
    if drafts > 1:
        assert np.abs(speculate(0) - expected).max() > 1e-6


def test_a_step_that_one_request_cannot_take_changes_nothing_for_the_others():
    evaluator = runner(rows=2, pages=3)
    first, second = evaluator.table.admit(), evaluator.table.admit()
    evaluator.step([(first, tokens(200)), (second, tokens(100))])
    with pytest.raises(InputError, match="row 1 needs 1 more pages of 128 tokens, only 0 of 3"):
        evaluator.step([(first, tokens(5)), (second, tokens(100))])
    assert evaluator.table.lengths.tolist() == [200, 100]
    logits = evaluator.step([(second, tokens(5, seed=4))]).logits
    alone = run_alone(np.concatenate([tokens(100), tokens(5, seed=4)]), (100, 5))
    assert np.abs(logits - alone[100:]).max() < 1e-12
