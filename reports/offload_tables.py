"""Tables of C4 entries on the host: room, step, other lengths, published gain, recorded picks."""

from __future__ import annotations

from reports.text_table import TextColumn
from simulator.offload.comparison import Comparison
from simulator.offload.published import HISPARSE
from simulator.offload.recording import Reuse
from simulator.offload.study import OffloadStudy

NONE = "–"


def offload_tables(study: OffloadStudy) -> list[tuple[str, list[TextColumn]]]:
    """Titled tables."""
    question = study.question
    length = f"{question.last_context:,} tokens"
    tables = [
        (
            f"Room at {length} a request (by rows alone at most {study.ceiling:.1f} times)",
            _room_columns(study),
        ),
        (f"A decode step at {question.mean_context:,} tokens", _step_columns(study)),
    ]
    if study.contexts:
        tables.append(("Requests of other lengths", context_columns(study.contexts)))
    if study.published:
        tables.append((f"Beside the published gain, {HISPARSE.words}", _published(study)))
    tables += [(_reuse_title(one), reuse_columns(one)) for one in study.reuse]
    return tables


def _room_columns(study: OffloadStudy) -> list[TextColumn]:
    """A row a size, on the device and on the host."""
    rooms = (study.asked.plain_room, study.asked.offload_room)
    context = study.question.last_context
    ranks = study.question.capacity.parallel.tensor
    on_host = [room.request_host_bytes for room in rooms]
    all_host = [n * ranks * r.requests for n, r in zip(on_host, rooms, strict=True)]
    ratio = rooms[1].requests / rooms[0].requests if rooms[0].requests else 0.0
    times = f"{ratio:.2f} times" if ratio else ""
    rows = {
        "device B a token of context": [f"{room.bytes_per_token:,.2f}" for room in rooms],
        "device MB a request": [f"{room.request_bytes / 1e6:,.2f}" for room in rooms],
        "device GB set aside": [f"{room.fit.reserved_bytes / 1e9:,.2f}" for room in rooms],
        "device GB for the cache": [f"{room.fit.budget_bytes / 1e9:,.2f}" for room in rooms],
        "host MB a request": [f"{n / 1e6:,.2f}" if n else NONE for n in on_host],
        "requests on all chips": [f"{room.requests:,}" for room in rooms],
        "tokens on all chips": [f"{room.tokens(context):,}" for room in rooms],
        "host GB of all requests": [f"{n / 1e9:,.2f}" if n else NONE for n in all_host],
        "what binds": [room.binds for room in rooms],
    }
    cells = {
        "": list(rows),
        "C4 on the device": [row[0] for row in rows.values()],
        "C4 on the host": [row[1] for row in rows.values()],
        "what it is": [_about(name, times, ranks) for name in rows],
    }
    return _columns(cells, ("", "what it is"), {"what it is": 1})


def _about(name: str, times: str, ranks: int) -> str:
    texts = {
        "device B a token of context": "in the pools that grow",
        "device GB set aside": "whatever is served",
        "host MB a request": "of one chip",
        "requests on all chips": times,
        "host GB of all requests": f"{ranks} copies" if ranks > 1 else "",
    }
    return texts.get(name, "")


def _step_columns(study: OffloadStudy) -> list[TextColumn]:
    one = study.asked
    named = {
        "on the device": one.plain,
        "on the host": one.offloaded,
        "on the host, same batch": one.same_batch,
    }
    points = {name: point for name, point in named.items() if point is not None}
    steps = list(points.values())
    base = one.plain.tokens_per_s if one.plain is not None else None
    cells = {
        "": list(points),
        "requests": [f"{p.requests:,}" for p in steps],
        "compute\nms": [f"{p.compute_s * 1e3:.2f}" for p in steps],
        "test\nms": [f"{p.test_s * 1e3:.3f}" for p in steps],
        "copy\nms": [f"{p.copy_s * 1e3:.3f}" for p in steps],
        "step\nms": [f"{p.step_s * 1e3:.2f}" for p in steps],
        "link\nbusy": [small_percent(p.link_share) for p in steps],
        "tokens/s": [f"{p.tokens_per_s:,.0f}" for p in steps],
        "times": [NONE if base is None else f"{p.tokens_per_s / base:.3f}" for p in steps],
    }
    return _columns(cells, ("",), {"link\nbusy": 1})


