"""Every exact policy resumes to the values of the uncached run; what is left out is NaN."""

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.cache.block_file import file_name
from simulator.cache.block_store import BlockStore
from simulator.prefix.hit import Checkpoints, Extent, HitRule, LiveRows, Residency
from simulator.prefix.window_policy import parse_window_policy
from simulator.prove.replay_count import LayerNeed, ReplayCount, count_whole_window
from simulator.prove.replay_pass import trimmed_spans
from simulator.prove.resume import Rule
from simulator.prove.stored_prefix import Checkpoint
from tests.simulator.prefix.new_policy import add_powers_of_two

CUTS = (202, 256, 293, 434)
EXACT = (
    "full",
    "periodic:90",
    "periodic:128",
    "boundary",
    "periodic:90+boundary",
    "periodic:90+zero",
    "zero",
    "zero:trimmed",
    "vllm:none",
)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("policy", EXACT)
def test_exact_policies_equal_the_uncached_run(proven, policy, cut):
    resumed = proven.prover.resumption.by_policy(proven.stored[policy], proven.runs[cut])
    granule = 256 if policy == "vllm:none" else 128
    assert resumed.boundary == cut // granule * granule
    for difference in (resumed.logits, resumed.window, resumed.state):
        assert difference.not_finite == 0
        assert difference.largest <= 1e-9
    assert resumed.equal


@pytest.mark.parametrize(
    ("policy", "cut", "how", "tokens"),
    [
        ("full", 293, "restored", 0),
        ("periodic:90", 293, "run from checkpoint", 256 - 180),
        ("periodic:128", 202, "restored", 0),
        ("boundary", 293, "restored", 0),
        ("boundary", 202, "run from start", 128),
        ("boundary", 434, "restored", 0),
        ("periodic:90+zero", 293, "replay", 8 * 5),
        ("periodic:90+zero", 434, "run from checkpoint", 384 - 360),
        ("zero", 293, "replay", 8 * 5),
        ("zero:trimmed", 293, "trimmed replay", 8 + 4 * 7),
        ("bounded:8", 293, "bounded replay", 8),
    ],
)
def test_rules(proven, policy, cut, how, tokens):
    resumed = proven.prover.resumption.by_policy(proven.stored[policy], proven.runs[cut])
    assert (resumed.how, resumed.work.tokens) == (how, tokens)


@pytest.mark.parametrize("cut", CUTS)
def test_work_of_a_trimmed_replay_is_the_counted_one(proven, cut):
    """Executed rows and token-layers against the count and the closed form of the policy."""
    resumption = proven.prover.resumption
    resumed = resumption.by_policy(proven.stored["zero:trimmed"], proven.runs[cut])
    config = resumption.evaluator.config
    count = count_whole_window(config.sliding_window, config.layer_ratios, resumed.boundary)
    closed = resumption.geometry.trimmed(resumed.boundary)
    for work in (count, closed):
        assert resumed.work.tokens == work.tokens
        assert resumed.work.kv_rows == work.kv_rows
        assert resumed.work.token_layers == work.token_layers


@pytest.mark.parametrize("layer", range(5))
def test_a_trimmed_replay_spares_no_token(proven, layer):
    """One token less in any one layer (and so in those below it) leaves NaN."""
    resumption, run = proven.prover.resumption, proven.runs[293]
    pages = proven.stored["zero"].pages(run.tokens[:293])
    config = resumption.evaluator.config
    count = count_whole_window(config.sliding_window, config.layer_ratios)
    cut = [
        LayerNeed(need.kv_rows - (i <= layer), need.state_rows, need.whole - (i < layer))
        for i, need in enumerate(count.layers)
    ]
    spans = trimmed_spans(ReplayCount(tuple(cut)), pages.tokens)
    resumed = resumption.by_rule(Rule("short", None, spans), pages, run)
    assert resumed.window.not_finite > 0


@pytest.mark.parametrize("kind", ["window", "overlap", "compressed"])
def test_every_stored_kind_is_needed(proven, kind):
    """Leaving out one kind of rows shows, as NaN or as another value."""
    resumption, run = proven.prover.resumption, proven.runs[256]
    stored = proven.stored["periodic:128"]
    pages = stored.pages(run.tokens[:256])
    found = stored.checkpoint(run.tokens[:256], pages.tokens)
    lost = {
        "window": Checkpoint(found.boundary, found.first, _nan(found.window), found.overlap),
        "overlap": Checkpoint(found.boundary, found.first, found.window, _nan(found.overlap)),
        "compressed": found,
    }[kind]
    if kind == "compressed":
        pages.pages[0].update(_nan(pages.pages[0]))
    rule = resumption.rule(stored.policy, pages.tokens, lost)
    assert rule.how == "restored"
    resumed = resumption.by_rule(rule, pages, run)
    assert resumed.state.not_finite > 0
    # A NaN score is passed over by the top-k: without its overlap rows an entry is merely missing.
    assert resumed.logits.not_finite > 0 or (kind == "overlap" and resumed.logits.largest > 1e-3)
    assert not resumed.logits.equal


def _nan(rows):
    return {name: np.full_like(part, 0xFF) for name, part in rows.items()}


