"""Addresses of rows: by hand, against the evaluator's own log, and by hiding everything else."""

import numpy as np
import pytest

from simulator.address.picks import PickRecord, picked
from simulator.address.row import BEYOND, INCOMPLETE, LATER, NOT_PICKED, RowAddressing
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.request_table import RequestTable
from tests.laws.models import config, tokens, weights

# (request row, past, new): a decode chunk over a page border, a prefill, one that completes C128.
BATCH = ((1, 254, 4), (0, 0, 130), (3, 126, 2))
WINDOW, TOP_K, LAYERS = 16, 6, 4  # kinds: window only, CSA, HCA, CSA
OWN = ({}, {"c4": 64, "c128": 384})


def prepared(batch=BATCH, own=None):
    """An evaluator that has run the past of every request, and the step's additions."""
    table = RequestTable(
        4, 512, page_tokens=128, page_order=range(15, -1, -1), pool_page_tokens=own
    )
    evaluator = Evaluator(config(), weights(), table)
    ids = {row: tokens(past + new, seed=row) for row, past, new in batch}
    for row, _, _ in batch:
        table.admit(row)
    before = [(row, ids[row][:past]) for row, past, _ in batch if past]
    if before:
        evaluator.step(before)
    return evaluator, [(row, ids[row][past:]) for row, past, _ in batch]


def addressed(evaluator, metadata, record):
    """(packed row, layer) -> its address."""
    return {
        (row, layer): RowAddressing(config(), evaluator.table, metadata, row).layer(
            layer, picked(record, layer)
        )
        for row in range(len(metadata.positions))
        for layer in range(LAYERS)
    }


def slots_of(address, pool, write):
    found = set()
    for access in address.accesses:
        if access.pool == pool and access.write == write:
            for run in access.runs:
                found |= set(range(run.slot, run.slot + run.count))
    return found


@pytest.mark.parametrize("own", OWN, ids=str)
def test_the_addresses_are_those_of_the_evaluators_own_log(own):
    evaluator, additions = prepared(own=own)
    log, record = [], PickRecord()
    metadata = evaluator.step(additions, choices=record, log=log).metadata
    addresses = addressed(evaluator, metadata, record)
    for name, pool in evaluator.pools.items():
        layer, kind = int(name[5:7]), pool.region.pool
        for write in (True, False):
            logged = {
                int(slot)
                for access in log
                if access.region == name and access.write == write
                for slot in access.slots
            }
            ours = set().union(
                *(slots_of(a, kind, write) for (_, at), a in addresses.items() if at == layer)
            )
            if kind == "c4" and not write:
                assert ours < logged  # the evaluator fetches all entries, then picks
            elif kind.endswith("_state"):
                assert ours <= logged  # it keeps and reads the whole tail, needed or not
            else:
                assert ours == logged, (name, write)


DECODES = (((2, 130, 1), (0, 255, 1)), ((0, 131, 1),), ((3, 300, 1), (1, 33, 1), (0, 47, 1)))


def outcome(evaluator, additions, written):
    """Logits of a step, and the bytes at the slots that it is said to write."""
    with np.errstate(invalid="ignore"):
        logits = evaluator.step(additions).logits
    return logits.tobytes() + b"".join(
        evaluator.pools[name].data[sorted(slots)].tobytes() for name, slots in written.items()
    )


@pytest.mark.parametrize("own", OWN, ids=str)
@pytest.mark.parametrize("batch", DECODES, ids=str)
def test_with_everything_else_hidden_a_decode_step_computes_the_same(batch, own):
    evaluator, additions = prepared(batch, own)
    before = {name: pool.data.copy() for name, pool in evaluator.pools.items()}
    record = PickRecord()
    metadata = evaluator.step(additions, choices=record).metadata
    addresses = addressed(evaluator, metadata, record)

    def again(hide):
        """The step once more, from the same state but for what is hidden (0xFF is NaN)."""
        for row, past, _ in batch:
            evaluator.table.shorten(row, past)
        for name, pool in evaluator.pools.items():
            pool.data[:] = before[name]
            pool.data[hide.get(name, [])] = 0xFF
        return outcome(evaluator, additions, sets[True])

    sets = {
        write: {
            name: set().union(
                *(
                    slots_of(address, pool.region.pool, write)
                    for (_, layer), address in addresses.items()
                    if layer == int(name[5:7])
                )
            )
            for name, pool in evaluator.pools.items()
        }
        for write in (False, True)
    }
    # What the step writes itself, it need not find.
    read = {name: sorted(slots - sets[True][name]) for name, slots in sets[False].items()}
    others = {name: np.setdiff1d(np.arange(len(before[name])), read[name]) for name in read}
    expected = again({})
    assert sum(len(slots) for slots in others.values()) > 1000
    assert again(others) == expected
    # And the reads count: with one more slot hidden, the step comes out different. One index key
    # without a score may just not be picked, so that there all are hidden.
    for name, slots in read.items():
        if slots:
            assert again({name: slots if name.endswith("/c4_index") else slots[:1]}) != expected, (
                name
            )


