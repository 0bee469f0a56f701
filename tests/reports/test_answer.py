"""The sentence states question and answer; the proof line says what was checked."""

from __future__ import annotations

from dataclasses import replace

from reports.answer import (
    answer_sentence,
    basis_sentence,
    kind_text,
    layout_text,
    proof_sentence,
)
from reports.breakdown import StepBreakdown
from tests.reports.factory import make_kernel, make_proof, make_question, make_result
from workloads.parallel import ParallelLayout

MS = 10**9


def test_decode() -> None:
    result = make_result(
        make_kernel("a", 0, 9 * MS),
        make_kernel("b", 9 * MS, 12 * MS, bound="matrix"),
        total_ps=12_300_000_000,
    )
    assert answer_sentence(result) == (
        "One decode step of V4-Flash for 64 requests at 131,072 tokens on 8 x H200 (TP8 EP8) "
        "with sglang-0.5 takes 12.3 ms (10.8 to 13.2): 5,203 tokens/s, 81.3 tokens/s a request; "
        "it waits most for memory bandwidth (73 %)."
    )


def test_prefill_states_new_tokens() -> None:
    question = make_question(phase="prefill", batch=2, context=4096, new_tokens=4096, count=1)
    question = replace(question, layout=ParallelLayout())
    result = make_result(make_kernel("a", 0, 1000 * MS, bound="matrix"))
    result = replace(result, question=question, tokens=8192)
    assert answer_sentence(result) == (
        "One prefill step of V4-Flash for 2 requests of 4,096 new tokens each with nothing cached "
        "on 1 x H200 with sglang-0.5 takes 1 s (900 ms to 1.1 s): 8,192 tokens/s; it waits "
        "most for matrix math (100 %)."
    )


def test_prefill_states_what_is_cached() -> None:
    question = make_question(phase="prefill", batch=1, context=5000, new_tokens=4096)
    result = replace(make_result(make_kernel("a", 0, MS)), question=question)
    assert "for 1 request of 4,096 new tokens after 904 cached tokens on" in answer_sentence(result)


def test_the_basis_names_formats_and_whose_numbers_they_are() -> None:
    result = make_result(make_kernel("a", 0, MS))
    assert basis_sentence(result) == (
        "Costed with experts in fp4, index keys in fp8 and cache entries in fp8. "
        "DRAM, FLOP and memory are of one chip of 8; tokens/s are of all."
    )
    one = make_question(count=1, expert_dtype="fp8", index_dtype="fp4")
    result = replace(result, question=one, stored_expert_dtype="fp4")
    assert basis_sentence(result) == (
        "Costed with experts in fp8 (repacked from fp4), index keys in fp4 and cache entries in "
        "fp8."
    )


def test_one_request_has_no_rate_of_its_own() -> None:
    result = replace(make_result(make_kernel("a", 0, MS)), question=make_question(batch=1))
    assert "a request" not in answer_sentence(result)
    assert "for 1 request at" in answer_sentence(result)


def test_layouts_name_degrees_above_one() -> None:
    assert layout_text(ParallelLayout(data=8, expert=8)) == "DP8 EP8"
    assert layout_text(ParallelLayout()) == ""


def test_proof() -> None:
    assert proof_sentence(make_proof()) == (
        "The graph, executed in float64, reproduces the public implementation on golden_tiny.npz "
        "(a small model of 5 layers of every kind): logits differ by at most 2.4e-07 (allowed "
        "1e-05), stored activations by 3e-08 of their scale (allowed 1e-06); 412 checks."
    )
    assert "DOES NOT reproduce" in proof_sentence(make_proof(logits_difference=2e-5))
    assert "DOES NOT reproduce" in proof_sentence(make_proof(activations_difference=2e-6))


def test_kinds_are_named_with_their_layers() -> None:
    kernels = [make_kernel("a", i, i + 1, scope=f"layer{i}") for i in range(3)]
    (group,) = StepBreakdown(make_result(*kernels)).by_layer_kind
    assert kind_text(group) == "compressed sparse (CSA) ×3"
