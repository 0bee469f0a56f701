"""Windows in pages, written before they are read: equal to rings, and what planted faults show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.cache.pool_spec import page_multiple, pools_of
from simulator.evaluate.dense_reference import forward
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.metadata import MetadataError, build_metadata, check_metadata
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.verify import LOGITS_TOLERANCE, shipped_golden_file
from simulator.evaluate.window_pages import WindowPages
from workloads.deepseek_v4.config import model_from_mapping
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.graph import Graph
from workloads.ops import SparseAttention, WriteWindow

GOLDEN = GoldenFile.load(shipped_golden_file())
CONFIG = model_from_mapping(GOLDEN.config)
CHUNKS = (130, 1, 1, 60, 1, 106)


def evaluator(page: int | None, rows: int = 2, **options: Any) -> Evaluator:
    pools = pools_of(model_state(CONFIG, Precision()))
    table = RequestTable(rows, 400, page_tokens=page_multiple(pools), pools=pools)
    return Evaluator(CONFIG, GOLDEN.weights, table, all_logits=True, window_page_tokens=page,
                     **options)  # fmt: skip


def run(own: Evaluator, row: int | None = None, other: bool = False) -> np.ndarray:
    """Logits of the golden prompt in chunks; `other`: beside a second request, in every step."""
    row = own.table.admit() if row is None else row
    second = own.table.admit() if other else None
    found, start = [], 0
    for count in CHUNKS:
        ids = GOLDEN.input_ids[start : start + count]
        step = [(row, ids)]
        if second is not None:
            step.append((second, GOLDEN.input_ids[::-1][start : start + count]))
        found.append(own.step(step).logits[:count])
        start += count
    return np.concatenate(found)


DENSE = forward(GOLDEN.config, GOLDEN.weights, GOLDEN.input_ids).logits


@pytest.mark.parametrize("page", [8, 64, 128, 100])
@pytest.mark.parametrize("quantised", [False, True])
def test_pages_and_rings_give_the_same_values(page: int, quantised: bool) -> None:
    count = 2 * -(-512 // page)
    order = np.random.default_rng(page).permutation(count).tolist() if page != 128 else None
    paged = run(evaluator(page, quantised=quantised, window_page_order=order), other=True)
    ring = run(evaluator(None, quantised=quantised), other=True)
    assert np.abs(paged - ring).max() < 1e-12
    if not quantised:
        assert np.abs(paged - DENSE).max() < LOGITS_TOLERANCE


def test_pages_are_returned_behind_the_window_and_used_again() -> None:
    own = evaluator(8, rows=1)
    run(own)
    pages = own.window_pages
    assert pages is not None
    (table,) = pages.tables.values()
    # The first query of the last chunk stands at 193 and sees from 194 - window on.
    gone = (194 - CONFIG.sliding_window) // 8
    assert table[:gone] == [-1] * gone
    assert all(page >= 0 for page in table[gone:])
    pages.release(0)
    assert sorted(pages.free) == list(range(pages.pages))


def planted(change: Callable[[Graph], Graph]) -> float:
    """Largest difference of logits from the dense form with a changed graph; NaN counts."""
    own = evaluator(8)
    honest = own.graph
    own.graph = lambda step: change(honest(step))  # type: ignore[method-assign]
    return float(np.abs(run(own) - DENSE).max())


def caught(difference: float) -> bool:
    return not difference < LOGITS_TOLERANCE


def test_attending_before_the_write_is_caught() -> None:
    def swapped(graph: Graph) -> Graph:
        nodes = list(graph.nodes)
        for node in graph.nodes:
            if isinstance(node.op, WriteWindow):
                core = next(n for n in nodes if n.path == node.path.replace("window_write", "core"))
                nodes.remove(node)
                nodes.insert(nodes.index(core) + 1, node)
        return replace(graph, nodes=tuple(nodes))

    assert not caught(planted(lambda graph: graph))
    assert np.isnan(planted(swapped))


def with_op(graph: Graph, change: Callable[[SparseAttention], SparseAttention]) -> Graph:
    nodes = tuple(
        replace(n, op=change(n.op)) if isinstance(n.op, SparseAttention) else n for n in graph.nodes
    )
    return replace(graph, nodes=nodes)


class TooSoon(SparseAttention):
    """Sees an entry one token before it is complete."""

    def _keys(self, raw: Any, raw_start: int, entries: Any, positions: Any, picks: Any) -> Any:
        if self.top_k or entries is None:
            return super()._keys(raw, raw_start, entries, positions, picks)
        keys, mask = super()._keys(raw, raw_start, entries, positions, picks)
        seen = np.arange(len(entries)) < ((positions + 2) // self.ratio)[:, None]
        mask[:, self.window :] = seen
        return keys, mask


def test_an_entry_visible_one_token_too_soon_is_caught() -> None:
    def early(op: SparseAttention) -> SparseAttention:
        return TooSoon(op.window, op.ratio, op.top_k, op.block, op.pooled)

    assert caught(planted(lambda graph: with_op(graph, early)))


def test_a_page_freed_one_block_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = WindowPages.first_page
    monkeypatch.setattr(WindowPages, "first_page", lambda self, past: honest(self, past) + 1)
    with pytest.raises(IndexError, match="no window page"):
        run(evaluator(8))


def test_a_page_of_another_request_is_caught() -> None:
    own = evaluator(8)
    rows = [own.table.admit(), own.table.admit()]
    own.step([(rows[0], GOLDEN.input_ids[:40]), (rows[1], GOLDEN.input_ids[:40][::-1])])
    assert own.window_pages is not None
    tables = own.window_pages.tables
    tables[rows[0]][4] = tables[rows[1]][4]
    with pytest.raises(AssertionError, match="held twice"):
        own.step([(rows[0], GOLDEN.input_ids[40:41])])
    # Swapped, so that no page is held twice: the values show it.
    own = evaluator(8)
    rows = [own.table.admit(), own.table.admit()]
    own.step([(rows[0], GOLDEN.input_ids[:40]), (rows[1], GOLDEN.input_ids[:40][::-1])])
    tables = own.window_pages.tables  # type: ignore[union-attr]
    tables[rows[0]][4], tables[rows[1]][4] = tables[rows[1]][4], tables[rows[0]][4]
    logits = own.step([(rows[0], GOLDEN.input_ids[40:41])]).logits
    assert caught(float(np.abs(logits[0] - DENSE[40]).max()))


def test_stale_metadata_are_caught() -> None:
    own = evaluator(8)
    row = own.table.admit()
    own.step([(row, GOLDEN.input_ids[:10])])
    found = build_metadata(own.table, [(row, GOLDEN.input_ids[10:13])])
    check_metadata(own.table, found)
    batch = found.batch
    faults = {
        "lengths": replace(found, batch=replace(batch, past=batch.past - 1)),
        "positions": replace(found, batch=replace(batch, positions=batch.positions + 1)),
        "boundaries": replace(found, batch=replace(batch, boundaries=np.array([1, 3]))),
        "slots": replace(found, token_slots=found.token_slots + 1),
        "page table": replace(found, page_tables=found.page_tables + 1),
    }
    for name, fault in faults.items():
        with pytest.raises(MetadataError, match=name):
            check_metadata(own.table, fault)


@pytest.mark.parametrize("page", [None, 8])
def test_refused_tokens_are_taken_back(page: int | None) -> None:
    own = evaluator(page, draft_tokens=3)
    row, found, start = own.table.admit(), [], 0
    for count in (130, *[1] * 40, 60):
        ids = GOLDEN.input_ids[start : start + count]
        # A decode step verifies three drafts, which are refused: nothing of them is left.
        drafts = [1, 2, 3] if count == 1 else []
        found.append(own.step([(row, np.array([*ids, *drafts]))]).logits[:count])
        start += count
        own.take_back(row, start)
        assert int(own.table.lengths[row]) == start
    assert np.abs(np.concatenate(found) - DENSE[:start]).max() < LOGITS_TOLERANCE
