"""Programs of engine kernels: what they ask of the families, by hand where that is short."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.basis.errors import InputError
from simulator.cost.engine_price import engine_price
from simulator.cost.family_call import priced_calls
from simulator.cost.price import Target
from simulator.cost.programs import program_calls
from simulator.cost.records import WIDEST, step_interval
from simulator.engine.kernel import Demand, Operand, Product, ProgramCall, Shape
from simulator.engine.kernel_section import FamilyRule
from simulator.engine.profile import find_profile
from simulator.engine.sizes import row
from simulator.kernels.causes import CAUSES, binding_resource, shared_out
from simulator.kernels.constants_file import chip_standing, constants_for
from simulator.kernels.gemm_time import gemm_parts
from simulator.kernels.interval import interval_of
from simulator.kernels.regime import Situation
from simulator.kernels.standing import Standing
from tests.reports.factory import make_kernel

CALL = {
    "tokens": 64,
    "own_tokens": 64,
    "experts": 256,
    "per_token": 6,
    "held": 256,
    "hidden": 4096,
    "inner": 256,
}


def target(chip: str = "h200", engine: str = "sglang-0.5", count: int = 8) -> Target:
    return Target(find_chip(chip), find_node(chip, count), find_profile(engine))


def named(kernel: str, program: str, **sizes: object) -> ProgramCall:
    rows = (row(**sizes),) if sizes else ()
    return ProgramCall(kernel=kernel, program=program, rows=rows)


def products(math: str) -> tuple[Product, ...]:
    sizes = {"count": 1, "rows": 64, "columns": 512, "depth": 4096, "macs": 64 * 512 * 4096}
    weights = 512 * 4096 * 2.0
    return (Product(shape=Shape.MATRIX, math=math, weight_bytes=weights, **sizes),)


def experts(math: str = "fp8", **changes: int) -> Demand:
    sizes_given = CALL | changes
    slots = (
        sizes_given["tokens"]
        * sizes_given["per_token"]
        * sizes_given["held"]
        // sizes_given["experts"]
    )
    each = slots * sizes_given["inner"] * sizes_given["hidden"]
    sizes = {"slots": slots, "up_columns": 2 * sizes_given["inner"], "vector_ops": 0}
    sizes |= {"up_macs": 2 * each, "down_macs": each}
    bytes_ = {"fp8": 1.0, "fp8xfp4": 0.53125}[math]
    call = named("experts", "moe", **sizes_given, **sizes, up_bytes=bytes_, down_bytes=bytes_)
    return Demand(family="experts", priced_as=call, products=products(math))


def seconds(demand: Demand, own: Target) -> float:
    priced = priced_calls(program_calls(demand, own), own.chip)
    assert priced is not None
    return float(priced.parts.total[0])


def test_a_gemm_is_that_of_its_family_with_cold_weights() -> None:
    own = target()
    demand = Demand(family="gemm", priced_as=named("gate", "gemm"), products=products("bf16"))
    price = engine_price(demand, own)
    stored = constants_for("gemm_bf16", own.chip)
    cold = gemm_parts(64, 512, 4096, "bfloat16", own.chip, stored.values, weights_warm=0.0)
    assert price.alone_ps == pytest.approx(float(cold.total[0]) * 1e12, abs=2)
    assert (price.priced_by, price.calibrated) == ("gemm_bf16", True)
    seconds_alone = float(cold.total[0])
    call = Situation(seconds_alone, cold.dominant[0], decode=True, tokens=1, requests=1)
    interval = interval_of(stored, call, seconds_alone)
    assert (price.low, price.high) == (interval.low, interval.high)


def test_experts_take_the_family_of_format_and_cores() -> None:
    found = {
        (engine, chip, math): engine_price(experts(math=math), target(chip, engine))
        for engine in ("sglang-0.5", "vllm-0.33", "trtllm-1.3")
        for chip in ("h200", "gb300")
        for math in ("fp8", "fp8xfp4")
    }
    by = {key: (price.priced_by, price.calibrated) for key, price in found.items()}
    assert by["sglang-0.5", "h200", "fp8"] == ("moe_triton_sglang", True)
    assert by["sglang-0.5", "gb300", "fp8xfp4"] == ("moe_generated_mxfp4_sglang", True)
    assert by["vllm-0.33", "gb300", "fp8"] == ("moe_generated_fp8", True)
    assert by["trtllm-1.3", "h200", "fp8"] == ("moe_cutlass", True)
    assert by["trtllm-1.3", "gb300", "fp8xfp4"] == ("moe_generated_mxfp4_vllm", False)
    # Weights alone in four bits: the form of the FP8 kernel, which was not fitted so.
    assert by["sglang-0.5", "h200", "fp8xfp4"] == ("moe_triton_sglang", False)
    assert by["vllm-0.33", "h200", "fp8xfp4"] == ("moe_triton_vllm", False)
    assert by["trtllm-1.3", "h200", "fp8xfp4"] == ("tile", False)
    borrowed = found["trtllm-1.3", "gb300", "fp8xfp4"]
    own = found["vllm-0.33", "gb300", "fp8xfp4"]
    assert borrowed.high > own.high
    assert borrowed.low < own.low


def test_a_rank_of_expert_groups_has_its_share_of_experts_and_rows() -> None:
    whole = {"tokens": 4096, "own_tokens": 512}
    assert seconds(experts(**whole, held=32), target()) < 0.3 * seconds(experts(**whole), target())
    # Eight times the tokens over eight groups: as many rows and experts as one rank alone has.
    alone = {"tokens": 512, "own_tokens": 512, "experts": 32, "held": 32}
    assert seconds(experts(**whole, held=32), target()) == pytest.approx(
        seconds(experts(**alone), target()), rel=0.15
    )


def exchange(sent: int, *, decode: bool, span: int = 8) -> Demand:
    sizes = {"operation": "all_to_all", "message_bytes": sent, "decode": float(decode)}
    return Demand(
        family="collective",
        priced_as=named("dispatch", "exchange", **sizes, floating=1.0, by_expert=1.0),
        link_bytes=sent,
        link_phases=1,
        link_ranks=span,
        link_span=span,
    )


def test_low_latency_and_high_throughput_exchange() -> None:
    own = target()
    for sent in (10_000, 10_000_000):
        low, high = (seconds(exchange(sent, decode=d), own) for d in (True, False))
        assert low < high
    c = constants_for("nccl_alltoall", own.chip).values
    expected = (c["start_us"] + c["hop_us"]) * 1e-6 + own.node.link_latency_s  # type: ignore[union-attr]
    expected += 9e6 / (own.chip.scale_up_bytes_per_s * c["link_share"])
    assert seconds(exchange(9_000_000, decode=True), own) == pytest.approx(expected)


def test_exchange_between_nodes_runs_at_the_network() -> None:
    own = target(count=16)
    inside, across = (exchange(10**7, decode=True, span=span) for span in (8, 16))
    assert seconds(across, own) > 2 * seconds(inside, own)
    price = engine_price(across, own)
    assert not price.calibrated
    assert price.bound == "link"


def test_links_of_a_mesh_are_its_own() -> None:
    own = target("ascend-910b3", "vllm-0.33")
    pair, all_eight = (exchange(10**7, decode=True, span=span) for span in (2, 8))
    assert seconds(pair, own) > 3 * seconds(all_eight, own)


def test_no_kernel_is_faster_than_its_roofline() -> None:
    demand = Demand(
        family="elementwise",
        priced_as=named("moe_sum", "elementwise"),
        inputs=(Operand(10**9),),
        vector_ops=10**12,
    )
    price = engine_price(demand, target())
    assert price.bound == "vector"
    assert sum(price.causes_ps.values()) == price.alone_ps
    assert price.causes_ps["vector"] > 0.9 * price.alone_ps


def test_times_are_shared_out_exactly() -> None:
    parts = shared_out(10, {"matrix": 1.0, "launch": 1.0, "tail": 1.0})
    assert parts == {"launch": 4, "matrix": 3, "tail": 3}
    assert shared_out(0, {"launch": 1.0}) == shared_out(5, {}) == {}
    big = shared_out(10**18 + 7, {"matrix": 1 / 3, "serial": 2 / 3})
    assert sum(big.values()) == 10**18 + 7
    assert binding_resource({}) == "launch"
    assert binding_resource({"matrix": 3, "tail": 3, "launch": 5}) == "matrix"
    assert {binding_resource({cause: 1}) for cause in CAUSES} >= {"llc", "memory", "latency"}


CALIBRATED = Standing("calibrated", "h200", "calibrated on this chip")


def test_interval_of_a_step() -> None:
    """One family errs as a whole, two in common by half; no step is wider than a factor of 4."""
    first = make_kernel("a", 0, 100, low_ps=90, high_ps=110)
    again = make_kernel("b", 100, 200, low_ps=90, high_ps=110)
    assert step_interval([first, again], 200, CALIBRATED) == (180, 220)
    other = replace(again, priced_by="moe_cutlass")
    low, high = step_interval([first, other], 200, CALIBRATED)
    # sqrt(20^2 / 2 + (10^2 + 10^2) / 2)
    assert (low, high) == (200 - 17, 200 + 17)
    hidden = make_kernel("c", 0, 50, stream=1, low_ps=45, high_ps=55)
    assert step_interval([first, hidden], 100, CALIBRATED) == (90, 110)
    assert step_interval([], 7, CALIBRATED) == (7, 7)
    wild = make_kernel("d", 0, 1000, low_ps=250, high_ps=4000)
    assert step_interval([wild], 1000, CALIBRATED) == (500, 2000)


@given(
    st.lists(
        st.tuples(
            st.integers(1000, 1_000_000), st.floats(0.3, 1), st.floats(1, 3), st.sampled_from("abc")
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["h200", "h100", "h20", "mi355x"]),
)
def test_a_step_is_never_much_narrower_than_its_kernels(launches, chip) -> None:
    """A step's relative interval is at least 0.7 of the time-weighted mean of its launches'."""
    records, start = [], 0
    for duration, low, high, family in launches:
        kernel = make_kernel(
            family,
            start,
            start + duration,
            low_ps=round(duration * low),
            high_ps=round(duration * high),
        )
        records.append(replace(kernel, priced_by=family))
        start += duration
    low, high = step_interval(records, start, chip_standing(find_chip(chip)))
    assert low <= start <= high
    mean_low = sum(r.duration_ps - r.low_ps for r in records) / start
    mean_high = sum(r.high_ps - r.duration_ps for r in records) / start
    if (1 + mean_high) / max(1 - mean_low, 1e-9) < WIDEST:
        assert start - low >= 0.7 * mean_low * start - 1
        assert high - start >= 0.7 * mean_high * start - 1
    assert high / max(low, 1) <= WIDEST * 1.01 + 2 / max(low, 1)


def test_a_family_of_another_kind_or_none_is_refused() -> None:
    own = target()
    for family, message in (
        ("gemm_bf16", "not a MoeFamily"),
        ("moe_triton", "unknown kernel family"),
    ):
        rule = FamilyRule(family=family)
        kernels = tuple(
            kernel.model_copy(update={"families": (rule,)}) if kernel.name == "experts" else kernel
            for kernel in own.profile.kernels
        )
        profile = own.profile.model_copy(update={"kernels": kernels})
        with pytest.raises(InputError, match=message):
            engine_price(experts(), Target(own.chip, own.node, profile))
