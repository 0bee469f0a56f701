"""`v4sim prefix compare --reference`: figures, JSON, and one sentence for bad input."""

import json
import os
from pathlib import Path

import pytest

from simulator.cli.main import main
from tests.sampling import WHOLE
from tests.simulator.prefix.new_policy import add_powers_of_two

ROWS = [
    (0, 1_024, [0, 1]),
    (0, 1_500, [0, 1, 2]),
    (3_000, 1_500, [0, 1, 2]),
    (6_000, 700, [0, 9]),
]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "made.jsonl"
    lines = [
        json.dumps(
            {"timestamp": at, "input_length": n, "output_length": 5, "hash_ids": ids}
        )
        for at, n, ids in ROWS
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


def run(capsys, *arguments):
    code = main(["prefix", "compare", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), captured.err


@pytest.mark.parametrize(("tokens", "hit"), [(4_096, 3_840), (4_097, 4_096)])
def test_a_prompt_that_is_sent_again(capsys, tmp_path, tokens, hit):
    """Whole granules of vLLM's 256 tokens before the last token, which is computed."""
    path, out = tmp_path / "again.jsonl", tmp_path / "out.json"
    row = {"input_length": tokens, "output_length": 10, "hash_ids": list(range(-(-tokens // 512)))}
    path.write_text("".join(json.dumps({"timestamp": t, **row}) + "\n" for t in (0, 60_000)))
    code, text, _ = run(
        capsys, "--trace", path, "--model", "v4-flash", "--engine", "vllm-0.33",
        "--policies", "full,boundary,vllm:0,sglang", "--json", out,
    )  # fmt: skip
    assert code == 0
    shares = [row["hit_fraction"] for row in json.loads(out.read_text())["policies"]]
    assert shares == [hit / (2 * tokens)] * 4
    assert f"{50 * hit / tokens:.2f}" in text


def test_a_policy_that_is_added_is_compared(capsys, trace, tmp_path, monkeypatch):
    """Windows after 1, 2, 4, ... tokens, pages of 128; the second prompt comes with the first."""
    add_powers_of_two(monkeypatch)
    out = tmp_path / "out.json"
    asked = ["--trace", trace, "--policies", "powers", "--model", "v4-flash", "--json", out]
    asked += ["--engine", "ideal"]
    assert run(capsys, *asked)[0] == 0
    [row] = json.loads(out.read_text())["policies"]
    assert row["hit_fraction"] * 4_724 == pytest.approx(0 + 1_024 + 512)
    assert run(capsys, *asked, "--reference")[0] == 0
    [row] = json.loads(out.read_text())["policies"]
    assert row["hit_tokens"] == 1_024 + 1_024 + 512


def test_help_has_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim prefix compare" in out


def test_figures_by_hand(capsys, trace, tmp_path):
    path = tmp_path / "out.json"
    code, out, _ = run(
        capsys, "--trace", trace, "--reference",
        "--policies", "full,periodic:512,boundary,bounded:100",
        "--capacity-tokens", "1K,0.01M", "--eviction", "lru,belady", "--json", path,
    )  # fmt: skip
    assert code == 0
    data = json.loads(path.read_text())
    assert data["input_tokens"] == 4_724
    hits = {row["policy"]: row["hit_tokens"] for row in data["policies"]}
    assert hits == {
        "full": 1_024 + 1_500 + 512,
        "periodic:512": 1_024 + 1_024 + 512,
        "boundary": 1_024 + 1_024,
        "bounded:100": 924 + 1_400 + 412,
    }
    assert data["policies"][0]["hit_fraction"] == pytest.approx(3_036 / 4_724)
    assert "64.27 %" in out
    served = {row["policy"]: row["served_hit_tokens"] for row in data["policies"]}
    assert served["full"] == 3_035
    pools = [
        (row["eviction"], row["capacity_blocks"], row["hit_blocks"]) for row in data["capacities"]
    ]
    assert pools == [("lru", 1, 3), ("lru", 19, 6), ("belady", 1, 3), ("belady", 19, 6)]
    # One block of room: three of the six that are asked again lie one request apart.
    bounds = [(row["lower_hit_tokens"], row["upper_hit_tokens"]) for row in data["bounds"]]
    assert bounds == [(1_536, 1_536), (3_036, 3_036)]
    assert "Bounds of that pool, whatever leaves first" in out
    for row in data["window_bounds"]:
        assert row["gap_bytes"] == row["upper_bytes"] - row["lower_bytes"] >= 0
    assert len(data["window_bounds"]) == 4 * 2
    assert [row["exact"] for row in data["policies"]] == [True, True, True, False]
    assert any("approximate" in line for line in data["assumptions"])
    assert any("up to 511 tokens" in note for note in data["notes"])


def test_the_model_sets_the_replay(capsys, trace, tmp_path):
    lost = {}
    for model in ("v4-flash", "v4-pro"):
        path = tmp_path / f"{model}.json"
        long = tmp_path / "long.jsonl"
        row = {"timestamp": 0, "input_length": 51_200, "output_length": 1}
        row["hash_ids"] = list(range(100))
        long.write_text(2 * (json.dumps(row) + "\n"))
        code, _, _ = run(
            capsys, "--trace", long, "--reference", "--policies", "zero,zero:trimmed",
            "--model", model, "--json", path,
        )  # fmt: skip
        assert code == 0
        lost[model] = [
            row["window_lost_tokens"] for row in json.loads(path.read_text())["policies"]
        ]
    assert lost == {"v4-flash": [5_504, 5_462], "v4-pro": [7_808, 7_748]}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--policies", "perodic:4096"], "did you mean 'periodic'"),
        (["--capacity-tokens", "100"], "give at least 512"),
        (["--capacity-tokens", "-1M"], "is not a number of tokens"),
        (["--capacity-tokens", ","], "no capacity given"),
        (["--capacity-tokens", "1M", "--eviction", "lrru"], "did you mean 'lru'"),
        (["--capacity-tokens", "1M", "--eviction", ","], "no eviction policy given"),
        (["--model", "v4-proo"], "v4-pro"),
    ],
)
def test_bad_input_is_a_sentence(capsys, trace, options, says):
    code, out, err = run(capsys, "--trace", trace, "--reference", *options)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_trace_that_is_not_there(capsys, tmp_path):
    code, _, err = run(capsys, "--trace", tmp_path / "none.jsonl", "--reference")
    assert code == 2
    assert "none.jsonl" in err


@pytest.mark.skipif(
    not os.environ.get("V4SIM_TRACES"), reason="V4SIM_TRACES names no folder of real traces"
)
def test_mooncake_from_the_command_line(capsys, tmp_path):
    path = tmp_path / "out.json"
    code, out, _ = run(
        capsys, "--trace", Path(os.environ["V4SIM_TRACES"]) / "mooncake_conversation.jsonl.gz",
        "--reference", "--json", path,
    )  # fmt: skip
    assert code == 0
    assert "37.36 %" in out
    percent = {
        row["policy"]: 100 * row["hit_fraction"] for row in json.loads(path.read_text())["policies"]
    }
    assert percent["boundary"] == pytest.approx(34.97, abs=0.05)


def test_on_tiers(capsys, trace, tmp_path):
    path = tmp_path / "out.json"
    arguments = (
        "--trace", trace, "--policies", "full,boundary,bounded:128", "--model", "v4-flash",
        "--engine", "ideal", "--write", "back", "--choose", "--json",
    )  # fmt: skip
    code, out, _ = run(capsys, *arguments, path)
    assert code == 0
    assert "v4-flash on 8 h200" in out
    assert "bounded:128 ~" in out
    data = json.loads(path.read_text())
    assert data["schema"] == "v4sim.prefix_tiers/1"
    for row in data["policies"]:
        fates = row["loaded_tokens"] + row["recomputed_tokens"] + row["computed_tokens"]
        assert fates == row["input_tokens"] == 4_724
        assert len(row["ttft_ns"]) == 4
        assert row["ttft_mean_s"] <= row["uncached_mean_s"]
        assert row["usd_per_m_input"] > 0
        assert [tier["name"] for tier in row["tiers"]] == ["hbm", "dram", "nvme", "remote"]
    # All three prompts asked at 0 are served before any of them is stored; pages are of 128.
    assert data["policies"][0]["loaded_tokens"] == 1_408 + 512
    again = tmp_path / "again.json"
    run(capsys, *arguments, again)
    assert json.loads(again.read_text())["policies"] == data["policies"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--capacity-tokens", "1M"], "belongs to --reference"),
        (["--tiers", "nodes"], "unknown tiers 'nodes'"),
        (["--node", "h200x8"], "did you mean 'h200-x8'"),
        (["--write", "thru"], "did you mean 'through'"),
        (["--window-eviction", "lur"], "did you mean 'lru'"),
        (["--engine", "vllm-0.33", "--policies", "periodic:128"], "nearest is 256"),
        (["--tp", "3"], "tp 3 x dp 1 is 3 chips, but node h200-x8 has 8"),
        (["--eviction", "fifo"], "--eviction belongs to --reference"),
        (["--reference", "--eviction", "fifo"], "give --capacity-tokens as well"),
        (["--over-limit", "cut"], "unknown over_limit 'cut'"),
        (["--spread-seed", "-1"], "spread_seed is -1"),
    ],
)
def test_bad_tiers_are_a_sentence(capsys, trace, options, says):
    code, out, err = run(capsys, "--trace", trace, *options)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert out == ""


def test_engines_differ_in_how_they_load(capsys, trace, tmp_path):
    """And data ranks may be named; storage is paid for beside the chips."""
    path = tmp_path / "out.json"
    arguments = ("--trace", trace, "--policies", "full", "--tp", "4", "--dp", "2", "--share-link")
    code, out, _ = run(capsys, *arguments, "--engine", "vllm-0.33", "--json", path)
    data = json.loads(path.read_text())
    assert code == 0
    assert "vllm-0.33 loads prefixes before computing (guessed" in out
    assert (data["layer_by_layer"], data["tensor_parallel"], data["data_parallel"]) == (False, 4, 2)
    row = data["policies"][0]
    storage = row["storage_usd_per_m_input_by_tier"]
    assert set(storage) == {"dram", "nvme"}
    assert "storage costs leave out remote" in out
    total = row["usd_per_m_input"] + sum(storage.values())
    assert row["total_usd_per_m_input"] == pytest.approx(total)
    run(capsys, *arguments, "--engine", "sglang-0.5", "--json", path)
    assert json.loads(path.read_text())["layer_by_layer"] is True


def test_a_drive_that_is_too_slow_to_write_is_said(capsys, trace, tmp_path):
    tiers = tmp_path / "tiers.yaml"
    size = "{value: 9, unit: GB, kind: guessed, note: t}"
    rate = "{value: 1, unit: %s, kind: guessed, note: t}"
    tiers.write_text(
        f"tiers:\n  - {{name: hbm, capacity: {size}}}\n"
        f"  - {{name: tape, capacity: {size}, read: {rate % 'GB/s'}, write: {rate % 'MB/s'}, "
        f"latency: {rate % 'ms'}}}\n"
    )
    code, out, _ = run(capsys, "--trace", trace, "--policies", "full", "--tiers", tiers)
    assert code == 0
    assert "full: writes to tape take" in out
    assert "they do not keep up" in out


def test_the_page_holds_what_was_printed(capsys, trace, tmp_path):
    folder = tmp_path / "report"
    code, out, _ = run(capsys, "--trace", trace, "--policies", "full,zero", "--out", folder)
    assert code == 0
    page = (folder / "prefix.html").read_text()
    data = json.loads((folder / "prefix.json").read_text())
    assert f"{100 * data['policies'][0]['hit_fraction']:.2f}" in page
    figures = json.loads(
        page.partition('id="figures">')[2].partition("</script>")[0].replace("\\u003c", "<")
    )
    assert set(figures) == {"capacity", "pareto", "ttft", "occupancy"}
    curve = [row for row in data["sweep_capacity"] if row["eviction"] == "lru"]
    assert figures["capacity"]["data"][0]["x"] == [row["capacity_tokens"] for row in curve]
    drawn = [name for line in figures["pareto"]["data"] for name in line["text"]]
    assert len(drawn) == len(data["sweep_unlimited"])
    assert all(figures[name]["data"] for name in ("pareto", "ttft", "occupancy"))
    names = [line["name"] for line in figures["ttft"]["data"]]
    assert names == ["no prefix cache", "full", "zero"]
    occupancy = [tier["y"][-1] for tier in figures["occupancy"]["data"]]
    assert all(0 <= share <= 1 for share in occupancy)
    assert "://" not in page.partition("<script>")[0]
    assert "prefix.html" in out


def test_a_page_needs_tiers(capsys, trace, tmp_path):
    code, _, err = run(capsys, "--trace", trace, "--reference", "--out", tmp_path / "report")
    assert code == 2
    assert "leave out --reference" in err


def test_options_of_tiers_are_named_when_they_are_not_used(capsys, trace):
    code, out, _ = run(capsys, "--trace", trace, "--reference", "--node", "h20-x8", "--choose")
    assert code == 0
    assert "not used with --reference: --node, --choose" in out
    code, out, _ = run(capsys, "--trace", trace, "--reference")
    assert "not used" not in out


@pytest.mark.parametrize("options", [[], ["--reference"]])
def test_a_trace_without_any_input_is_a_sentence(capsys, tmp_path, options):
    path = tmp_path / "none.jsonl"
    row = {"timestamp": 0, "input_length": 0, "output_length": 0, "hash_ids": []}
    path.write_text(json.dumps(row) + "\n")
    code, _, err = run(capsys, "--trace", path, *options)
    assert code == 2
    assert "has no request left to count" in err
    assert "dropped 1 request without input tokens" in err


@pytest.mark.parametrize("options", [[], ["--reference"]])
@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
        "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,4808,10\n",
        "provider,round_index,t_first_event_s,input_tokens_total,prefix_tokens,"
        "newly_append_tokens,output_tokens,n_tools,max_tool_wall_ms,first_input_event_type\n"
        "a,0,0.0,4808,4000,808,10,0,0,user_message\n",
    ],
)
def test_a_trace_without_block_ids_is_a_sentence(capsys, tmp_path, text, options):
    """Azure, Vidur and TraceLab tell lengths alone: on tiers as in reference counting."""
    path = tmp_path / "lengths.csv"
    path.write_text(text)
    code, out, err = run(capsys, "--trace", path, *options)
    assert (code, out) == (2, "")
    assert err == (
        "error: trace lengths.csv has no block ids, so that nothing is known of shared prefixes: "
        "give one with ids (Mooncake, Bailian, Weka, aiperf)\n"
    )


def test_prompts_over_the_limit_of_the_model(capsys, tmp_path):
    """Refused on tiers, or dropped with a note; reference counting asks no model."""
    path = tmp_path / "long.jsonl"
    rows = [
        {"timestamp": 0, "input_length": n, "output_length": 1, "hash_ids": list(range(n // 512))}
        for n in (512, 2_048_000)
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    code, _, err = run(capsys, "--trace", path, "--policies", "full")
    assert code == 2
    assert "999,424 over the limit of 1,048,576" in err
    code, out, _ = run(capsys, "--trace", path, "--policies", "full", "--over-limit", "drop")
    assert code == 0
    assert "dropped 1 request" in out
    assert run(capsys, "--trace", path, "--policies", "full", "--reference")[0] == 0


def test_a_tier_without_room_is_said(capsys, trace, tmp_path):
    tiers = tmp_path / "tiers.yaml"
    tiers.write_text(
        "tiers:\n  - {name: hbm, capacity: {value: 1, unit: B, kind: guessed, note: t}}\n"
    )
    options = ("--model", "v4-pro", "--engine", "ideal", "--policies", "boundary", "--tiers", tiers)
    code, out, _ = run(capsys, "--trace", trace, *options)
    assert code == 0
    # 4 pages of 128 tokens, 705,464 B each; a window of 4,559,872 B and 1,228,800 B of overlap.
    assert "tier hbm of 1 B has no room for a block of 512 tokens (2,821,856 B)" in out
    assert "or a window (5,788,672 B)" in out


def test_policies_at_their_best_share(capsys, trace, tmp_path):
    """A curve a policy, the ranking in the notes, and the division that the tiers state."""
    out = tmp_path / "out.json"
    asked = ["--trace", trace, "--policies", "boundary,zero", "--json", out]
    code, text, _ = run(capsys, *asked, "--window-shares", "shared,0.1,0.6")
    assert code == 0
    assert "each at its best share, boundary has the earliest first tokens" in text
    found = json.loads(out.read_text())["window_shares"]
    assert [one["policy"] for one in found["policies"]] == ["boundary", "zero"]
    assert [p["share"] for p in found["policies"][0]["curve"]] == ["shared", "0.1", "0.6"]
    assert found["ranking"] in json.loads(out.read_text())["notes"]
    code, text, _ = run(capsys, *asked)
    assert "as the tiers say: hbm 0.3, dram 0.3, nvme 0.5, remote 0.5" in text
    code, _, error = run(capsys, *asked, "--reference", "--window-shares", "nonsense")
    assert (code, "window share 'nonsense'" in error) == (2, True)


RANKED = ("boundary", "periodic:4096", "junction+boundary", "zero")


def small_tiers(folder, gigabytes):
    """Device memory and a tier below it, of a size each."""
    path = folder / "tiers.yaml"
    device, lower = (f"{{value: {size}, unit: GB, kind: guessed, note: t}}" for size in gigabytes)
    rate = "{value: 60, unit: GB/s, kind: guessed, note: t}"
    path.write_text(
        f"tiers:\n  - {{name: hbm, capacity: {device}}}\n"
        f"  - {{name: dram, capacity: {lower}, read: {rate}, write: {rate}, "
        "latency: {value: 10, unit: us, kind: guessed, note: t}}\n"
    )
    return path


def agents(path, sessions, turns):
    """Sessions that take turns, each going on from 8,192 shared tokens by 2,048 a turn."""
    lines = []
    for turn in range(turns):
        for session in range(sessions):
            own = range(1_000 * (session + 1), 1_000 * (session + 1) + 4 * (turn + 1))
            row = {
                "timestamp": 60_000 * (turn * sessions + session), "output_length": 5,
                "input_length": 512 * (16 + len(own)), "hash_ids": [*range(16), *own],
            }  # fmt: skip
            lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.skipif(not WHOLE, reason="takes long: a part of make test-all")
def test_the_ranking_of_four_policies_by_room(capsys, tmp_path):
    """Shared room, three fixed shares and the best: table, sentence and JSON say the same."""
    trace, out = agents(tmp_path / "agents.jsonl", 8, 6), tmp_path / "out.json"
    asked = ["--trace", trace, "--policies", ",".join(RANKED), "--json", out]
    asked += ["--window-shares", "shared,0.1,0.3,0.6,best"]
    code, text, _ = run(capsys, *asked, "--tiers", small_tiers(tmp_path, (0.1, 0.05)))
    assert code == 0
    data = json.loads(out.read_text())["window_shares"]
    curves = {
        one["policy"]: {point["share"]: point["ttft_mean_s"] for point in one["curve"]}
        for one in data["policies"]
    }
    assert list(next(iter(curves.values())))[:4] == ["shared", "0.1", "0.3", "0.6"]
    best = {policy: min(curve.values()) for policy, curve in curves.items()}
    for one in data["policies"]:
        assert curves[one["policy"]][one["best_share"]] == best[one["policy"]]
        assert all(f"{mean:.3f}" in text for mean in curves[one["policy"]].values())
    # Pages alone do not divide the room, windows do.
    assert len(set(curves["zero"].values())) == 1 < len(set(curves["periodic:4096"].values()))
    order = sorted(RANKED, key=best.get)
    assert f"in order: {', '.join(order)}" in data["ranking"]
    assert data["ranking"] in text
    firsts = {share: min(RANKED, key=lambda p: curves[p][share]) for share in curves["zero"]}
    assert len(set(firsts.values())) > 1
    listed = ", ".join(f"{policy} at {share}" for share, policy in firsts.items())
    assert data["ranking"].endswith(f"The division of the room decides who is first: {listed}.")
    code, text, _ = run(capsys, *asked, "--tiers", small_tiers(tmp_path, (500, 500)))
    assert code == 0
    assert "No share changes a first token: the room is never short for this trace." in text


def test_the_first_line_says_order_and_concurrency(capsys, trace):
    for more in ([], ["--reference"]):
        code, text, _ = run(capsys, "--trace", trace, "--policies", "full", "--live", 2, *more)
        assert code == 0
        assert text.startswith("made.jsonl: requests meet the cache with 2 of 4 sessions live")
    code, text, _ = run(capsys, "--trace", trace, "--policies", "full", "--reference")
    assert text.startswith("made.jsonl: requests meet the cache in file order (1.0 sessions open")


def test_policies_in_processes_of_their_own(capsys, trace, tmp_path, monkeypatch):
    """The same figures."""
    out = [tmp_path / "a.json", tmp_path / "b.json"]
    asked = ["--trace", trace, "--policies", "full,boundary"]
    assert run(capsys, *asked, "--json", out[0])[0] == 0
    monkeypatch.setattr("simulator.prefix.comparison._WORTH_PROCESSES", 0)
    assert run(capsys, *asked, "--json", out[1])[0] == 0
    assert out[0].read_text() == out[1].read_text()


def test_the_curve_of_hits_against_room(capsys, trace, tmp_path):
    out = tmp_path / "curve.csv"
    code, text, _ = run(
        capsys, "--trace", trace, "--policies", "full", "--reference", "--curve", out
    )
    assert code == 0
    rows = out.read_text().splitlines()
    assert rows[0] == "curve,pool_tokens,hit_tokens,hit_fraction"
    last = rows[-1].split(",")
    # Two, three and one blocks are known; partial ones count whole in a pool.
    assert int(last[2]) == 512 * (2 + 3 + 1)
    assert (tmp_path / "curve.svg").read_text().startswith("<svg")
    assert "wrote" in text
