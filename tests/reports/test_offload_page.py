"""Texts, tables and figures of C4 entries on the host."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from reports.offload_json import offload_to_json
from reports.offload_page import offload_figures
from reports.offload_tables import offload_tables, small_percent
from reports.offload_text import offload_answer, turning_sentences
from simulator.offload.recording import BufferPoint, Reuse
from simulator.offload.study import OffloadStudy, study
from tests.simulator.offload.questions import asked

REUSE = Reuse(
    source="a run",
    model="tiny",
    top_k=16,
    entries=144,
    queries=64,
    overlap=0.8,
    points=(BufferPoint(buffer_entries=32, missed=0.1, stated=0.18, returns=0.47),),
)


@cache
def found() -> OffloadStudy:
    return replace(study(asked(), [8192, 131072]), reuse=(REUSE,))


def test_every_table_has_as_many_cells_as_rows() -> None:
    tables = offload_tables(found())
    assert [title.split()[0] for title, _ in tables] == [
        "Room",
        "A",
        "Requests",
        "Beside",
        "Picks",
    ]
    for _, columns in tables:
        assert len({len(column.cells) for column in columns}) == 1


def test_room_shows_the_tokens_and_the_ceiling() -> None:
    title, columns = offload_tables(found())[0]
    assert "at most 4.9 times" in title
    names, device, host, _ = (column.cells for column in columns)
    rows = {name: (a, b) for name, a, b in zip(names, device, host, strict=True)}
    assert rows["device B a token of context"] == ("3,899.25", "828.00")
    room = found().asked.offload_room
    assert rows["tokens on all chips"][1] == f"{room.requests * 220_000:,}"
    assert rows["host GB of all requests"][1] == f"{room.requests * 860 * 37_440 * 21 / 1e9:,.2f}"


def test_figures_draw_each_buffer_each_length_and_each_run() -> None:
    figures = offload_figures(found())
    assert set(figures) == {"gain", "contexts", "hits"}
    # Five buffers and the line at 1; 2 x top-k, the asked one, is drawn thicker.
    assert len(figures["gain"]["data"]) == 6
    widths = [line["line"]["width"] for line in figures["gain"]["data"][:5]]
    assert widths.index(3) == 1
    assert figures["contexts"]["data"][0]["x"] == [8192, 131072, 220_000]
    assert figures["hits"]["data"][0]["y"] == [0.9]
    assert set(offload_figures(replace(found(), reuse=(), contexts=()))) == {"gain"}


def test_sentences_say_where_it_turns() -> None:
    text = " ".join(turning_sentences(found()))
    assert "It loses at 8,192 tokens a request (limit without it: max running requests)." in text
    assert f"breaks even from {found().asked.even_requests:,} requests" in text
    none = replace(found(), asked=replace(found().asked, even_misses=None))
    assert "slower even if no pick misses" in " ".join(turning_sentences(none))
    every = replace(found(), asked=replace(found().asked, even_misses=600.0))
    assert "gains even if every pick misses" in " ".join(turning_sentences(every))


def test_without_room_the_answer_has_no_throughput() -> None:
    bare = replace(found(), asked=replace(found().asked, plain=None, same_batch=None))
    assert offload_answer(bare).endswith("requests instead of 108.")
    assert offload_to_json(bare, "stated")["asked"]["gain"] is None


def test_small_shares_are_told_from_none() -> None:
    assert [small_percent(share) for share in (0, 0.0004, 0.0123)] == ["0.0%", "<0.1%", "1.2%"]
