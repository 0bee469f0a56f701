"""Bytes by hand, times against the step of `v4sim step`, and chips without fitting units."""

from dataclasses import replace

import pytest

from hwmodels.chip import find_chip, list_chips
from simulator.basis.errors import InputError
from simulator.cost.engine_price import engine_price
from simulator.cost.math_rate import math_rate
from simulator.cost.price import Target
from simulator.cost.question import ask
from simulator.cost.roofline import roofline_price
from simulator.cost.step import cost_step, rank_graph
from simulator.engine.lowering import lower
from simulator.engine.profile import find_profile
from simulator.indexer.cost import asked, costs, index_math, scan_price
from workloads.deepseek_v4.precision import Precision
from workloads.run_stats import RunStats

CLASSES = {"fp4": "fp4_index", "fp8": "fp8", "bf16": "bf16"}


def points(chip="h200", context=131072, model="v4-flash", batch=64, count=8):
    found = costs(
        model=model, chips=[chip], contexts=[context], batch=batch, count=count, engine="ideal"
    )
    return {point.precision: point for point in found}


@pytest.fixture(scope="module")
def h200():
    return points()


@pytest.fixture(scope="module")
def b200():
    return points("b200")


def test_bytes_by_hand(h200):
    # 128 values: half a byte and 4 scales; a byte and one fp32 scale; two bytes.
    assert {p: c.key_bytes for p, c in h200.items()} == {"fp4": 68, "fp8": 132, "bf16": 256}
    assert {p: c.query_bytes for p, c in h200.items()} == {
        "fp4": 64 * 68, "fp8": 64 * 132, "bf16": 64 * 256,
    }  # fmt: skip
    for point in h200.values():
        # 64 requests on 8 chips; a key for 4 tokens.
        assert (point.requests, point.scan_layers) == (8, 21)
        assert point.scan_bytes == 8 * (131072 // 4) * point.key_bytes


def test_cache_bytes_of_a_token_by_hand(h200):
    # 21 layers of (584 + key) / 4 and 20 of 584 / 128.
    for point in h200.values():
        by_hand = 21 * (584 + point.key_bytes) / 4 + 20 * 584 / 128
        assert point.cache_bytes_per_token == by_hand
    assert [h200[p].cache_bytes_per_token for p in CLASSES] == [3514.25, 3850.25, 4501.25]


def test_capacity_goes_with_the_inverse_of_a_tokens_bytes(h200):
    free = {p: c.capacity_tokens * c.cache_bytes_per_token for p, c in h200.items()}
    assert free["fp4"] == pytest.approx(free["fp8"], rel=5e-3)
    # 141 GB less weights: 284e9 parameters, most of them a byte, over 8 chips, attention whole.
    assert 85e9 < free["fp8"] < 110e9


def test_rate_is_bytes_over_time_and_below_the_peak(h200):
    for point in h200.values():
        assert point.scan_bytes_per_s == pytest.approx(point.scan_bytes / point.scan_ps * 1e12)
        assert point.scan_bytes_per_s < point.peak_bytes_per_s == 4.8e12


@pytest.mark.parametrize("precision", CLASSES)
@pytest.mark.parametrize("chip", ["b200", "h200", "ascend-910c"])
def test_step_is_that_of_v4sim_step(request, chip, precision):
    point = points(chip)[precision] if "910" in chip else request.getfixturevalue(chip)[precision]
    step = asked("v4-flash", chip, 131072, 64, 8, precision, "ideal")
    result = cost_step(step)
    scan = next(kernel for kernel in result.kernels if kernel.name == "index_score")
    assert point.step_ps == result.total_ps
    assert point.scan_bytes == scan.cache_read_bytes
    assert point.scan_ps == scan.duration_ps or scan.stretches
    runs_in = index_math(step.chip, precision).runs_in.upper()
    assert point.math == f"{'' if runs_in == precision.upper() else 'unpacked, '}{runs_in} units"


def test_smaller_keys_take_less_time_and_share(b200):
    for smaller, larger in (("fp4", "fp8"), ("fp8", "bf16")):
        assert b200[smaller].scan_ps < b200[larger].scan_ps
        assert b200[smaller].step_ps < b200[larger].step_ps
        assert b200[smaller].scan_share < b200[larger].scan_share


def scan_of(chip, precision, engine="ideal"):
    """One layer's scan, and what prices it."""
    step = asked("v4-flash", chip, 131072, 64, 8, precision, "ideal")
    asked_for = Precision(expert=step.question.expert_dtype, index=precision)
    target = Target(step.chip, step.node, find_profile(engine))
    kernels = lower(rank_graph(step.question, step.config, asked_for), target.profile, RunStats())
    return next(k.demand for k in kernels if k.name == "index_score"), target


@pytest.mark.parametrize("precision", ["fp4", "fp8"])
def test_a_chip_without_units_unpacks(precision):
    # 8 requests with 131,072 / 4 keys of 128 values, each fetched by one block of queries.
    scan, target = scan_of("h200", precision)
    (product,) = scan.products
    assert product.weight_elements == 8 * 32768 * 128 == 33_554_432
    plain = replace(scan, products=(replace(product, weight_elements=0.0),))
    for chip, unpacks in (("b200", ()), ("h200", ("fp4",)), ("ascend-910c", ("fp4", "fp8"))):
        own = replace(target, chip=find_chip(chip))
        more = (
            roofline_price(scan, own).busy_ps["vector"]
            - roofline_price(plain, own).busy_ps["vector"]
        )
        operations = 2 * 33_554_432 if precision in unpacks else 0
        assert more == pytest.approx(operations / own.chip.vector_flops_per_s * 1e12, abs=1)
        assert index_math(own.chip, precision).unpacks is (precision in unpacks)
        assert math_rate(own.chip, CLASSES[precision]).convert is (precision in unpacks)


def test_unpacking_costs_time_where_vector_units_are_slow():
    scan, target = scan_of("ascend-910c", "fp4")
    plain = replace(scan, products=(replace(scan.products[0], weight_elements=0.0),))
    before, after = engine_price(plain, target), engine_price(scan, target)
    assert after.busy_ps["vector"] > 1.5 * before.busy_ps["vector"]
    assert after.alone_ps > before.alone_ps
    assert after.traffic == before.traffic
    assert after == scan_price(asked("v4-flash", "ascend-910c", 131072, 64, 8, "fp4", "ideal"))


def test_measured_engines_say_what_is_unpacked():
    for chip, said in (("h200", ", unpacked to fp8: as if"), ("b200", ": as if")):
        step = ask(
            model="v4-flash", chip=chip, count=8, engine="sglang-0.5", index_dtype="fp4", batch=8
        )
        result = cost_step(step)
        assert (
            result.priced_as[0]
            == f"Index keys in fp4{said} sglang-0.5 had this kernel, not measured"
        )


@pytest.mark.parametrize("chip", list_chips())
@pytest.mark.parametrize("precision", CLASSES)
def test_products_run_at_the_rate_of_the_cost_model(chip, precision):
    spec = find_chip(chip)
    rate = spec.matrix_flops_per_s(index_math(spec, precision).runs_in)
    assert rate == math_rate(spec, CLASSES[precision]).flops_per_s


def test_a_step_that_does_not_fit_still_has_its_scan():
    pro = points("h200", model="v4-pro", batch=8, count=8)["fp8"]
    assert (pro.step_ps, pro.scan_share) == (None, None)
    assert "does not fit: weights and workspace alone exceed" in pro.misfit
    assert pro.scan_bytes == (131072 // 4) * 132
    assert pro.scan_ps > 0
    assert pro.capacity_tokens == 0


def test_a_context_without_a_key_is_one_sentence():
    with pytest.raises(InputError, match=r"--context 3 holds no index key.*1 more"):
        asked("v4-flash", "h200", 3, 8, 8, "fp4")