@pytest.fixture
def damaged(proven, tmp_path):
    """A store with blocks of two policies' kinds, of which one is damaged by the test."""
    stored = proven.prover._stored(parse_window_policy("periodic:128+boundary"))
    stored.store = BlockStore(tmp_path)
    proven.prover.prefill([stored])
    return stored


@pytest.mark.parametrize(
    ("what", "at", "boundary", "how"),
    [
        ("checkpoint", 256, 256, "run from checkpoint"),
        ("compressed", 256, 128, "restored"),
        ("compressed", 128, 0, "run from start"),
    ],
)
def test_a_damaged_block_shortens_the_hit_and_changes_no_value(
    proven, damaged, what, at, boundary, how
):
    run = proven.runs[293]
    path = damaged.store.folder / file_name(damaged._key(what, damaged.tokens, at))
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    resumed = proven.prover.resumption.by_policy(damaged, run)
    assert (resumed.boundary, resumed.how) == (boundary, how)
    assert list(damaged.store.damaged) == [path.name]
    assert resumed.logits.equal
    assert resumed.state.equal


def test_another_prefix_is_no_hit(proven):
    stored = proven.stored["full"]
    other = stored.tokens.copy()
    other[3] = (other[3] + 1) % 64
    assert stored.pages(other).tokens == 0
    assert stored.checkpoint(other, 256) is None
    other = stored.tokens.copy()
    other[200] = (other[200] + 1) % 64
    assert stored.pages(other).tokens == 128


def test_stored_bytes_by_hand(proven):
    """Rows of 16 or 8 float64, overlap rows twice and doubled for scores; 434 tokens, 5 layers."""
    row = 5 * 16 * 8
    overlap = 2 * 4 * (2 * 2 * 16 + 2 * 2 * 8) * 8
    entries = 3 * (2 * 32 * (16 + 8) + 2 * 1 * 16) * 8
    written = {name: one.written.by_kind for name, one in proven.stored.items()}
    assert written["zero"] == {"window": 0, "overlap": 0, "compressed": entries}
    assert written["full"] == {"window": 384 * row, "overlap": 3 * overlap, "compressed": entries}
    assert written["periodic:90"]["window"] == 4 * 8 * row
    assert written["boundary"]["window"] == 2 * 8 * row
    assert written["boundary"]["overlap"] == 2 * overlap
    for name, one in proven.stored.items():
        payload = sum(written[name].values())
        assert payload < one.store.nbytes < payload + 3000 * len(one.store), name


@pytest.mark.parametrize(
    ("cut", "checkpoint", "again"), [(202, 128, 0), (256, 256, 0), (293, 256, 0), (434, 256, 128)]
)
def test_a_policy_that_is_added_is_proved(proven, tmp_path, monkeypatch, cut, checkpoint, again):
    """Windows after 1, 2, 4, ... 256 of 434 tokens: the last one before the hit is restored."""
    add_powers_of_two(monkeypatch)
    stored = proven.prover._stored(parse_window_policy("powers"))
    stored.store = BlockStore(tmp_path)
    proven.prover.prefill([stored])
    assert stored.kept == [2**power for power in range(9)]
    assert proven.prover.resumption.check(stored.policy) is None
    resumed = proven.prover.resumption.by_policy(stored, proven.runs[cut])
    assert (resumed.checkpoint, resumed.work.tokens) == (checkpoint, again)
    assert resumed.equal


def test_bounded_replay_is_finite_and_inexact(proven):
    resumed = proven.prover.resumption.by_policy(proven.stored["bounded:8"], proven.runs[293])
    assert resumed.logits.not_finite == resumed.window.not_finite == 0
    assert resumed.logits.largest > 1e-3
    assert not proven.stored["bounded:8"].policy.exact


def test_a_bounded_replay_below_the_window_is_refused(proven):
    with pytest.raises(
        InputError, match="runs 5 tokens again, but the windows of test-8 hold 8: 3"
    ):
        proven.prover.resumption.check(parse_window_policy("bounded:5"))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("policy", [*EXACT, "bounded:8"])
def test_a_hit_is_counted_as_it_is_executed(proven, policy, cut):
    """Tokens that the hit rule counts as run again, and its windows, are those that were."""
    stored, run = proven.stored[policy], proven.runs[cut]
    resumed = proven.prover.resumption.by_policy(stored, run)
    tails = Checkpoints({at: "disk" for at in stored.kept})
    everywhere = LiveRows([(0, 384, "disk")], 8, 128) if stored.policy.everywhere else tails
    residency = Residency(
        known_tokens=cut,
        compressed=[Extent(384, "disk")],
        windows=everywhere,
        overlaps=everywhere,
    )
    rule = HitRule(
        policy=stored.policy,
        geometry=proven.prover.resumption.geometry,
        granule_tokens=stored.granule,
    )
    hit = rule.find(len(run.tokens), residency)
    assert hit.recomputed_tokens - hit.rounding_tokens == resumed.work.tokens
    assert hit.loaded_tokens + resumed.work.tokens == resumed.boundary
    assert hit.restored_at == resumed.checkpoint
    if resumed.checkpoint:
        # Entries of a page that a window ends in are not made from half of its tokens.
        pages = sum(load.tokens for load in hit.loads if load.pool == "compressed")
        assert pages == -(-resumed.checkpoint // 128) * 128
