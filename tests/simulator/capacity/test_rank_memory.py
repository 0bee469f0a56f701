"""Weights and cache of further draft layers, by hand from those of one."""

from __future__ import annotations

from pathlib import Path

import yaml

from simulator.capacity.capacity import capacity_of, load_of, stage_geometry
from simulator.capacity.capacity_question import CapacityQuestion, ask_capacity
from simulator.capacity.rank_memory import stages_of, weight_bytes
from workloads.deepseek_v4.config import find_model


def asked(tmp_path: Path, layers: int, **options: object) -> CapacityQuestion:
    path = tmp_path / f"flash{layers}.yaml"
    data = find_model("v4-flash").model_dump(mode="json", exclude={"name"})
    data["num_nextn_predict_layers"] = layers
    path.write_text(yaml.safe_dump(data))
    given = {"chip": "b200", "count": 8, "draft_tokens": 3, "contexts": "8192"} | options
    return ask_capacity(model=str(path), **given)  # type: ignore[arg-type]


def test_every_draft_layer_lies_on_the_last_stage(tmp_path: Path) -> None:
    plain, one, three = (
        weight_bytes(asked(tmp_path, n, tp=4, pp=2, engine="vllm-0.33")) for n in (0, 1, 3)
    )
    assert plain[0] == one[0] == three[0]
    assert three[1] - plain[1] == 3 * (one[1] - plain[1]) > 0


def test_every_draft_layer_keeps_a_window(tmp_path: Path) -> None:
    plain, one, three = (
        stage_geometry(q, stages_of(43, 1)[0]).pool("window").layers
        for q in (asked(tmp_path, n, engine="vllm-0.33") for n in (0, 1, 3))
    )
    assert (plain, one, three) == (43, 44, 46)


def test_sizing_by_ratio_grows_with_the_draft_layers(tmp_path: Path) -> None:
    """Per-token bytes of SGLang's pools grow by (43 + draft layers) / 43."""
    one, three = (asked(tmp_path, n, engine="sglang-0.5") for n in (1, 3))
    assert load_of(three, 8192).draft_layers == 3
    per_token = [capacity_of(q).fits[0].bytes_per_token for q in (one, three)]
    assert abs(per_token[1] / per_token[0] - 46 / 44) < 1e-9