def context_columns(contexts: tuple[Comparison, ...]) -> list[TextColumn]:
    """A row a length."""
    cells = {
        "context": [f"{c.context_tokens:,}" for c in contexts],
        "requests\ndevice": [f"{c.plain_room.requests:,}" for c in contexts],
        "requests\nhost": [f"{c.offload_room.requests:,}" for c in contexts],
        "tokens/s\ndevice": [
            NONE if c.plain is None else f"{c.plain.tokens_per_s:,.0f}" for c in contexts
        ],
        "tokens/s\nhost": [
            NONE if c.offloaded is None else f"{c.offloaded.tokens_per_s:,.0f}" for c in contexts
        ],
        "gain": [NONE if c.gain is None else f"{c.gain:.3f}" for c in contexts],
        "same\nbatch": [
            NONE if c.same_batch_gain is None else f"{c.same_batch_gain:.3f}" for c in contexts
        ],
        "even from\nrequests": [
            "never" if c.even_requests is None else f"{c.even_requests:,}" for c in contexts
        ],
        "even at\noverlap": [_even_text(c) for c in contexts],
        "on the device binds": [c.plain_room.binds for c in contexts],
    }
    ranks = {"on the device binds": 2, "tokens/s\ndevice": 1, "tokens/s\nhost": 1}
    return _columns(cells, ("on the device binds",), ranks)


def _even_text(one: Comparison) -> str:
    if one.gain is None:
        return NONE
    if one.even_misses is None:
        return "none"
    if one.even_overlap is None:
        return NONE
    return f"{one.even_overlap:.2f}" if one.even_overlap > 0 else "any"


def _published(study: OffloadStudy) -> list[TextColumn]:
    cases = study.published
    rooms = [(c.comparison.plain_room, c.comparison.offload_room) for c in cases]
    cells = {
        "window slots a token, with and without": [c.settings for c in cases],
        "requests": [f"{a.requests:,} to {b.requests:,}" for a, b in rooms],
        "gain": [NONE if c.comparison.gain is None else f"{c.comparison.gain:.2f}" for c in cases],
        "published": [HISPARSE.words for _ in cases],
        "difference": [NONE if c.difference is None else f"{c.difference:+.0%}" for c in cases],
        "with it binds": [b.binds for _, b in rooms],
    }
    ranks = {"with it binds": 2, "published": 1}
    return _columns(cells, ("window slots a token, with and without", "with it binds"), ranks)


def _reuse_title(one: Reuse) -> str:
    return (
        f"Picks of {one.model}, {one.source}: {one.queries:,} queries of {one.top_k:,} of "
        f"{one.entries:,} entries, {one.overlap:.1%} shared"
    )


def reuse_columns(one: Reuse) -> list[TextColumn]:
    """A row a buffer."""
    cells = {
        "buffer": [f"{p.buffer_entries:,}" for p in one.points],
        "x top-k": [f"{p.buffer_entries / one.top_k:g}" for p in one.points],
        "hits of\nexact LRU": [f"{1 - p.missed:.1%}" for p in one.points],
        "closed form\nno returns": [f"{1 - p.stated:.1%}" for p in one.points],
        "returns that\nexplain it": [f"{p.returns:.2f}" for p in one.points],
    }
    return _columns(cells, (), {})


def _columns(
    cells: dict[str, list[str]], left: tuple[str, ...], ranks: dict[str, int]
) -> list[TextColumn]:
    return [
        TextColumn(heading=name, cells=column, left=name in left, rank=ranks.get(name, 0))
        for name, column in cells.items()
    ]


def small_percent(share: float) -> str:
    """A share; one too small to be told from none says so."""
    return f"{share:.1%}" if share >= 0.001 or share == 0 else "<0.1%"
