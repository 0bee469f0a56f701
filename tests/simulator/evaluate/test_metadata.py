"""The packed metadata, on the worked example of serving two requests."""

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.evaluate.metadata import build_metadata
from simulator.evaluate.request_table import RequestTable
from tests.laws.models import evaluator, tokens


def serve_two_requests():
    """R1 in row 5 adds 6 tokens; R2 in row 9 has 3 cached and adds 3; then one token each."""
    runner = evaluator(rows=12, max_tokens=256)
    runner.table.admit(5)
    runner.table.admit(9)
    first, second = tokens(7, seed=1), tokens(7, seed=2)
    runner.step([(9, second[:3])])
    prefill = runner.step([(5, first[:6]), (9, second[3:6])])
    log = []
    decode = runner.step([(5, first[6:]), (9, second[6:])], log=log)
    return runner, prefill.metadata, decode.metadata, log


def test_prefill_metadata_of_two_requests():
    _, prefill, _, _ = serve_two_requests()
    assert prefill.request_rows.tolist() == [5, 9]
    assert prefill.query_ends.tolist() == [6, 9]
    assert prefill.boundaries.tolist() == [0, 6, 9]
    assert prefill.lengths.tolist() == [6, 6]
    assert prefill.positions.tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5]


def test_decode_metadata_of_two_requests():
    runner, _, decode, _ = serve_two_requests()
    assert decode.positions.tolist() == [6, 6]
    assert decode.lengths.tolist() == [7, 7]
    assert decode.boundaries.tolist() == [0, 1, 2]
    assert decode.token_slots.tolist() == [
        runner.table.request_to_token[5, 6],
        runner.table.request_to_token[9, 6],
    ]


def test_each_packed_row_reads_only_slots_that_its_own_row_of_the_map_names():
    runner, _, _, log = serve_two_requests()
    reads = [access for access in log if not access.write]
    assert {access.row for access in reads} == {5, 9}
    for access in reads:
        pool = runner.pools[access.region]
        growth, table = pool.region.growth.tokens, runner.table.request_to_token[access.row]
        if pool.region.pool in ("c4", "c128", "c4_index"):
            named = {int(slot) // growth for slot in table[table >= 0]}
        else:
            named = set(range(access.row * growth, (access.row + 1) * growth))
        assert set(access.slots.tolist()) <= named
    c4 = [access for access in reads if access.region.endswith("/c4") and access.row == 5]
    # Seven tokens make one complete entry, the one of the first four.
    assert all(access.slots.tolist() == [runner.table.request_to_token[5, 0] // 4] for access in c4)


def test_only_layers_with_an_indexer_have_ids():
    runner, _, decode, _ = serve_two_requests()
    paths = {node.path for node in runner.graph(decode.batch.step).nodes}
    assert "layer01/attn/indexer/top_k" in paths
    assert not any(path.startswith("layer02/") and "top_k" in path for path in paths)
    cores = {
        node.path: len(node.inputs)
        for node in runner.graph(decode.batch.step).nodes
        if node.path.endswith("attn/core")
    }
    assert cores == {
        "layer00/attn/core": 2,
        "layer01/attn/core": 3,
        "layer02/attn/core": 2,
        "layer03/attn/core": 3,
    }


def test_tables_of_a_request_that_spans_pages():
    table = RequestTable(2, 1024, page_tokens=256, page_order=[3, 1, 0, 2, 4, 5, 6, 7])
    table.admit(1)
    metadata = build_metadata(table, [(1, np.zeros(300, dtype=int))])
    assert metadata.page_tables.tolist() == [[3, 1]]
    assert metadata.token_slots[[0, 255, 256]].tolist() == [768, 1023, 256]


def test_released_pages_are_free_again():
    table = RequestTable(1, 512, page_tokens=128)
    table.admit()
    table.extend(0, 400)
    assert table.free_pages == 0
    table.release(0)
    assert table.free_pages == 4
    assert (table.request_to_token == -1).all()


@pytest.mark.parametrize(
    ("page_tokens", "words"),
    [(100, "multiple of 128"), (0, "multiple of 128"), (-128, "multiple of 128")],
)
def test_page_size_must_hold_whole_blocks(page_tokens, words):
    with pytest.raises(InputError, match=words):
        RequestTable(1, 512, page_tokens=page_tokens)


def test_a_step_refuses_what_it_cannot_hold():
    table = RequestTable(2, 128, page_tokens=128, pages=1)
    table.admit(0)
    table.admit(1)
    build_metadata(table, [(0, [1, 2])])
    with pytest.raises(InputError, match="needs 1 more pages of 128 tokens, only 0 of 1 are free"):
        build_metadata(table, [(1, [1])])
    with pytest.raises(InputError, match="would hold 129 tokens"):
        build_metadata(table, [(0, [1] * 127)])
    with pytest.raises(InputError, match="may appear once"):
        build_metadata(table, [(0, [1]), (0, [2])])
    with pytest.raises(InputError, match="adds no token"):
        build_metadata(table, [(0, [])])
    with pytest.raises(InputError, match="not live"):
        build_metadata(RequestTable(1, 128), [(0, [1])])
