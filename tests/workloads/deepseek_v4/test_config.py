"""The V4 configurations: published values, Hugging Face files, and one sentence a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from workloads.deepseek_v4.config import (
    ModelConfig,
    find_model,
    list_models,
    model_from_mapping,
)

MODELS = Path(__file__).parents[3] / "workloads" / "deepseek_v4" / "models"
TINY = yaml.safe_load((MODELS / "tiny.yaml").read_text().replace("1e-6", "0.000001"))


def hf_file(tmp_path: Path, **changes: Any) -> Path:
    """A config.json as published: one key a line, `...` as a value drops the key."""
    data = {key: value for key, value in (TINY | changes).items() if value is not ...}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data, indent=1))
    return path


def line_of(path: Path, key: str) -> int:
    text = path.read_text()
    return text[: text.index(f'"{key}"')].count("\n") + 1


def test_shipped_models() -> None:
    assert list_models() == ["tiny", "v4-flash", "v4-flash-0731", "v4-pro", "v4-pro-0813"]


@pytest.mark.parametrize(
    ("name", "swa", "csa", "hca"), [("v4-pro", 0, 30, 31), ("v4-flash", 2, 21, 20)]
)
def test_layer_kinds(name: str, swa: int, csa: int, hca: int) -> None:
    config = find_model(name)
    kinds = config.layer_kinds
    assert len(kinds) == config.num_hidden_layers == swa + csa + hca
    assert [kinds.count(kind) for kind in ("swa", "csa", "hca")] == [swa, csa, hca]
    assert [i for i, kind in enumerate(kinds) if kind == "csa"] == list(range(2, len(kinds), 2))
    assert kinds[-1] == "csa"
    assert config.mtp_layers == 1
    assert [stage.ratio for stage in config.mtp_stages] == [0]
    assert config.layer_ratios == config.compress_ratios[:-1]


def test_published_values() -> None:
    pro, flash = find_model("v4-pro"), find_model("v4-flash")
    assert (pro.hidden_size, flash.hidden_size) == (7168, 4096)
    assert (pro.num_attention_heads, flash.num_attention_heads) == (128, 64)
    assert (pro.q_lora_rank, flash.q_lora_rank) == (1536, 1024)
    assert (pro.o_groups, flash.o_groups) == (16, 8)
    assert (pro.index_topk, flash.index_topk) == (1024, 512)
    assert (pro.n_routed_experts, flash.n_routed_experts) == (384, 256)
    assert (pro.moe_intermediate_size, flash.moe_intermediate_size) == (3072, 2048)
    assert (pro.routed_scaling_factor, flash.routed_scaling_factor) == (2.5, 1.5)
    for config in (pro, flash):
        assert config.nope_head_dim == 448
        assert config.num_attention_heads * config.head_dim // config.o_groups == 4096
        assert (config.hc_mult, config.hc_sinkhorn_iters, config.hc_eps) == (4, 20, 1e-6)
        assert config.rope_scaling is not None
        assert config.rope_scaling.factor == 16
        assert (config.rope_theta, config.compress_rope_theta) == (10_000, 160_000)
        assert config.expert_dtype == "fp4"
        assert config.quantization_config.weight_block_size == (128, 128)


def test_routed_expert_parameters_add_up() -> None:
    # 3 x hidden x intermediate an expert; the fact sheet sums 1547.396 and 277.025 billion.
    for name, billions in (("v4-pro", 1547.396), ("v4-flash", 277.025)):
        c = find_model(name)
        expert = 3 * c.hidden_size * c.moe_intermediate_size
        assert c.num_hidden_layers * c.n_routed_experts * expert / 1e9 == pytest.approx(
            billions, abs=0.001
        )


def test_tiny_is_divided_by_its_blocks() -> None:
    tiny = find_model("tiny")
    assert tiny.layer_kinds == ("swa", "hca", "csa", "hca", "csa")
    sizes = [tiny.hidden_size, tiny.nope_head_dim, tiny.q_lora_rank, tiny.moe_intermediate_size]
    sizes += [tiny.o_lora_rank, tiny.index_head_dim, tiny.head_dim]
    assert all(size % 64 == 0 for size in sizes)
    assert tiny.index_n_heads >= 32


def test_models_are_frozen_and_hashable() -> None:
    assert len({find_model("tiny"), find_model("tiny"), find_model("v4-pro")}) == 2


def test_a_hugging_face_file_is_read(tmp_path: Path) -> None:
    path = hf_file(
        tmp_path,
        architectures=["DeepseekV4ForCausalLM"],
        torch_dtype="bfloat16",
        transformers_version="4.57.1",
        use_cache=True,
        topk_method="noaux_tc",
        initializer_range=0.02,
        n_group=None,
    )
    config = find_model(path)
    assert config.name == tmp_path.name
    assert config.model_copy(update={"name": "tiny"}) == find_model("tiny")


def test_a_yaml_copy_is_read_by_path(tmp_path: Path) -> None:
    path = tmp_path / "my-flash.yaml"
    text = (MODELS / "v4-flash.yaml").read_text()
    path.write_text(text.replace("index_topk: 512", "index_topk: 256"))
    config = find_model(path)
    assert config.name == "my-flash"
    assert config.index_topk == 256


def test_absent_keys_of_a_golden_config() -> None:
    absent = {"num_nextn_predict_layers", "n_shared_experts", "num_key_value_heads"}
    absent |= {"norm_topk_prob", "model_type", "expert_dtype", "quantization_config"}
    absent |= {"hidden_act", "attention_bias", "tie_word_embeddings"}
    data = {key: value for key, value in TINY.items() if key not in absent}
    data |= {"chunks": [130, 1, 1], "seed": 7, "made_with": "transformers 5.24.0"}
    config = model_from_mapping(data, name="golden")
    assert config.mtp_layers == 0
    assert config.n_shared_experts == 1
    assert config.num_key_value_heads == 1
    assert config.norm_topk_prob is True
    assert config.expert_dtype == "fp4"
    (note,) = config.notes
    assert note.startswith("the configuration of golden has no expert_dtype")
    assert "fp4" in note
    assert model_from_mapping(data | {"expert_dtype": "fp4"}).notes == ()
    assert config.quantization_config.weight_block_size == (128, 128)
    assert config.layer_ratios == (0, 128, 4, 128, 4)


def test_one_entry_more_means_one_mtp_layer() -> None:
    data = dict(TINY)
    del data["num_nextn_predict_layers"]
    config = model_from_mapping(data | {"compress_ratios": [0, 128, 4, 128, 4, 0]})
    assert [stage.ratio for stage in config.mtp_stages] == [0]
    switched_off = data | {"compress_ratios": [0, 128, 4, 128, 4, 0], "num_nextn_predict_layers": 0}
    assert model_from_mapping(switched_off).mtp_layers == 0
    unlisted = model_from_mapping(data | {"num_nextn_predict_layers": 1})
    assert [stage.ratio for stage in unlisted.mtp_stages] == [0]
    three = data | {"compress_ratios": [0, 128, 4, 128, 4, 0, 0, 0], "num_nextn_predict_layers": 3}
    assert [stage.ratio for stage in model_from_mapping(three).mtp_stages] == [0, 0, 0]


def test_no_rope_scaling_is_allowed() -> None:
    assert model_from_mapping(TINY | {"rope_scaling": None}).rope_scaling is None


@pytest.mark.parametrize(
    ("changes", "key", "sentence"),
    [
        (
            {"compress_ratios": [0, 128, -8, 128, 4]},
            None,
            "compress_ratios[2] is -8, expected 0 or",
        ),
        ({"compress_ratios": [0, 128]}, "compress_ratios", "compress_ratios has 2 entries, expect"),
        ({"o_groups": 3}, "o_groups", "o_groups is 3, expected a divisor of the 4 of num_atten"),
        ({"qk_rope_head_dim": 63}, "qk_rope_head_dim", "qk_rope_head_dim is 63, expected an even"),
        (
            {"qk_rope_head_dim": 256},
            "qk_rope_head_dim",
            "qk_rope_head_dim is 256, expected at most the 128 of head_dim",
        ),
        (
            {"index_head_dim": 32},
            "qk_rope_head_dim",
            "qk_rope_head_dim is 64, expected at most the 32 of index_head_dim",
        ),
        (
            {"num_experts_per_tok": 9},
            "num_experts_per_tok",
            "num_experts_per_tok is 9, expected at most the 8 of n_routed_experts",
        ),
        (
            {"num_hash_layers": 6},
            "num_hash_layers",
            "num_hash_layers is 6, expected at most the 5 of num_hidden_layers",
        ),
        ({"hidden_size": 0}, "hidden_size", "'hidden_size' is 0, expected more than 0"),
        ({"hidden_size": 128.5}, "hidden_size", "'hidden_size' is 128.5, expected a whole number"),
        ({"num_hash_layers": -1}, "num_hash_layers", "'num_hash_layers' is -1, expected at least"),
        ({"rms_norm_eps": 0}, "rms_norm_eps", "'rms_norm_eps' is 0, expected more than 0"),
        ({"expert_dtype": "fp3"}, "expert_dtype", "unknown weight format 'fp3'"),
        ({"index_topK": 8}, "index_topK", "unknown key 'index_topK': did you mean 'index_topk'?"),
        ({"hidden_size": ...}, None, "missing key 'hidden_size'"),
    ],
)
def test_impossible_configs(
    tmp_path: Path, changes: dict[str, Any], key: str | None, sentence: str
) -> None:
    path = hf_file(tmp_path, **changes)
    with pytest.raises(FileFormatError) as caught:
        find_model(path)
    message = caught.value.message
    if key is not None:
        assert message.startswith(f"{path}:{line_of(path, key)}: ")
    assert f": {sentence}" in message
    assert all(line.startswith(f"{path}:") for line in message.split("\n"))


def test_the_line_of_one_ratio(tmp_path: Path) -> None:
    path = hf_file(tmp_path, compress_ratios=[0, 128, 2048, 128, 4])
    with pytest.raises(FileFormatError) as caught:
        find_model(path)
    line = line_of(path, "compress_ratios") + 3
    assert caught.value.message.startswith(f"{path}:{line}: compress_ratios[2] is 2,048")


@pytest.mark.parametrize(
    ("changes", "key", "sentence"),
    [
        ({"scoring_func": "sigmoid"}, "scoring_func", "scoring_func 'sigmoid' is not supported: "),
        ({"hidden_act": "gelu"}, "hidden_act", "hidden_act 'gelu' is not supported: "),
        ({"tie_word_embeddings": True}, "tie_word_embeddings", "tie_word_embeddings True is not"),
        ({"attention_bias": True}, "attention_bias", "attention_bias True is not supported: "),
        ({"n_group": 8}, "n_group", "n_group 8 is not supported: of group-limited routing only 1"),
        ({"topk_method": "greedy"}, "topk_method", "topk_method 'greedy' is not supported: "),
        ({"num_key_value_heads": 8}, "num_key_value_heads", "num_key_value_heads 8 is not"),
        ({"model_type": "deepseek_v3"}, "model_type", "model_type 'deepseek_v3' is not supported"),
        (
            {"model_type": "deepseek_v32"},
            "model_type",
            "model_type 'deepseek_v32' is not supported: DeepSeek-V3.2 is a counted reference only",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2}},
            "type",
            "rope_scaling type 'linear' is not supported: only 'yarn' (or null) is",
        ),
    ],
)
def test_unsupported_settings(
    tmp_path: Path, changes: dict[str, Any], key: str, sentence: str
) -> None:
    path = hf_file(tmp_path, **changes)
    with pytest.raises(UnsupportedError) as caught:
        find_model(path)
    assert caught.value.message.startswith(f"{path}:{line_of(path, key)}: {sentence}")


def test_names_that_are_no_v4_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown model 'v4pro': did you mean 'v4-pro'\?"):
        find_model("v4pro")
    with pytest.raises(UnsupportedError, match=r"v3\.2 is a counted reference only"):
        find_model("v3.2")
    with pytest.raises(UnsupportedError, match="counted reference only"):
        find_model(MODELS.parents[1] / "deepseek_v32" / "models" / "v3.2.yaml")
    with pytest.raises(InputError, match="no such model file"):
        find_model(tmp_path / "none.json")


def test_every_field_but_the_name_is_of_hugging_face() -> None:
    given = set(TINY) - {"model_type"}
    # layer_types are of files that transformers 5 writes, others of a DSpark head; `stored` and
    # `file_notes` come from reading a file's quantisation.
    own = {"name", "layer_types", "stored", "file_notes", "sample_from_anchor"}
    own |= {"enable_confidence_head", "confidence_head_with_markov"}
    fields = {name for name in ModelConfig.model_fields if not name.startswith("dspark_")}
    assert fields - own == given
