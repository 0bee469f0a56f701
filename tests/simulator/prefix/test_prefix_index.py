"""The radix tree against a dictionary of blocks, and its own invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.prefix.prefix_index import PrefixIndex
from tests.simulator.prefix.made_traces import prompts
from workloads.traffic.trace import SESSION_STRIDE, as_runs


class BlockTwin:
    """Every known prefix as a tuple of ids."""

    def __init__(self):
        self.known = set()

    def match(self, ids):
        return max(n for n in range(len(ids) + 1) if n == 0 or tuple(ids[:n]) in self.known)

    def insert(self, ids):
        self.known |= {tuple(ids[:n]) for n in range(1, len(ids) + 1)}


def runs_of(ids):
    return as_runs(ids).tolist()


def check(index):
    segments = list(index)
    assert len(segments) == index.segments
    assert sum(s.count for s in segments) == index.blocks
    for segment in segments:
        assert segment.count > 0
        assert segment.parent.children[segment.first] is segment
        assert segment.start == segment.parent.end
        for token in segment.marks or ():
            assert segment.start * index.block_tokens < token <= segment.end * index.block_tokens


@given(prompts())
def test_match_is_that_of_a_dictionary_of_blocks(asked):
    index, twin = PrefixIndex(), BlockTwin()
    for ids in asked:
        found = index.match(runs_of(ids))
        assert found.blocks == twin.match(ids)
        path = index.insert(runs_of(ids), found=found)
        twin.insert(ids)
        assert [i for s in path for i in range(s.first, s.first + s.count)] == ids
        assert index.match(runs_of(ids)).blocks == len(ids)
        check(index)
    assert index.blocks == len(twin.known)


@given(prompts(), st.data())
def test_runs_may_be_cut_anywhere(asked, data):
    """Runs that go on where the one before ended mean the same ids."""
    whole, cut = PrefixIndex(), PrefixIndex()
    for ids in asked:
        pieces = []
        for first, count in runs_of(ids):
            at = data.draw(st.integers(0, count))
            pieces += [(first, at), (first + at, count - at)]
        pieces = [piece for piece in pieces if piece[1]]
        assert cut.match(pieces).blocks == whole.match(runs_of(ids)).blocks
        whole.insert(runs_of(ids))
        cut.insert(pieces)
        assert cut.blocks == whole.blocks


@given(prompts(), st.integers(0, 12))
def test_the_head_of_a_prompt_can_be_inserted(asked, blocks):
    index, twin = PrefixIndex(), BlockTwin()
    for ids in asked:
        path = index.insert(runs_of(ids), blocks=blocks)
        twin.insert(ids[:blocks])
        assert sum(s.count for s in path) == min(blocks, len(ids))
        check(index)
    assert index.blocks == len(twin.known)


@given(prompts(), st.integers(1, 7))
def test_marks_stay_at_their_tokens_through_splits(asked, granule):
    block_tokens = 3
    index, ends = PrefixIndex(block_tokens), {}
    for ids in asked:
        found = index.match(runs_of(ids))
        run = found.blocks * block_tokens
        expected = max(
            (
                end
                for end, prefix in ends.items()
                for prefixes in [prefix]
                for known in prefixes
                if end <= run and tuple(ids[: len(known)]) == known
            ),
            default=0,
        )
        assert index.last_mark(found.path, run) == expected
        path = index.insert(runs_of(ids))
        end = len(ids) * block_tokens // granule * granule
        index.add_mark(path, end)
        if end:
            ends.setdefault(end, set()).add(tuple(ids[: -(-end // block_tokens)]))
        check(index)


def test_a_million_tokens_are_one_segment():
    index = PrefixIndex()
    index.insert([(0, 15_625)])
    assert index.segments == 1
    index.insert([(0, 15_625), (90_000, 10)])
    index.insert([(0, 7_000), (95_000, 10)])
    assert index.segments == 4
    assert index.blocks == 15_645


def test_ids_private_to_sessions_do_not_meet():
    index = PrefixIndex()
    index.insert([(0, 100)])
    assert index.match([(SESSION_STRIDE, 100)]).blocks == 0
    index.insert([(SESSION_STRIDE, 100)])
    assert index.blocks == 200


def test_an_end_is_pruned_up_to_what_is_held():
    index = PrefixIndex()
    held = index.insert([(0, 4)])[0]
    held.holders = 1
    path = index.insert([(0, 4), (10, 2), (20, 3)])
    index.prune(path[-1])
    assert index.segments == 1
    assert index.blocks == 4
    assert index.match([(0, 4), (10, 2)]).blocks == 4


def test_misuse_is_refused():
    index = PrefixIndex()
    path = index.insert([(0, 4)])
    with pytest.raises(ValueError, match="cannot split 4"):
        index.split(path[0], 4)
    with pytest.raises(ValueError, match="token 5 is not on a path"):
        index.add_mark(path, 5)


def test_an_empty_prompt_matches_nothing():
    index = PrefixIndex()
    assert index.match([]).blocks == 0
    assert index.insert([]) == []
    assert index.match(np.empty((0, 2), dtype=np.int64).tolist()).path == ()


@given(prompts(), st.data())
def test_tidying_undoes_splits_and_keeps_branches(asked, data):
    """Split anywhere; afterwards only branches and breaks between runs of ids are left."""
    index = PrefixIndex(joins=True)
    marks = {}
    for ids in asked:
        path = index.insert(runs_of(ids))
        path[-1].holders += 1
        for token in data.draw(st.lists(st.integers(1, len(ids)), max_size=3)):
            index.add_mark(path, token)
            marks[tuple(ids[:token])] = True
        for segment in [s for s in index if s.count > 1]:
            index.split(segment, data.draw(st.integers(1, segment.count - 1)))
        for segment in index:
            index.note(segment)
        index.tidy()
        check(index)
    for segment in index:
        only = list(segment.children.values())
        assert len(only) != 1 or only[0].first != segment.first + segment.count
    for ids in asked:
        found = index.match(runs_of(ids))
        assert found.blocks == len(ids)
        expected = [n for n in range(1, len(ids) + 1) if tuple(ids[:n]) in marks]
        assert index.last_mark(found.path, len(ids)) == max(expected, default=0)


def test_what_is_pinned_is_not_joined():
    index = PrefixIndex(joins=True)
    (tail,) = index.insert([(0, 8)])
    tail.holders += 1
    head = index.split(tail, 3)
    head.pins += 1
    index.tidy()
    assert index.segments == 2
    head.pins -= 1
    index.note(head)
    index.tidy()
    assert (index.segments, tail.first, tail.count, tail.start) == (1, 0, 8, 0)
    assert head.parent is None
