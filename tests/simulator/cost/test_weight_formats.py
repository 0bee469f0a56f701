"""Checkpoints of other formats in steps and capacity: bytes, kernels, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.basis.errors import InputError, UnsupportedError
from simulator.basis.yaml_loader import compose_yaml
from simulator.capacity.capacity import capacity_of
from simulator.capacity.capacity_question import ask_capacity
from simulator.cost.question import ask
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step
from simulator.cost.step_timer import StepTimer
from workloads.step_shape import StepShape

MODELS = Path(__file__).parents[3] / "workloads" / "deepseek_v4" / "models"
FLASH: dict[str, Any] = compose_yaml(MODELS / "v4-flash.yaml")[0]
GROUP = {"weights": {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}}
FORMS: dict[str, Any] = {
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["*attn*"]},
    "w4a16": {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": GROUP | {"targets": ["re:.*mlp\\.experts.*"]}},
    },
    "mlx": {"bits": 4, "group_size": 64},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder, found = tmp_path_factory.mktemp("models"), {"v4-flash": "v4-flash"}
    for name, form in FORMS.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(FLASH | {"quantization_config": form}))
        found[name] = str(path)
    bare = {k: v for k, v in FLASH.items() if k not in ("quantization_config", "expert_dtype")}
    found["w8a8"] = str(folder / "w8a8.json")
    Path(found["w8a8"]).write_text(json.dumps(bare | {"quantize": "w8a8_dynamic"}))
    return found


def step(model: str, **asked: Any) -> StepResult:
    given = {"chip": "b200", "count": 8, "batch": 16, "context": 8192} | asked
    return cost_step(ask(model=model, **given))


def kernel(result: StepResult, name: str) -> Any:
    return next(k for k in result.kernels if k.name == name)


def test_formats_move_weights_and_time(files: dict[str, str]) -> None:
    found = {name: step(path) for name, path in files.items()}
    weights = {name: kernel(r, "experts").weight_bytes for name, r in found.items()}
    # Bytes of a weight: 17/32, 9/16, 33/64, 9/16 and one, with a scale a row.
    for name, ratio in (("nvfp4", 18 / 17), ("w4a16", 33 / 34), ("mlx", 18 / 17)):
        assert weights[name] / weights["v4-flash"] == pytest.approx(ratio, rel=1e-3)
    # A rank's rows of w2 are an eighth as long, with a scale of 4 B each still.
    per_weight = 1 + (2 / 4096 + 1 / 256) * 4 / 3
    assert weights["w8a8"] / weights["v4-flash"] == pytest.approx(per_weight * 32 / 17, rel=1e-3)
    assert len({r.total_ps for r in found.values()}) == 5
    assert kernel(found["w8a8"], "q_b").weight_bytes < kernel(found["w4a16"], "q_b").weight_bytes


def test_a_format_without_a_kernel_is_said_with_a_wide_interval(files: dict[str, str]) -> None:
    for name, math in (("w4a16", "bf16x4"), ("mlx", "bf16x4"), ("w8a8", "int8")):
        result = step(files[name])
        (said,) = [s for s in result.priced_as if "no measured kernel" in s]
        assert f"for {math} products on b200" in said
        assert "experts" in said
        assert result.high_ps / result.total_ps > 1.3
    assert not [s for s in step("v4-flash").priced_as if "no measured kernel" in s]


def test_nvfp4_has_kernels_on_blackwell_only(files: dict[str, str]) -> None:
    own = kernel(step(files["nvfp4"], engine="vllm-0.33"), "experts")
    assert (own.priced_by, own.calibrated) == ("moe_generated_nvfp4", True)
    borrowed = kernel(step(files["nvfp4"]), "experts")
    assert (borrowed.priced_by, borrowed.calibrated) == ("moe_generated_nvfp4", False)
    other = step(files["nvfp4"], chip="h200")
    assert kernel(other, "experts").priced_by == "tile"
    assert any("no measured kernel for nvfp4 products on h200" in s for s in other.priced_as)


def test_integer_units_are_used_where_a_chip_has_them(files: dict[str, str]) -> None:
    result = step(files["w8a8"], chip="ascend-910b3")
    assert result.peaks.matrix_flops_per_s["int8"] > result.peaks.matrix_flops_per_s["bf16"]


def test_capacity_counts_the_checkpoint(files: dict[str, str]) -> None:
    def weights(model: str) -> int:
        return capacity_of(ask_capacity(model=model, chip="b200", count=8)).weight_bytes

    assert weights(files["w8a8"]) > 1.7 * weights("v4-flash")
    assert weights(files["w4a16"]) < weights(files["nvfp4"])


def test_every_line_of_the_table_is_a_repack() -> None:
    small = step("v4-flash", expert_dtype="affine2")
    large = step("v4-flash", expert_dtype="bf16")
    assert kernel(small, "experts").weight_bytes < kernel(large, "experts").weight_bytes / 5
    with pytest.raises(InputError, match="unknown expert dtype"):
        step("v4-flash", expert_dtype="fp5")


@pytest.mark.parametrize("engine", ["sglang-0.5", "vllm-0.33", "trtllm-1.3", "ideal", "ascend"])
def test_drafts_of_a_dspark_head(engine: str) -> None:
    plain = step("v4-flash-0731", engine=engine)
    drafted = step("v4-flash-0731", engine=engine, draft_tokens=5)
    scopes = {k.scope for k in drafted.kernels}
    assert {"mtp", "mtp1", "mtp2", "draft:mtp", "draft:mtp1", "draft:mtp2"} <= scopes
    assert drafted.total_ps > plain.total_ps
    # Six rows a request are verified.
    core = next(k for k in drafted.kernels if k.scope == "layer02" and "core" in k.name)
    own = next(k for k in plain.kernels if k.scope == "layer02" and "core" in k.name)
    assert sum(core.flops.values()) > 5 * sum(own.flops.values())
    tokens = [k for k in drafted.kernels if k.name == "draft_tokens"]
    # The table of the bias is read once for each of the five positions.
    assert sum(k.weight_bytes for k in tokens) > 5 * 129280 * 256 * 2


def test_longer_blocks_are_drafted_by_vllm_alone() -> None:
    with pytest.raises(UnsupportedError, match="drafts a block of 5"):
        step("v4-flash-0731", draft_tokens=6)
    five, seven = (step("v4-flash-0731", engine="vllm-0.33", draft_tokens=n) for n in (5, 7))
    assert seven.total_ps > five.total_ps
    with pytest.raises(UnsupportedError, match="neither MTP layers nor"):
        step("tiny", count=1, draft_tokens=1)
    with pytest.raises(InputError, match=r"at most 8 are verified .* \(1 too many\)"):
        step("v4-flash-0731", engine="vllm-0.33", draft_tokens=9)
    with pytest.raises(InputError, match="belongs to decode steps"):
        ask(model="v4-flash", chip="b200", phase="prefill", draft_tokens=2)


def test_mtp_layers_draft_one_token_each() -> None:
    one, three = (step("v4-flash", draft_tokens=n) for n in (1, 3))
    assert {k.scope for k in one.kernels if k.scope.startswith("draft")} == {"draft0:mtp"}
    assert {k.scope for k in three.kernels if k.scope.startswith("draft")} == {
        "draft0:mtp", "draft1:mtp", "draft2:mtp"
    }  # fmt: skip


def test_the_timer_times_the_passes_of_a_head() -> None:
    asked = ask(model="v4-flash-0731", chip="b200", count=8, batch=16, context=8192, draft_tokens=5)
    block, seeds = StepTimer(asked, drafting=True), StepTimer(asked, seeding=True)
    shape = StepShape.uniform(16, 5, 8192)
    assert block.total_ps(shape) == block.kernel_by_kernel_ps(shape)
    own = StepShape.uniform(16, 6, 128)
    assert seeds.total_ps(own) == seeds.kernel_by_kernel_ps(own)
    passes = [k for k in cost_step(asked).kernels if k.scope.startswith("draft:")]
    span = max(k.end_ps for k in passes) - min(k.start_ps for k in passes)
    assert block.total_ps(StepShape.uniform(16, 5, 8192)) == pytest.approx(span, rel=0.01)


@pytest.mark.parametrize("engine", ["sglang-0.5", "vllm-0.33", "ideal"])
def test_each_size_of_a_head_moves_a_step_with_drafts(engine: str) -> None:
    asked = ask(
        model="v4-flash-0731", chip="b200", count=8, batch=16, context=8192, draft_tokens=2,
        engine=engine,
    )  # fmt: skip
    own, times = asked.config, {}
    for name, value in (
        ("dspark_block_size", 4),
        ("dspark_markov_rank", 2048),
        ("dspark_target_layer_ids", (41, 42)),
        ("dspark_n_routed_experts", 64),
        ("dspark_num_experts_per_tok", 3),
        ("enable_confidence_head", False),
    ):
        config = own.model_copy(update={name: value})
        times[name] = cost_step(asked.changed(config=config)).total_ps
    base = cost_step(asked).total_ps
    assert all(time != base for time in times.values()), times
    smaller = {name for name, time in times.items() if time < base}
    assert smaller == set(times) - {"dspark_markov_rank"}
