"""The drawing of a pool: every slot of an access is drawn where its table leads."""

import re

import pytest

from reports.address_page import LEFT, READ, UNKNOWN, WRITTEN, pool_figure, pool_pieces
from simulator.address.address import address
from simulator.address.question import read_question


def ask(*requests, **given):
    listed = [{"past": past, "new": new} for past, new in requests]
    return address(read_question(None, {"requests": listed} | given))


def drawn(svg, color):
    """Titles of the rectangles of a colour."""
    return re.findall(rf'fill="{color}"[^>]*><title>([^<]*)</title>', svg)


def test_entries_are_drawn_above_and_their_slots_below():
    result = ask((300, 4), (0, 130), page_seed=3, layers=[2], rows=[3])
    row = result.rows[0]
    layer = row.layers[0]
    svg = pool_figure(result, row, layer, "c4")
    read = next(a for a in layer.accesses if a.pool == "c4" and not a.write)
    titles = drawn(svg, READ)
    assert sum(title.startswith("read: entry") for title in titles) == len(read.runs)
    assert {int(t.split()[-1]) for t in titles if "slot" in t} == {r.slot for r in read.runs}
    assert [t for t in drawn(svg, WRITTEN) if "entry" in t] == ["written: entry 75"]
    assert drawn(svg, LEFT)
    # Pages of both requests and the free one.
    assert svg.count("<title>page ") == result.pools[0].pages
    assert "free" in svg
    assert "request 1" in svg


def test_a_ring_is_drawn_with_its_wrap():
    result = ask((300, 4), layers=[0])
    row = result.rows[0]
    svg = pool_figure(result, row, row.layers[0], "window")
    assert "ring of 16 rows in state slot 0" in svg
    assert "Positions before 272 are not drawn" in svg
    assert "written: slot 15, 1 slots" in drawn(svg, WRITTEN)


def test_of_many_pages_the_last_are_drawn_and_it_says_so():
    result = ask((2**20 - 1, 1), model="v4-pro", layers=[2])
    row = result.rows[0]
    svg = pool_figure(result, row, row.layers[0], "c4_index")
    assert "The last 48 of 4,096 places are drawn" in svg
    assert len(svg) < 60_000
    unit, pieces = pool_pieces(row.layers[0], "c4")
    assert unit == "entry"
    assert [(p.count, p.color) for p in pieces if p.color != WRITTEN] == [(2**18, UNKNOWN)]


@pytest.mark.parametrize("past", [0, 1, 3, 127, 128])
def test_short_requests_can_be_drawn(past):
    result = ask((past, 1))
    for layer in result.rows[0].layers:
        for pool in {a.pool for a in layer.accesses}:
            assert "<svg" in pool_figure(result, result.rows[0], layer, pool)