def test_the_last_row_of_a_chunk_by_hand():
    evaluator, additions = prepared()
    record = PickRecord()
    metadata = evaluator.step(additions, choices=record).metadata
    row = RowAddressing(config(), evaluator.table, metadata, 3)
    assert (row.request, row.request_row, row.position, row.context) == (0, 1, 257, 258)
    csa = row.layer(1, picked(record, 1))
    # Pages were handed out from 15 down: request row 1 got 15 and 14 for its past, row 3 then 13.
    assert evaluator.table.page_table(1).tolist() == [15, 14, 12]
    assert slots_of(csa, "window", True) == {16 + 257 % 16}
    # Window: positions 242 .. 257, of which 254 .. 257 are the step's own.
    assert csa.own_positions == (254, 4)
    assert slots_of(csa, "window", False) == {16 + p % 16 for p in range(242, 254)}
    # 258 tokens make 64 entries: all of pages 15 and 14, each 32 entries.
    assert slots_of(csa, "c4_index", False) == set(range(15 * 32, 16 * 32)) | set(
        range(14 * 32, 15 * 32)
    )
    assert slots_of(csa, "c4", True) == set()
    assert csa.pick.visible == 64
    assert len(csa.pick.ids) == TOP_K
    assert csa.pick.lowest_picked >= csa.pick.best_left
    assert {(u.pool, u.reason): u.count for u in csa.unseen} == {
        ("window", BEYOND): 242,
        ("c4_index", INCOMPLETE): 1,
        ("c4", INCOMPLETE): 1,
        ("c4", NOT_PICKED): 64 - TOP_K,
    }
    hca = row.layer(2, None)
    assert slots_of(hca, "c128", False) == {15, 14}
    assert [(u.pool, u.reason, u.ranges) for u in hca.unseen] == [
        ("window", BEYOND, ((0, 242),)),
        ("c128", INCOMPLETE, ((2, 1),)),
    ]


def test_a_row_that_completes_entries_writes_them_and_reads_the_compressors_tail():
    evaluator, additions = prepared()
    record = PickRecord()
    metadata = evaluator.step(additions, choices=record).metadata
    row = RowAddressing(config(), evaluator.table, metadata, 1)  # position 255 of row 1
    csa, hca = row.layer(1, picked(record, 1)), row.layer(2, None)
    assert slots_of(csa, "c4", True) == slots_of(csa, "c4_index", True) == {14 * 32 + 31}
    assert slots_of(hca, "c128", True) == {14}
    # Entry 63 pools positions 248 .. 255; 254 and 255 are the step's own.
    assert slots_of(csa, "c4_state", False) == {8 + p % 8 for p in range(248, 254)}
    # Entry 1 of C128 pools 128 .. 255.
    assert slots_of(hca, "c128_state", False) == {128 + p % 128 for p in range(128, 254)}
    assert [u.ranges for u in hca.unseen if u.reason == LATER] == [((256, 2),)]


def test_a_row_early_in_a_long_chunk_leaves_nothing_in_the_ring():
    evaluator, additions = prepared()
    metadata = evaluator.step(additions).metadata
    early = RowAddressing(config(), evaluator.table, metadata, 4 + 100).layer(0, None)
    assert not slots_of(early, "window", True)
    assert "29 rows of the same chunk follow, and the ring keeps 16" in early.notes[0]
    late = RowAddressing(config(), evaluator.table, metadata, 4 + 114).layer(0, None)
    assert slots_of(late, "window", True) == {114 % 16}
    assert not late.notes


@pytest.mark.parametrize("position", [0, 2, 3, 14, 15, 16, 126, 127, 128, 129])
def test_counts_of_visible_keys(position):
    """min(t+1, window), min((t+1)//4, k), (t+1)//128, as the model's code has them."""
    evaluator, additions = prepared()
    record = PickRecord()
    metadata = evaluator.step(additions, choices=record).metadata
    row = RowAddressing(config(), evaluator.table, metadata, 4 + position)
    csa, hca = row.layer(1, picked(record, 1)), row.layer(2, None)
    assert csa.own_positions[1] == min(position + 1, WINDOW)
    assert len(slots_of(csa, "c4", False)) == min((position + 1) // 4, TOP_K)
    assert len(slots_of(csa, "c4_index", False)) == (position + 1) // 4
    assert len(slots_of(hca, "c128", False)) == (position + 1) // 128
