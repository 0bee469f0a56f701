"""Questions from files and options, what is run for them, and every kind of bad input."""

import pytest

from simulator.address.address import address
from simulator.address.picks import MOST_PAIRS, index_pairs
from simulator.address.question import parse_page, parse_request, read_question
from simulator.basis.errors import InputError
from workloads.deepseek_v4.config import find_model


def ask(*requests, **given):
    listed = [parse_request(text) for text in requests]
    return address(read_question(None, {"requests": listed} | given))


def layer_of(result, layer, row=0):
    return next(one for one in result.rows[row].layers if one.layer == layer)


def test_the_first_layer_of_each_kind_and_the_last_row_of_each_request_are_shown():
    flash = ask("300:4", "0:130", model="v4-flash")
    assert [row.packed_row for row in flash.rows] == [3, 133]
    assert [one.layer for one in flash.rows[0].layers] == [0, 2, 3]
    pro = ask("300:4", model="v4-pro")
    assert [(one.layer, one.kind) for one in pro.rows[0].layers] == [(0, "hca"), (2, "csa")]


def test_where_every_visible_entry_is_picked_no_run_is_needed_and_one_agrees():
    without, ran = (ask("300:4", model="v4-flash", values=v) for v in ("auto", "run"))
    assert (without.ran, ran.ran) == (False, True)
    assert "more than the 512 entries" in without.values
    assert without.rows[0].layers[0] == ran.rows[0].layers[0]
    assert layer_of(without, 2).accesses == layer_of(ran, 2).accesses
    assert layer_of(without, 2).pick.ids == tuple(range(76))


def test_a_small_model_runs_where_values_decide():
    result = ask("2079:1", model="v4-flash", page_tokens=128, layers=[2], page_seed=1)
    pick = layer_of(result, 2).pick
    assert result.ran
    assert "random weights" in result.values
    assert any("small model" in text for text in result.assumptions)
    assert (pick.visible, len(pick.ids), pick.scored) == (520, 512, True)
    assert pick.lowest_picked > pick.best_left
    other = ask("2079:1", model="v4-flash", page_tokens=128, layers=[2], page_seed=1, seed=8)
    assert layer_of(other, 2).pick.ids != pick.ids


def test_a_million_tokens_are_addressed_without_a_run_and_it_says_what_is_not_known():
    result = ask("1048575:1", model="v4-pro", layers=[1, 2])
    assert not result.ran
    assert "ids are not known" in result.values
    csa, hca = layer_of(result, 2), layer_of(result, 1)
    reads = {a.pool: a.count for a in csa.accesses if not a.write}
    assert csa.pick.ids is None
    # 2^20 tokens: 262,144 index keys; 127 rows of the ring beside the own one.
    assert (reads["c4_index"], reads["window"]) == (262_144, 127)
    assert "c4" not in reads
    assert {a.pool: a.count for a in hca.accesses if not a.write}["c128"] == 8192
    pairs = index_pairs(find_model("v4-pro"), 3, [(2**20 - 1, 1)])
    assert pairs == sum(range(2**18)) * 4 + 2**18 > MOST_PAIRS


def test_pools_with_pages_of_their_own_name_their_table():
    result = ask("300:4", pool_page_tokens={"c128": 2048}, layers=[1])
    (read,) = [a for a in layer_of(result, 1).accesses if a.pool == "c128"]
    assert read.table == "c128 page table of row 0: slot = page x 16 + entry mod 16"
    geometry = {pool.pool: pool for pool in result.pools}
    assert (geometry["c128"].page_entries, geometry["c128"].follows) == (16, False)
    assert (geometry["c4"].page_entries, geometry["c4"].follows) == (64, True)
    assert set(result.requests[0].pages) == {"token", "c128"}


def test_rows_of_the_request_pool_can_be_named():
    result = ask("10:1", "10:1:5", "10:1:0", slots=6)
    assert [request.row for request in result.requests] == [1, 5, 0]
    assert [row.request_row for row in result.rows] == [1, 5, 0]


def test_a_file_gives_the_question_and_what_is_given_beside_it_wins(tmp_path):
    path = tmp_path / "batch.yaml"
    path.write_text(
        "model: v4-flash\nrequests:\n  - {past: 300, new: 4}\n  - {past: 0, new: 9, row: 3}\n"
        "slots: 8\npool_page_tokens: {c128: 2048}\nlayers: [3]\n"
    )
    question = read_question(path, {"layers": [2, 42]})
    assert question.slots == 8
    assert question.layers == (2, 42)
    assert [one.layer for one in address(question).rows[1].layers] == [2, 42]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("requests: []\n", "batch.yaml:1: requests"),
        ("requests: [{past: 1}]\n", "batch.yaml:1: .*new"),
        ("requests: [{past: -1, new: 1}]\n", "batch.yaml:1: .*-1"),
        ("requests: [{past: 1, new: 1}]\nlayer: [1]\n", "layer.*layers"),
        ("requests: [{past: 1, new: 1}]\nvalues: maybe\n", "batch.yaml:2: .*maybe"),
        ("- 1\n", "the file is a list"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, text, words):
    path = tmp_path / "batch.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_question(path, {})


@pytest.mark.parametrize(
    ("requests", "given", "words"),
    [
        (("1:1",) * 3, {"slots": 2}, r"3 requests need 3 request slots, but there are 2 \(1 short"),
        (("4090:7",), {}, r"would hold 4,097 tokens, tiny allows 4,096 \(1 too many\)"),
        (("1048576:1",), {"model": "v4-pro"}, r"v4-pro allows 1,048,576 \(1 too many\)"),
        (("1:1",), {"pool_page_tokens": {"c128": 64}}, r"\(64 short\): it cannot hold one entry"),
        (("1:1",), {"page_tokens": 64}, "multiple of 128 tokens .* but got 64; try 128"),
        (("1:1",), {"page_tokens": 0}, "multiple of 128 tokens"),
        (("1:1",), {"page_tokens": -128, "page_seed": 1}, "multiple of 128 tokens"),
        (("1:1",), {"pool_page_tokens": {"c5": 64}}, "unknown compressed pool 'c5'"),
        (("1:1",), {"layers": [5]}, "layer 5 does not exist: tiny has layers 0 to 4"),
        (("1:1", "1:2"), {"rows": [3]}, "packed row 3 does not exist: the step has 3 rows, 0 to 2"),
        (("1:1:4",), {"slots": 2}, "request row 4 is not free"),
        (("1:1:1", "1:1:1"), {}, "request row 1 is not free"),
        (("1:1",), {"model": "v4-flush"}, "did you mean 'v4-flash'"),
        (("1:1",), {"seed": -1}, "seed"),
    ],
)
def test_bad_questions_are_a_sentence(requests, given, words):
    with pytest.raises(InputError, match=words):
        ask(*requests, **given)


@pytest.mark.parametrize("text", ["300", "a:b", "1:2:3:4", "", "-1:3", "1.5:2", "1:"])
def test_bad_request_texts(text):
    with pytest.raises(InputError, match="is not PAST:NEW"):
        parse_request(text)


def test_request_and_page_texts():
    assert parse_request("300:4") == {"past": 300, "new": 4}
    assert parse_request("0:130:7") == {"past": 0, "new": 130, "row": 7}
    with pytest.raises(InputError, match="adds no token"):
        parse_request("5:0")
    assert parse_page("c128=2048") == ("c128", 2048)
    for text in ("c128", "=4", "c4=", "c4=x"):
        with pytest.raises(InputError, match="is not POOL=TOKENS"):
            parse_page(text)
    with pytest.raises(InputError, match="no request to address; give --request"):
        read_question(None, {})
