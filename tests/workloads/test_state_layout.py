import pytest

from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.entry_format import Bf16Entry, PlainEntry
from workloads.state_layout import Every, Region, Ring, StateLayout, Tail

GIB = 2**30
LAYERS = {"v4-pro": (0, 30, 31), "v4-flash": (2, 21, 20)}  # window only, CSA, HCA
FP4, FP8 = Precision(index="fp4"), Precision(index="fp8")
ALL_BF16 = Precision(index="bf16", kv="bf16")


def state(model, precision, mtp=False):
    return model_state(find_model(model), precision, mtp)


def cache_bytes(model, precision, context):
    """Bytes without the compressors' fixed state, as in the published tables."""
    pools = state(model, precision).by_pool(context)
    return sum(size for pool, size in pools.items() if not pool.endswith("_state"))


def test_growth_kinds():
    assert [Every(4).entries(n) for n in (0, 3, 4, 11)] == [0, 0, 1, 2]
    assert Every(4).resident(11) == 2
    assert [Ring(128).entries(n) for n in (0, 5, 500)] == [0, 5, 128]
    assert [Ring(128).resident(n) for n in (0, 5, 500)] == [128, 128, 128]
    assert Tail(8).resident(3) == 8


def test_layout_of_two_regions_by_hand():
    layout = StateLayout(
        (
            Region("window", "window", Ring(10), Bf16Entry(4), "a"),
            Region("pool", "csa", Every(4), Bf16Entry(8), "b"),
            Region("pool", "csa", Every(3), PlainEntry(1), "c"),
            Region("state", "csa_state", Tail(2), PlainEntry(5), "d"),
        )
    )
    # At 25 tokens: 10 rows of 8, 6 entries of 16, 8 of 4, 2 rows of 20.
    assert layout.by_pool(25) == {"window": 80, "pool": 96 + 32, "state": 40}
    assert layout.nbytes(25) == 80 + 128 + 40
    assert layout.fixed_bytes == 80 + 40
    assert layout.growth_bytes_per_token == 16 / 4 + 4 / 3


@pytest.mark.parametrize(
    ("model", "precision", "growth"),
    [
        ("v4-pro", FP4, 5031.4375),
        ("v4-flash", FP4, 3514.25),
        ("v4-pro", FP8, 5511.4375),
        ("v4-flash", FP8, 3850.25),
        ("v4-pro", ALL_BF16, 9848),
        ("v4-flash", ALL_BF16, 6880),
    ],
)
def test_growth_bytes_per_token(model, precision, growth):
    assert state(model, precision).growth_bytes_per_token == growth


@pytest.mark.parametrize(
    ("model", "windows", "compressors", "mib"),
    [("v4-pro", 4_559_872, 18_710_528, 22.19), ("v4-flash", 3_214_336, 12_206_080, 14.71)],
)
def test_fixed_bytes_of_a_request(model, windows, compressors, mib):
    swa, csa, hca = LAYERS[model]
    assert windows == (swa + csa + hca) * 128 * 584
    assert compressors == csa * (65_536 + 16_384) + hca * 524_288
    layout = state(model, FP4)
    pools = layout.by_pool(0)
    assert pools["window"] == windows
    assert sum(size for pool, size in pools.items() if pool.endswith("_state")) == compressors
    assert layout.fixed_bytes == windows + compressors
    assert layout.fixed_bytes / 2**20 == pytest.approx(mib, abs=0.005)


@pytest.mark.parametrize("model", LAYERS)
def test_bytes_by_pool(model):
    swa, csa, hca = LAYERS[model]
    n = 10_000
    assert state(model, FP4).by_pool(n) == {
        "window": (swa + csa + hca) * 128 * 584,
        "c4": csa * (n // 4) * 584,
        "c4_index": csa * (n // 4) * 68,
        "c128": hca * (n // 128) * 584,
        # (values, scores) x rows x width in fp32
        "c4_state": csa * 2 * 8 * 1024 * 4,
        "c128_state": hca * 2 * 128 * 512 * 4,
        "c4_index_state": csa * 2 * 8 * 256 * 4,
    }


# GiB a sequence, window included, compressors' state left out.
CONTEXTS = (4096, 8192, 32_768, 65_536, 131_072, 262_144, 524_288, 10**6, 2**20)
TABLE = {
    ("v4-pro", FP4): (.0234, .0426, .1578, .3113, .6184, 1.2326, 2.4610, 4.6901, 4.9178),
    ("v4-flash", FP4): (.0164, .0298, .1102, .2175, .4320, .8610, 1.7189, 3.2759, 3.4349),
    ("v4-pro", FP8): (.0253, .0463, .1724, .3406, .6770, 1.3498, 2.6954, 5.1372, 5.3865),
    ("v4-flash", FP8): (.0177, .0324, .1205, .2380, .4730, .9430, 1.8830, 3.5888, 3.7630),
}  # fmt: skip
# Windows, entries (1024 B) and index keys (256 B) all in BF16.
BF16_TABLE = {
    "v4-pro": (.0450, .0826, .3080, .6085, 1.2096, 2.4117, 4.8160, 9.1791, 9.6246),
    "v4-flash": (.0315, .0577, .2152, .4252, .8451, 1.6849, 3.3646, 6.4127, 6.7240),
}  # fmt: skip


@pytest.mark.parametrize(("case", "gib"), TABLE.items(), ids=str)
def test_cache_bytes_of_a_sequence(case, gib):
    model, precision = case
    computed = [cache_bytes(model, precision, n) / GIB for n in CONTEXTS]
    assert computed == pytest.approx(list(gib), abs=1e-4)


@pytest.mark.parametrize(("model", "gib"), BF16_TABLE.items())
def test_cache_bytes_of_a_sequence_in_bf16(model, gib):
    computed = [cache_bytes(model, ALL_BF16, n) / GIB for n in CONTEXTS]
    assert computed == pytest.approx(list(gib), abs=1e-4)


@pytest.mark.parametrize(("model", "per_token", "ratio"), [("v4-pro", 35_624, 7.88),
                                                           ("v4-flash", 25_112, 7.95)])  # fmt: skip
def test_windows_kept_for_all_tokens_are_eight_times_the_compressed_entries(
    model, per_token, ratio
):
    swa, csa, hca = LAYERS[model]
    layout = state(model, FP4)
    window = [r for r in layout.regions if r.pool == "window"]
    assert sum(r.format.nbytes for r in window) == per_token == (swa + csa + hca) * 584
    compressed = sum(
        r.format.nbytes / r.growth.tokens for r in layout.regions if r.pool in ("c4", "c128")
    )
    assert per_token / compressed == pytest.approx(ratio, abs=0.005)


def test_an_mtp_layer_adds_a_window_only():
    for model in LAYERS:
        without, with_mtp = state(model, FP4), state(model, FP4, mtp=True)
        assert with_mtp.fixed_bytes - without.fixed_bytes == 128 * 584
        assert with_mtp.growth_bytes_per_token == without.growth_bytes_per_token
        assert [r.name for r in with_mtp.regions if r not in without.regions] == ["mtp/attn/window"]


def test_names_are_unique_and_of_their_layer():
    names = [r.name for r in state("v4-flash", FP8).regions]
    assert len(set(names)) == len(names) == 2 * 1 + 21 * 5 + 20 * 3
    assert names[:3] == ["layer00/attn/window", "layer01/attn/window", "layer02/attn/window"]
