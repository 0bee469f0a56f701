"""Proofs of window policies as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.text_table import TextColumn
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prove.cached_state import Kind
from simulator.prove.full_size import FullSizeReplay
from simulator.prove.proof import ModelProof, PolicyProof
from simulator.prove.replay_search import SmallestReplay

EVERYTHING = 1 << 60
"""A distance in tokens that no replay reaches."""

OVERLAP_NOTE = (
    "Overlap rows of the ratio-4 compressors (the last 4 tokens) come with every stored window; a "
    "replay makes them anew. Compressed entries are read from the disk up to the boundary, and "
    "no run before it writes them. What is neither read nor run again holds NaN."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTable:
    """A heading, a sentence, and columns."""

    title: str
    note: str
    columns: tuple[TextColumn, ...]


def proof_answer(proofs: Sequence[ModelProof]) -> str:
    """What was shown, or how much of it failed."""
    resumed = [r for proof in proofs for p in proof.policies if p.exact for r in p.resumed]
    failed = sum(not r.equal for r in resumed)
    wrong = [proof.model for proof in proofs if not proof.counts_hold]
    largest = max((max(r.logits.largest, r.state.largest) for r in resumed), default=0.0)
    first = (
        f"{len(resumed) - failed} of {len(resumed)} resumed requests of exact policies are finite "
        f"and equal to the uncached run (largest difference {largest:.1e}, allowed 1e-9)"
    )
    second = (
        f"the smallest exact replays are as counted, and one token fewer gives NaN, in "
        f"{len(proofs) - len(wrong)} of {len(proofs)} models"
    )
    return f"{first}; {second}{', not in ' + ', '.join(wrong) if wrong else ''}."


def policy_table(proof: ModelProof) -> ProofTable:
    """Every policy of one model, a row each; figures of all cuts joined."""
    lengths, geometry = proof.lengths, proof.geometry
    boundaries = [resumed.boundary for resumed in proof.policies[0].resumed]
    rows = proof.policies
    return ProofTable(
        title=f"{proof.model}: window {geometry.n_win}, layers {_ratios(proof.ratios)}",
        note=(
            f"Prompt of {lengths.prompt} tokens, {lengths.total} with its reply; prefixes cut "
            f"after {_list(lengths.cuts)} tokens, hit up to {_list(boundaries)}."
        ),
        columns=(
            _column("policy", [row.policy for row in rows], left=True),
            _column("against\nuncached", [_verdict(row) for row in rows], left=True),
            _column("largest\ndifference", [f"{_largest(row):.1e}" for row in rows]),
            _column("not\nfinite", [f"{_not_finite(row):,}" for row in rows]),
            _column("tokens run again\nby cut", [_run_again(row) for row in rows]),
            *_bytes_columns(rows),
        ),
    )


def _bytes_columns(rows: Sequence[PolicyProof]) -> Iterator[TextColumn]:
    """What was written once, and what all cuts together read."""
    kinds: tuple[tuple[Kind, str], ...] = (("window", "windows"), ("overlap", "overlap rows"))
    for kind, heading in kinds:
        cells = [f"{row.written_bytes[kind]:,}" for row in rows]
        yield _column(f"{heading}\nwritten, B", cells, rank=1)
    read = [f"{sum(row.read_bytes.values()):,}" for row in rows]
    yield _column("read by all\ncuts, B", read, rank=2)


def search_table(proofs: Sequence[ModelProof]) -> ProofTable:
    """Smallest exact replays found, beside their closed forms."""
    first = [proof.search.first_token for proof in proofs]
    whole = [proof.search.whole_window for proof in proofs]
    shapes = [proof.geometry for proof in proofs]
    return ProofTable(
        title="Smallest exact replay, in tokens, found by bisection",
        note=(
            "First token: logits from the boundary on, tail included, equal the uncached run's. "
            "Every slot: so do all rows of the restored windows. NaN: values that are, with one "
            "token fewer."
        ),
        columns=(
            _column("model", [proof.model for proof in proofs], left=True),
            _column("first\ntoken", list(map(_found, first))),
            _column("(n-1) L", [f"{shape.first_token_tokens:,}" for shape in shapes]),
            _column("NaN with\none fewer", [f"{f.not_finite_below:,}" for f in first], rank=1),
            _column("every\nslot", list(map(_found, whole))),
            _column("n+(L-1)(n-1)", [f"{shape.tight_tokens:,}" for shape in shapes]),
            _column("NaN with\none fewer", [f"{w.not_finite_below:,}" for w in whole], rank=1),
            _column("n L", [f"{shape.replay_tokens:,}" for shape in shapes]),
            *_work_columns(shapes),
        ),
    )


def _work_columns(shapes: Sequence[WindowGeometry]) -> Iterator[TextColumn]:
    """Token-layers of n L whole tokens, and of the trimmed triangle with the rows it rebuilds."""
    whole = [shape.whole(EVERYTHING) for shape in shapes]
    trimmed = [shape.trimmed(EVERYTHING) for shape in shapes]
    yield _column("token-layers\nn L whole", [f"{work.token_layers:,}" for work in whole], rank=2)
    yield _column("token-layers\ntrimmed", [f"{work.token_layers:,}" for work in trimmed], rank=2)
    yield _column("KV rows\ntrimmed", [f"{work.kv_rows:,}" for work in trimmed], rank=2)


def bounded_table(proofs: Sequence[ModelProof]) -> ProofTable:
    """Error of logits against the length of a bounded replay."""
    errors = [(proof, error) for proof in proofs for error in proof.bounded]
    return ProofTable(
        title="Bounded replay (approximate): largest error of a logit by length",
        note=(
            "Its windows see nothing before the first replayed token. Same choice: tokens whose "
            "likeliest successor is the uncached run's."
        ),
        columns=(
            _column("model", [proof.model for proof, _ in errors], left=True),
            _column("tokens", [f"{error.tokens:,}" for _, error in errors]),
            _column(
                "of (n-1) L",
                [f"{100 * e.tokens / p.geometry.first_token_tokens:.0f} %" for p, e in errors],
            ),
            _column("first token", [f"{error.first_token:.1e}" for _, error in errors]),
            _column("all that follow", [f"{error.all_tokens:.1e}" for _, error in errors]),
            _column("same choice", [f"{100 * error.same_choices:.1f} %" for _, error in errors]),
        ),
    )


def full_size_table(replays: Sequence[FullSizeReplay]) -> ProofTable:
    """Counts for the published models."""
    rows = list(_full_size_rows(replays))
    headings = ("model", "exact for", "tokens", "KV rows\nrebuilt", "token-layers\nrun whole")
    return ProofTable(
        title="At full size, counted layer by layer (no MTP layer)",
        note=(
            "Trimmed: each layer runs what the layers above need. Whole: n L tokens through all "
            "layers, the length that is usually stated."
        ),
        columns=tuple(
            _column(heading, [row[place] for row in rows], left=place < 2)
            for place, heading in enumerate(headings)
        ),
    )


def _full_size_rows(replays: Sequence[FullSizeReplay]) -> Iterator[tuple[str, ...]]:
    for replay in replays:
        counts = (
            ("first token, trimmed", replay.first_token),
            ("every slot, trimmed", replay.whole_window),
            ("every slot, whole", replay.geometry.whole(EVERYTHING)),
        )
        for what, count in counts:
            figures = (count.tokens, count.kv_rows, count.token_layers)
            yield (replay.model, what, *(f"{figure:,}" for figure in figures))


def _column(heading: str, cells: list[str], *, left: bool = False, rank: int = 0) -> TextColumn:
    return TextColumn(heading=heading, cells=cells, left=left, rank=rank)


def _verdict(row: PolicyProof) -> str:
    equal = sum(resumed.equal for resumed in row.resumed)
    if row.exact:
        return f"equal {equal}/{len(row.resumed)}"
    return "approximate"


def _largest(row: PolicyProof) -> float:
    parts = [part for r in row.resumed for part in (r.logits, r.window, r.state)]
    return max((part.largest for part in parts), default=0.0)


def _not_finite(row: PolicyProof) -> int:
    return sum(p.not_finite for r in row.resumed for p in (r.logits, r.window, r.state))


def _run_again(row: PolicyProof) -> str:
    return _list([resumed.work.tokens for resumed in row.resumed])


def _found(smallest: SmallestReplay) -> str:
    return "none" if smallest.tokens is None else f"{smallest.tokens:,}"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


def _ratios(ratios: Sequence[int]) -> str:
    return f"[{', '.join(map(str, ratios))}]"
