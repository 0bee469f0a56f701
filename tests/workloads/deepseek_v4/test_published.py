"""Checkpoints as they are published: every form with the right value, all faults at once."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.basis.yaml_loader import compose_yaml
from workloads.deepseek_v4.config import ModelConfig, find_model, model_from_mapping
from workloads.deepseek_v4.graph import model_parameters
from workloads.tensor_type import TensorType

MODELS = Path(__file__).parents[3] / "workloads" / "deepseek_v4" / "models"
FLASH: dict[str, Any] = compose_yaml(MODELS / "v4-flash.yaml")[0]
DSPARK = {
    "dspark_block_size": 5,
    "dspark_markov_rank": 256,
    "dspark_target_layer_ids": [40, 41, 42],
    "dspark_noise_token_id": 128799,
}
WEIGHTS = 283_467_841_536


def flash(**changes: Any) -> ModelConfig:
    data = {key: value for key, value in (FLASH | changes).items() if value is not ...}
    return model_from_mapping(data, name="flash")


def parameters(config: ModelConfig) -> dict[str, TensorType]:
    return model_parameters(config, mtp=True)


def nbytes(params: dict[str, TensorType], *endings: str) -> int:
    return sum(t.nbytes for name, t in params.items() if not endings or name.endswith(endings))


def experts(config: ModelConfig) -> int:
    return nbytes(parameters(config), "moe/w13", "moe/w2")


def test_ratio_one_compresses_nothing() -> None:
    config = flash(compress_ratios=[1, 1, *FLASH["compress_ratios"][2:]])
    params = parameters(config)
    assert sum(t.size for t in params.values()) == 290_944_616_402
    assert nbytes(params) == 159_609_485_896
    assert config.layer_kinds == find_model("v4-flash").layer_kinds


def resaved(**changes: Any) -> dict[str, Any]:
    """As transformers 5 writes it."""
    names = {0: "sliding", 4: "compressed_sparse", 128: "heavily_compressed"}
    data = {k: v for k, v in FLASH.items() if k not in ("compress_ratios", "num_hash_layers",
            "rope_theta", "compress_rope_theta", "rope_scaling", "qk_rope_head_dim")}  # fmt: skip
    yarn = {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
            "original_max_position_embeddings": 65536, "attention_factor": 1.0}  # fmt: skip
    return (
        data
        | {
            "layer_types": [f"{names[r]}_attention" for r in FLASH["compress_ratios"][:43]],
            "compress_rates": {
                "compressed_sparse_attention": 4,
                "heavily_compressed_attention": 128,
            },
            "mlp_layer_types": ["hash_moe"] * 3 + ["moe"] * 40,
            "rope_parameters": {
                "main": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "partial_rotary_factor": 0.125,
                },
                "compress": yarn | {"rope_theta": 160000.0, "partial_rotary_factor": 0.125},
            },
            "partial_rotary_factor": 0.125,
            "mlp_bias": False,
            "router_aux_loss_coef": 0.001,
        }
        | changes
    )


def test_a_file_that_transformers_saved_again_is_the_same_model() -> None:
    config = model_from_mapping(resaved(), name="v4-flash")
    original = find_model("v4-flash")
    assert (config.num_hash_layers, config.rope_theta) == (3, 10_000)
    assert (config.compress_rope_theta, config.qk_rope_head_dim) == (160_000, 64)
    assert config.rope_scaling == original.rope_scaling
    assert parameters(config) == parameters(original)
    moved = dict(FLASH["quantization_config"], expert_dtype="fp4")
    bare = {k: v for k, v in resaved(quantization_config=moved).items() if k != "expert_dtype"}
    again = model_from_mapping(bare, name="x")
    assert not any("no expert_dtype" in note for note in again.notes)
    assert parameters(again) == parameters(original)


@pytest.mark.parametrize("given", [1, 3])
def test_dspark_heads(given: int) -> None:
    ratios = [*FLASH["compress_ratios"][:43], 0, 0, 0]
    config = flash(compress_ratios=ratios, num_nextn_predict_layers=given, **DSPARK)
    params = parameters(config)
    # 43 layers, and 3 stages in place of one MTP layer.
    assert (config.num_hidden_layers, config.mtp_layers) == (43, 3)
    assert nbytes(params) == 166_878_536_440
    draft = {name: t for name, t in params.items() if name.startswith("mtp")}
    assert nbytes(draft) == 10_862_838_300
    stage = {name: t for name, t in params.items() if name.startswith("mtp1/")}
    assert nbytes(stage) == 3_559_944_536
    assert nbytes(params, "seed/main_proj") == 50_334_720
    assert nbytes(params, "markov_w1", "markov_w2") == 132_382_720
    assert any("left over from the MTP layer" in n for n in config.notes) == (given == 1)


def test_dspark_head_of_v4_pro() -> None:
    params = parameters(find_model("deepseek-ai/DeepSeek-V4-Pro-0813"))
    draft = sum(t.nbytes for name, t in params.items() if name.startswith("mtp"))
    assert draft == pytest.approx(41.98e9, rel=1e-4)
    assert nbytes(params) - nbytes(parameters(find_model("v4-pro"))) == pytest.approx(
        28.02e9, rel=1e-3
    )


def test_three_mtp_layers() -> None:
    ratios = [*FLASH["compress_ratios"][:43], 0, 0, 0]
    params = parameters(flash(compress_ratios=ratios, num_nextn_predict_layers=3))
    assert sum(t.size for t in params.values()) == 304_164_714_184
    assert nbytes(params) == 166_797_061_408


def test_stages_that_nothing_explains_are_refused() -> None:
    ratios = [*FLASH["compress_ratios"][:43], 0, 0, 0]
    with pytest.raises(FileFormatError, match="46 entries, expected 43 or 44"):
        flash(compress_ratios=ratios)
    with pytest.raises(FileFormatError, match="neither dspark_target_layer_ids nor"):
        flash(compress_ratios=ratios, num_nextn_predict_layers=...)
    with pytest.raises(FileFormatError, match="expected 46"):
        flash(compress_ratios=[*ratios, 0], **DSPARK)


NVFP4_GROUP = {
    "weights": {"num_bits": 4, "type": "float", "group_size": 16},
    "input_activations": {"num_bits": 4, "type": "float", "group_size": 16},
    "targets": ["Linear"],
}
MODELOPT = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "config_groups": {"group_0": NVFP4_GROUP},
    "ignore": ["lm_head", "model.layers.*.attn.*"],
}
FP8 = FLASH["quantization_config"]


def packed(method: str, **more: Any) -> dict[str, Any]:
    return {"quant_method": method, "bits": 4, "group_size": 128, **more}


@pytest.mark.parametrize(
    ("quantization", "expert", "total"),
    [
        (MODELOPT, "nvfp4", WEIGHTS * 9 // 16),
        ({"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}, "nvfp4",
         WEIGHTS * 9 // 16),
        ({**FP8, "moe_quant_algo": "NVFP4"}, "nvfp4", WEIGHTS * 9 // 16),
        ({**FP8, "expert_dtype": "fp8"}, "fp8", None),
        ({"bits": 4, "group_size": 64, "mode": "affine"}, "affine4", WEIGHTS * 9 // 16),
        ({"bits": 4, "group_size": 32, "mode": "mxfp4"}, "mxfp4-w4a16", WEIGHTS * 17 // 32),
        ({"bits": 3, "group_size": 64}, "affine3", WEIGHTS * 7 // 16),
        ({"quant_method": "mxfp4"}, "fp4", WEIGHTS * 17 // 32),
        (packed("auto-round", sym=True), "w4a16-zp", None),
        (packed("gptq"), "w4a16-zp", None),
        (packed("awq", zero_point=True, group_size=64), "w4a16-zp-g64", None),
    ],
)  # fmt: skip
def test_quantised_forms(quantization: dict[str, Any], expert: str, total: int | None) -> None:
    config = flash(quantization_config=quantization)
    assert config.expert_dtype == expert
    if total is not None:
        assert experts(config) == total


def test_the_quantisation_wins_over_expert_dtype_and_the_rest_is_bf16() -> None:
    config = flash(quantization_config=MODELOPT)
    (note,) = config.notes
    assert "in no group of the quantization, or ignored, are BF16" in note
    assert "attn/wq_a (44)" in note
    params = parameters(config)
    assert params["layer02/attn/wq_a"].dtype.name == "bf16"
    assert params["layer02/moe/shared/w13"].dtype.name == "nvfp4"
    assert params["head/weight"].dtype.name == "bf16"


def test_nvfp4_as_nvidia_ships_it_leaves_all_else_in_fp8() -> None:
    layers = {f"model.layers.{i}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16}
              for i in range(43)}  # fmt: skip
    ratios = [*FLASH["compress_ratios"][:43], 0, 0, 0]
    config = flash(
        compress_ratios=ratios,
        quantization_config={**FP8, "quant_algo": "MIXED_PRECISION", "quantized_layers": layers},
        **DSPARK,
    )
    params = parameters(config)
    assert params["layer00/moe/w2"].dtype.name == "nvfp4"
    assert params["layer00/attn/wq_a"].dtype.name == "fp8"
    # Experts of the draft stay in MXFP4.
    assert params["mtp2/moe/w2"].dtype.name == "fp4"
    assert any("draft stages are in MXFP4" in note for note in config.notes)


def group(bits: int, kind: str, targets: list[str], **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "strategy": "group", "group_size": 128, **more}
    return {"weights": weights, "targets": targets}


def compressed(**groups: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}


def test_compressed_tensors() -> None:
    config = flash(quantization_config=compressed(group_0=group(4, "int", ["re:.*experts.*"])))
    assert experts(config) == WEIGHTS * 33 // 64
    params = parameters(config)
    assert params["layer05/moe/shared/w2"].dtype.name == "w4a16"
    assert params["layer05/attn/wo_b"].dtype.name == "bf16"
    # Names win over classes, whatever their order; experts are counted layer by layer.
    mixed = compressed(
        group_0={"weights": {"num_bits": 8, "type": "float", "strategy": "block"},
                 "input_activations": {"num_bits": 8, "type": "float"}, "targets": ["Linear"]},
        group_1=group(4, "int", ["re:.*layers\\.[0-9]\\..*mlp\\.experts.*"], group_size=64),
        group_2=group(8, "int", ["re:.*layers\\.[1-4][0-9]\\..*mlp\\.experts.*"]),
    )  # fmt: skip
    params = parameters(flash(quantization_config=mixed))
    assert params["layer09/moe/w2"].dtype.name == "w4a16-g64"
    assert params["layer10/moe/w2"].dtype.name == "w8a16"
    assert params["layer09/attn/wq_a"].dtype.name == "fp8"


def test_ascend() -> None:
    config = flash(quantization_config=..., quantize="w8a8_dynamic", expert_dtype=...)
    rows = 44 * 256 * (2 * 2048 + 4096)
    assert experts(config) == WEIGHTS + 4 * rows
    assert parameters(config)["layer02/attn/compressor/wkv"].dtype.name == "bf16"
    config = flash(quantization_config=..., quantize="w4a8_dynamic", expert_dtype=...)
    params = parameters(config)
    assert params["layer02/moe/w2"].dtype.math == "int8xint4"
    assert params["layer02/attn/wq_a"].dtype.name == "int8"


def test_files_beside_the_configuration(tmp_path: Path) -> None:
    bare = {k: v for k, v in FLASH.items() if k != "quantization_config"}
    (tmp_path / "config.json").write_text(json.dumps(bare))
    beside = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": []}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    assert find_model(tmp_path).expert_dtype == "nvfp4"
    (tmp_path / "hf_quant_config.json").unlink()
    described = {"model_quant_type": "W8A8_DYNAMIC"}
    for layer in range(44):
        described[f"model.layers.{layer}.mlp.experts.0.gate_proj.weight"] = "W4A8_DYNAMIC"
        described[f"model.layers.{layer}.mlp.experts.0.up_proj.weight"] = "W4A8_DYNAMIC"
        described[f"model.layers.{layer}.mlp.experts.0.down_proj.weight"] = "W4A8_DYNAMIC"
        described[f"model.layers.{layer}.self_attn.q_b_proj.weight"] = "W8A8"
    (tmp_path / "quant_model_description.json").write_text(json.dumps(described))
    params = parameters(find_model(tmp_path / "config.json"))
    assert params["layer00/moe/w13"].dtype.name == "w4a8"
    assert params["layer00/attn/wq_b"].dtype.name == "int8"
    assert params["layer00/attn/wq_a"].dtype.name == "bf16"


@pytest.mark.parametrize(
    ("quantization", "sentence"),
    [
        ({"quant_method": "bitsandbytes", "bnb_4bit_quant_type": "nf4"}, "of 'bitsandbytes'"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP3"}, "quant_algo 'NVFP3' is not modelled"),
        (compressed(group_0=group(5, "float", ["re:.*experts.*"])), "5 bit float weights"),
        ({"bits": 7, "group_size": 64}, "7 bits of mode 'affine'"),
        (compressed(group_0=group(4, "int", ["re:(("])), "no regular expression"),
    ],
)
def test_formats_that_are_not_modelled_are_named(quantization: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        flash(quantization_config=quantization)


def test_all_faults_of_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    data = FLASH | {
        "index_topK": 3, "zorp": 1, "hidden_size": 0, "scoring_func": "softmax",
        "quantization_config": {"quant_method": "bitsandbytes"},
    }  # fmt: skip
    path.write_text(json.dumps(data, indent=1))
    with pytest.raises(FileFormatError) as caught:
        find_model(path)
    lines = caught.value.message.splitlines()
    assert len(lines) == 5
    assert all(line.startswith(f"{path}:") for line in lines)
    text = caught.value.message
    assert "unknown key 'index_topK': did you mean 'index_topk'?" in text
    # Nothing is near this one, so that no name is offered.
    assert "unknown key 'zorp', near no setting" in text
    for part in ("'hidden_size' is 0", "scoring_func 'softmax'", "'bitsandbytes'"):
        assert part in text
    several = tmp_path / "several.json"
    several.write_text(json.dumps(FLASH | {"o_groups": 3, "num_experts_per_tok": 999}, indent=1))
    with pytest.raises(FileFormatError) as caught:
        find_model(several)
    assert len(caught.value.message.splitlines()) == 2


def test_keys_that_contradict_each_other() -> None:
    with pytest.raises(
        FileFormatError, match=r"partial_rotary_factor 0\.25 of head_dim 512 is 128"
    ):
        flash(partial_rotary_factor=0.25)
    with pytest.raises(UnsupportedError, match="hash_moe behind moe"):
        flash(mlp_layer_types=["moe"] + ["hash_moe"] * 3 + ["moe"] * 39, num_hash_layers=...)
    with pytest.raises(FileFormatError, match="both mean the same"):
        flash(num_local_experts=128)
    with pytest.raises(FileFormatError, match="compress_rope_theta is 160000"):
        flash(rope_parameters={"main": {}, "compress": {"rope_theta": 5.0}})
    with pytest.raises(FileFormatError, match="dspark_markov_rank is missing"):
        flash(dspark_target_layer_ids=[40], dspark_block_size=5, dspark_noise_token_id=3)


def test_null_is_as_if_it_were_not_there() -> None:
    config = flash(expert_dtype=None, quantization_config=None, dspark_block_size=None)
    assert "no expert_dtype and no quantization_config" in config.notes[0]


def test_pruned_experts() -> None:
    config = flash(n_routed_experts=128)
    assert experts(config) == WEIGHTS // 2 * 17 // 32


def test_hugging_face_names() -> None:
    assert find_model("deepseek-ai/DeepSeek-V4-Flash") == find_model("v4-flash")
    assert find_model("deepseek-ai/DeepSeek-V4-Flash-0731").mtp_layers == 3
    with pytest.raises(InputError, match="neither a file nor a Hugging Face name"):
        find_model("deepseek-ai/DeepSeek-V9")


def test_a_dumped_configuration_is_read_back(tmp_path: Path) -> None:
    config = flash(quantization_config=compressed(group_0=group(4, "int", ["re:.*experts.*"])))
    path = tmp_path / "flash.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    assert parameters(find_model(path)) == parameters(config)


JUNK: list[Any] = [None, True, 0, -1, 1.5, "x", "", [], [1], ["a"], {}, {"a": 1}, 10**12, [[1]]]


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all keys, and of the first entries of lists."""
    if isinstance(data, dict):
        return [p for k, v in data.items() for p in ((*at, k), *places(v, (*at, k)))]
    return [(*at, 0)] if isinstance(data, list) and data else []


@pytest.mark.parametrize("seed", range(40))
def test_values_of_another_kind_are_a_sentence(seed: int) -> None:
    rng = random.Random(seed)
    forms = [
        MODELOPT,
        compressed(group_0=group(4, "int", ["Linear"])),
        packed("gptq"),
        {"bits": 4, "group_size": 64},
        {**FP8, "quantized_layers": {"a": {"quant_algo": 1}}},
    ]
    for _ in range(20):
        data = copy.deepcopy(resaved() if rng.random() < 0.3 else FLASH)
        data["quantization_config"] = copy.deepcopy(rng.choice(forms))
        *path, last = rng.choice(places(data))
        inner: Any = data
        for key in path:
            inner = inner[key]
        inner[last] = rng.choice(JUNK)
        try:
            model_from_mapping(data, name="wild")
        except InputError as refused:
            assert refused.message.startswith("wild:")  # noqa: PT017
