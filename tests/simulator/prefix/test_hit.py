"""All-pool hits: agreement of pools, what is loaded from where, and who vetoed the rest."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.prefix.hit import Checkpoints, Extent, HitRule, LiveRows, Load, Residency, Veto
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy

PRO = WindowGeometry(128, 61)


def find(prompt, residency, policy="full", **options):
    rule = HitRule(policy=parse_window_policy(policy), geometry=PRO, **options)
    return rule.find(prompt, residency)


def test_pages_window_and_overlap_agree():
    hit = find(
        10_000,
        Residency(
            known_tokens=9_000,
            compressed=[Extent(4_096, "hbm"), Extent(9_000, "dram")],
            windows=Checkpoints({8_960: "nvme", 4_096: "hbm"}),
            overlaps=Checkpoints({8_960: "dram"}),
        ),
    )
    assert hit.loaded_tokens == 8_960
    assert hit.recomputed_tokens == 40  # the page that is not whole
    assert hit.computed_tokens == 1_000
    assert hit.loads == (
        Load("compressed", "hbm", 4_096),
        Load("compressed", "dram", 4_864),
        Load("window", "nvme", 128, 1),
        Load("overlap", "dram", 4, 1),
    )
    assert hit.vetoes == ()
    assert hit.vetoed_by is None
    assert hit.rounding_tokens == 40


def test_the_window_vetoes():
    pages = [Extent(20_000, "hbm")]
    hit = find(30_000, Residency(known_tokens=20_000, compressed=pages))
    assert (hit.loaded_tokens, hit.vetoed_by) == (0, "window")
    kept = Checkpoints({8_192: "dram"})
    hit = find(30_000, Residency(known_tokens=20_000, compressed=pages, windows=kept))
    assert hit.loaded_tokens == hit.restored_at == 8_192
    assert hit.vetoes == (Veto("window", 19_968 - 8_192),)


def test_overlap_rows_veto_what_the_window_allows():
    hit = find(
        30_000,
        Residency(
            known_tokens=25_000,
            compressed=[Extent(20_000, "hbm")],
            windows=Checkpoints({16_384: "hbm", 8_192: "hbm", 4_096: "hbm"}),
            overlaps=Checkpoints({12_288: "hbm", 4_096: "hbm"}),
        ),
    )
    assert hit.loaded_tokens == 4_096
    assert hit.vetoes == (
        Veto("compressed", 5_000),
        Veto("window", 19_968 - 16_384),
        Veto("overlap", 16_384 - 4_096),
    )
    assert hit.vetoed_by == "overlap"


def test_zero_replays_behind_all_pages():
    pages = Residency(known_tokens=20_000, compressed=[Extent(20_000, "dram")])
    hit = find(30_000, pages, "zero")
    assert hit.loaded_tokens == 19_968 - 7_808
    assert hit.replay.tokens == 7_808
    assert hit.loads == (Load("compressed", "dram", 19_968),)
    trimmed = find(30_000, pages, "zero:trimmed")
    assert trimmed.loaded_tokens == 19_968 - 7_748
    assert trimmed.replay.token_layers == 232_470
    short = Residency(known_tokens=5_000, compressed=[Extent(5_000, "dram")])
    assert find(30_000, short, "zero").loaded_tokens == 0
    assert find(30_000, short, "zero").replay is None
    assert find(30_000, short, "zero").loads == ()


def test_a_replay_is_clipped_by_a_checkpoint():
    windows = Checkpoints({16_384: "hbm"})
    pages = Residency(known_tokens=20_000, compressed=[Extent(20_000, "hbm")], windows=windows)
    hit = find(30_000, pages, "periodic:8192+zero")
    assert hit.loaded_tokens == hit.restored_at == 16_384
    assert hit.replay is None


def test_live_rows_resume_at_any_granule_behind_a_whole_tail():
    rows = LiveRows([(0, 1_000, "hbm"), (5_000, 6_000, "dram")], 128, 128)
    assert rows.last(10_000) == (5_888, "dram")
    assert rows.last(5_300) == (5_248, "dram")
    assert rows.last(5_100) == (896, "hbm")
    assert rows.last(128) == (128, "hbm")
    assert rows.last(100) is None


def test_the_last_token_is_computed_unless_whole_prompts_are_counted():
    pages = Residency(
        known_tokens=1_024,
        compressed=[Extent(1_024, "hbm")],
        windows=LiveRows([(0, 1_024, "hbm")], 128, 128),
    )
    served = find(1_024, pages)
    assert served.loaded_tokens == 896
    assert served.computed_tokens == 1
    whole = find(1_024, pages, whole_prompt=True)
    assert whole.loaded_tokens == 1_024
    assert whole.computed_tokens == 0


@st.composite
def residencies(draw):
    ends = sorted(draw(st.sets(st.integers(1, 40_000), max_size=4)))
    boundary = st.integers(1, 300).map(lambda n: 128 * n)
    marks = st.dictionaries(boundary, st.sampled_from(["hbm", "dram"]), max_size=5)
    overlaps = draw(st.none() | marks)
    return Residency(
        known_tokens=draw(st.integers(0, 50_000)),
        compressed=[Extent(end, draw(st.sampled_from(["hbm", "nvme"]))) for end in ends],
        windows=Checkpoints(draw(marks)),
        overlaps=None if overlaps is None else Checkpoints(overlaps),
    )


POLICIES = ["full", "boundary", "periodic:4096", "zero", "zero:trimmed", "bounded:128+boundary"]


@given(st.integers(0, 50_000), residencies(), st.sampled_from(POLICIES), st.booleans())
def test_every_token_has_one_fate(prompt, residency, policy, whole):
    hit = find(prompt, residency, policy, whole_prompt=whole)
    assert hit.loaded_tokens + hit.recomputed_tokens + hit.computed_tokens == prompt
    assert min(hit.loaded_tokens, hit.recomputed_tokens, hit.computed_tokens) >= 0
    if prompt and not whole:
        assert hit.computed_tokens >= 1
    known = min(residency.known_tokens, prompt if whole else max(0, prompt - 1))
    lost = sum(veto.tokens for veto in hit.vetoes) + hit.rounding_tokens
    assert hit.loaded_tokens + lost == known
    loaded = sum(load.tokens for load in hit.loads if load.pool == "compressed")
    assert loaded >= hit.loaded_tokens
    if hit.replay is None:
        assert loaded == hit.loaded_tokens
        assert hit.loaded_tokens % 128 == 0


@given(st.integers(1, 50_000), residencies(), st.sampled_from(POLICIES))
def test_more_windows_never_lower_a_hit(prompt, residency, policy):
    fewer = Residency(
        known_tokens=residency.known_tokens,
        compressed=residency.compressed,
        overlaps=residency.overlaps,
    )
    assert (
        find(prompt, fewer, policy).loaded_tokens <= find(prompt, residency, policy).loaded_tokens
    )
