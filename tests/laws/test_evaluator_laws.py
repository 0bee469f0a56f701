"""Laws of the packed, paged evaluator: how a request is served changes nothing."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.dense_reference import forward, mtp_forward, mtp_stage_forward
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from tests.laws.models import RAW_CONFIG, evaluator, run_alone, tokens, weights
from workloads.deepseek_v4.config import model_from_mapping


def largest(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


def test_the_evaluator_meets_the_dense_reference_on_a_model_of_other_dimensions():
    ids = tokens(290)
    dense = forward(RAW_CONFIG, weights(), ids)
    assert largest(run_alone(ids, (290,)), dense.logits) < 1e-11
    assert largest(run_alone(ids, (1, 127, 5, 157)), dense.logits) < 1e-11


def test_the_draft_layer_meets_its_independent_dense_form():
    ids = tokens(150)
    dense = forward(RAW_CONFIG, weights(), ids[:-1])
    expected = mtp_forward(RAW_CONFIG, weights(), ids[1:], dense.streams)
    runner = evaluator(mtp=True)
    row = runner.table.admit()
    parts = []
    for start, stop in ((0, 100), (100, 101), (101, 149)):
        step = runner.step([(row, ids[start:stop])], next_ids=[ids[start + 1 : stop + 1]])
        parts.append(step.draft_logits[0])
    assert largest(np.concatenate(parts), expected) < 1e-11


@pytest.mark.parametrize("ratios", [(0, 0, 0), (4, 0, 128)])
def test_a_chain_of_draft_layers_meets_its_dense_form(ratios: tuple[int, int, int]):
    """The k-th reads the ids k + 1 ahead and the streams of the one before it, in any chunks."""
    ids = tokens(150)
    ratios_of_all = [*RAW_CONFIG["compress_ratios"][:4], *ratios]
    raw = RAW_CONFIG | {"compress_ratios": ratios_of_all, "num_nextn_predict_layers": 3}
    chained = random_weights(raw, 5, mtp=True)
    streams, expected = forward(raw, chained, ids[:-3]).streams, []
    for stage in range(3):
        ahead = ids[1 + stage : len(ids) - 2 + stage]
        logits, streams = mtp_stage_forward(raw, chained, stage, ahead, streams)
        expected.append(logits)
    table = RequestTable(1, 512, page_tokens=128)
    runner = Evaluator(model_from_mapping(raw), chained, table, mtp=True, all_logits=True)
    row = table.admit()
    parts: list[list[np.ndarray]] = [[], [], []]
    for start, stop in ((0, 100), (100, 101), (101, 147)):
        ahead = [ids[start + k : stop + k] for k in (1, 2, 3)]
        step = runner.step([(row, ids[start:stop])], next_ids=[ahead])
        for found, logits in zip(parts, step.draft_logits, strict=True):
            found.append(logits)
    for found, wanted in zip(parts, expected, strict=True):
        assert largest(np.concatenate(found), wanted) < 1e-11
    with pytest.raises(InputError, match=r"rows for 1 MTP layers, but .* runs 3"):
        runner.step([(row, ids[147:148])], next_ids=[ids[148:149]])


def test_a_packed_batch_equals_the_requests_run_alone():
    prompts = [tokens(n, seed=n) for n in (140, 33, 260)]
    alone = [run_alone(ids, (len(ids) - 5, 1, 4)) for ids in prompts]
    runner = evaluator(rows=4)
    rows = [runner.table.admit(row) for row in (3, 0, 2)]
    packed: list[list[np.ndarray]] = [[], [], []]
    cuts = [(0, len(ids) - 5, len(ids) - 4, len(ids)) for ids in prompts]
    for part in range(3):
        step = runner.step(
            [
                (row, ids[cut[part] : cut[part + 1]])
                for row, ids, cut in zip(rows, prompts, cuts, strict=True)
            ]
        )
        for i in range(3):
            span = slice(step.metadata.boundaries[i], step.metadata.boundaries[i + 1])
            packed[i].append(step.logits[span])
    for i in range(3):
        assert largest(np.concatenate(packed[i]), alone[i]) < 1e-12


def test_prefill_and_decode_mixed_in_one_step_equal_the_requests_run_alone():
    first, second = tokens(200, seed=1), tokens(45, seed=2)
    alone = run_alone(first, (199, 1))[-1], run_alone(second, (45,))
    runner = evaluator(rows=2)
    a, b = runner.table.admit(), runner.table.admit()
    runner.step([(a, first[:199])])
    step = runner.step([(b, second), (a, first[199:])])
    assert largest(step.logits[:45], alone[1]) < 1e-12
    assert largest(step.logits[45], alone[0]) < 1e-12


@pytest.mark.parametrize("page_tokens", [256, 384])
def test_page_size_changes_nothing_to_the_bit(page_tokens):
    ids = tokens(300)
    chunks = (130, 1, 169)
    assert np.array_equal(run_alone(ids, chunks), run_alone(ids, chunks, page_tokens=page_tokens))


@settings(max_examples=5)
@given(order=st.permutations(range(4)), row=st.integers(0, 2))
def test_physical_order_of_pages_and_rows_changes_nothing_to_the_bit(order, row):
    ids = tokens(270)
    plain = run_alone(ids, (200, 70))
    runner = evaluator(rows=3, pages=4, page_order=order)
    runner.table.admit(row)
    logits = [runner.step([(row, part)]).logits for part in (ids[:200], ids[200:])]
    assert np.array_equal(np.concatenate(logits), plain)


@settings(max_examples=8)
@given(cuts=st.sets(st.integers(1, 279), max_size=6))
def test_chunking_changes_nothing_also_with_chunks_longer_than_the_window(cuts):
    ids = tokens(280)
    edges = [0, *sorted(cuts), 280]
    chunks = tuple(b - a for a, b in itertools.pairwise(edges))
    assert largest(run_alone(ids, (280,)), run_alone(ids, chunks)) < 1e-12


def test_a_row_that_is_used_again_remembers_nothing_of_the_request_before():
    ids, other = tokens(150, seed=5), tokens(180, seed=6)
    runner = evaluator()
    row = runner.table.admit()
    runner.step([(row, other)])
    runner.table.release(row)
    runner.table.admit(row)
    assert largest(runner.step([(row, ids)]).logits, run_alone(ids, (150,))) < 1e-12


def test_float32_agrees_with_choices_fixed_and_lists_the_ids_it_would_flip():
    ids = tokens(300)
    chunks = (255, 1, 44)
    exact = ChoiceRecord()
    reference = run_alone(ids, chunks, record=exact)
    fixed = ChoiceRecord(given=exact.taken)
    single = run_alone(ids, chunks, record=fixed, dtype=np.float32)
    assert single.dtype == np.float32
    assert largest(single, reference) < 1e-4
    assert len(fixed.flips) < 5
    assert all(0.0 <= flip.gap < 1e-5 for flip in fixed.flips), fixed.flips


def test_given_choices_are_used_and_differences_are_listed_with_their_gap():
    record = ChoiceRecord(given={("layer", "top-k"): [np.array([[0, 2]])]})
    used = record.choose("layer", "top-k", np.array([[0, 1]]), [np.array([3.0, 2.0, 1.5])])
    assert used.tolist() == [[0, 2]]
    (flip,) = record.flips
    assert (flip.dropped, flip.added, flip.gap) == ((2,), (1,), 0.5)
