"""A step's question and answer in one sentence, and the sentence that says what was proved.

"One decode step of V4-Flash for 64 requests at 131,072 tokens on 8 x H200 (TP8) takes 12.3 ms:
5,203 tokens/s, 81.3 tokens/s a request; it waits most for memory bandwidth (71 %)."
"""

from __future__ import annotations

from dataclasses import fields

from reports.breakdown import GroupTotal, StepBreakdown
from reports.certainty import time_text
from reports.quantity import count_text, number_text, share_text
from simulator.basis.units import format_time_ps
from simulator.cost.result import ProofLine, StepQuestion, StepResult
from simulator.engine.default_engine import engine_text
from workloads.parallel import ParallelLayout

RESOURCE_NAMES = {
    "matrix": "matrix math",
    "vector": "vector math",
    "special": "special-function math",
    "memory": "memory bandwidth",
    "llc": "cache bandwidth",
    "link": "link bandwidth",
    "latency": "latency",
    "launch": "launch overhead",
}
CAUSE_NAMES = {
    "launch": "launching kernels",
    "dram_latency": "memory latency",
    "dram_bandwidth": "memory bandwidth",
    "llc": "cache bandwidth",
    "matrix": "matrix math",
    "l0": "filling L0 buffers from L1",
    "vector": "vector math, conversions",
    "tail": "idle cores and padding",
    "power": "clock held down by power",
    "serial": "chains of dependent steps",
    "communication": "links between chips",
}
KIND_NAMES = {
    "embed": "embedding",
    "swa": "sliding window (SWA)",
    "csa": "compressed sparse (CSA)",
    "hca": "heavily compressed (HCA)",
    "mtp": "multi-token prediction (MTP)",
    "head": "output head",
}
_DEGREES = {"tensor": "TP", "data": "DP", "expert": "EP"}


def answer_sentence(result: StepResult, breakdown: StepBreakdown | None = None) -> str:
    """Question and answer; a breakdown that is at hand saves making it again."""
    total = (breakdown or StepBreakdown(result)).total
    question = result.question
    rates = f"{number_text(tokens_per_s(result))} tokens/s"
    if question.batch > 1 and question.phase != "prefill":  # prefill ends when all have ended
        rates += f", {number_text(tokens_per_s(result) / question.batch)} tokens/s a request"
    causes = total.critical_ps_by_cause or {"launch": 0}
    cause = max(causes, key=lambda name: causes[name])
    share = share_text(causes[cause], result.total_ps, digits=0)
    return (
        f"One {question.phase} step of {question.model} for {requests_text(question)} on "
        f"{machine_text(question)} with {engine_text(question.engine)} takes "
        f"{time_text(result)}: {rates}; "
        f"it waits most for {CAUSE_NAMES[cause]} ({share})."
    )


def basis_sentence(result: StepResult) -> str:
    """What was costed: number formats, whose bytes and FLOP, what kernels are priced as instead."""
    question = result.question
    text = (
        f"Costed with experts in {experts_text(result)}, index keys in {question.index_dtype} and "
        f"cache entries in {question.kv_dtype}."
    )
    if result.period is not None:
        shortest, longest = (
            format_time_ps(ps) for ps in (result.period.shortest_ps, result.period.longest_ps)
        )
        spread = "" if shortest == longest else f": {shortest} to {longest}"
        text += (
            f" It is the mean over {result.period.tokens:,} steps, which differ by the compressed "
            f"entries that they complete{spread} (--exact-context: that step alone)."
        )
    if question.draft_tokens:
        text += (
            " The step verifies the drafts and makes the next ones; tokens/s are of one token a "
            "request, times what a step yields on average."
        )
    if question.count > 1:
        text += (
            f" DRAM, FLOP and memory are of one chip of {question.count:,}; tokens/s are of all."
        )
    return " ".join([text, *(f"{sentence}." for sentence in result.priced_as)])


def experts_text(result: StepResult) -> str:
    """Number format of the experts: `fp8 (repacked from fp4)`."""
    costed, stored = result.question.expert_dtype, result.stored_expert_dtype
    return f"{costed} (repacked from {stored})" if stored not in ("", costed) else costed


def tokens_per_s(result: StepResult) -> float:
    """New tokens of all requests over the duration of the step."""
    return result.tokens / result.seconds if result.total_ps else 0.0


def requests_text(question: StepQuestion) -> str:
    """The batch: `64 requests at 131,072 tokens`, or the new tokens and what is cached already."""
    requests = count_text(question.batch, "request")
    if question.new_tokens == 1:
        drafts = question.draft_tokens
        each = f", each with {count_text(drafts, 'draft')}" if drafts else ""
        return f"{requests} at {count_text(question.context, 'token')}{each}"
    each = " each" if question.batch > 1 else ""
    cached = question.context - question.new_tokens
    past = f"after {count_text(cached, 'cached token')}" if cached > 0 else "with nothing cached"
    return f"{requests} of {question.new_tokens:,} new tokens{each} {past}"


def machine_text(question: StepQuestion) -> str:
    """Chips and layout: `8 x H200 (TP8)`."""
    layout = layout_text(question.layout)
    return f"{question.count:,} x {question.chip}" + (f" ({layout})" if layout else "")


def layout_text(layout: ParallelLayout) -> str:
    """Degrees above one, such as `DP8 EP8`; empty for a single rank."""
    degrees = {field.name: getattr(layout, field.name) for field in fields(layout)}
    named = [(_DEGREES.get(name, f"{name} "), degree) for name, degree in degrees.items()]
    return " ".join(f"{name}{degree}" for name, degree in named if degree > 1)


def kind_text(group: GroupTotal) -> str:
    """A group's name: of a kind of layer in words, with its layers where there are several."""
    if group.key not in KIND_NAMES:
        return group.key
    several = f" ×{group.scopes}" if group.scopes > 1 else ""
    return KIND_NAMES[group.key] + several


def proof_sentence(proof: ProofLine) -> str:
    """What running the golden file showed."""
    verdict = "reproduces" if proof.holds else "DOES NOT reproduce"
    return (
        f"The graph, executed in float64, {verdict} the public implementation on "
        f"{proof.golden_name} (a small model of {proof.layers} layers of every kind): logits "
        f"differ by at most {proof.logits_difference:.2g} (allowed {proof.logits_tolerance:.0e}), "
        f"stored activations by {proof.activations_difference:.2g} of their scale (allowed "
        f"{proof.activations_tolerance:.0e}); {count_text(proof.checks, 'check')}."
    )
