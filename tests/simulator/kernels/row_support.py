"""What tests of kernel families share: constants as fitted, sizes of rows, faster chips, rows."""

from pathlib import Path

import numpy as np
import yaml

import simulator.kernels
from hwmodels.chip import ChipSpec, find_chip
from simulator.calibration.measured import TEXT
from simulator.calibration.measured_rows import calls_of, measured_calls
from simulator.kernels.architecture import core_architecture

CHIPS = ("h100", "h200", "b200", "b300", "gb200", "gb300")
# A row of each family, as measured tables have them.
ROWS = {
    "index_logits_sglang": {"op": "indexer_logits", "engine": "sglang-0.5.14"},
    "index_logits_vllm": {"op": "indexer_logits", "engine": "vllm-0.24.0"},
    "top_k_v1": {"op": "indexer_topk", "engine": "sglang-0.5.14", "kernel": "topk_transform_v1"},
    "top_k_v2": {"op": "indexer_topk", "engine": "sglang-0.5.14", "kernel": "topk_transform_v2"},
    "sparse_core_flashmla": {"op": "hca_attention_core", "engine": "vllm-0.24.0"},
    "mhc_pre_tilelang": {"op": "mhc_pre", "engine": "sglang-0.5.14"},
    "mhc_pre_trtllm": {"op": "mhc_pre", "engine": "trtllm-1.3.0"},
    "mhc_post_tilelang": {"op": "mhc_post", "engine": "sglang-0.5.14"},
    "mhc_post_trtllm": {"op": "mhc_post", "engine": "trtllm-1.3.0"},
}
ATTENTION = {"model": "v4-flash", "local_heads": 64}


def fitted(name: str, chip: ChipSpec) -> dict[str, float]:
    path = Path(simulator.kernels.__file__).parent / "constants" / f"{name}.yaml"
    architectures = yaml.safe_load(path.read_text())["architectures"]
    return architectures[core_architecture(chip)]["constants"]


def one(**values):
    """One call of named sizes."""
    return {k: np.array([v], dtype=str if isinstance(v, str) else float) for k, v in values.items()}


def sized(name, chip="b200", **columns):
    """Sizes of a row of a family, read off its lowered graph."""
    attention = ATTENTION if name.startswith(("index", "top_k", "sparse")) else {}
    row = {"chip": chip, **ROWS[name], **attention, **columns}
    ((_, call),) = calls_of(row, find_chip(chip))
    return one(**dict(call.row))


def parts_of_row(**row):
    """Seconds by cause of a whole row with the stored constants."""
    return measured_calls([row], [find_chip(row["chip"])]).parts()


def with_bandwidth(chip: ChipSpec, factor: float) -> ChipSpec:
    memory = chip.memory
    bandwidth = memory.bandwidth.model_copy(update={"value": memory.bandwidth.value * factor})
    return chip.model_copy(update={"memory": memory.model_copy(update={"bandwidth": bandwidth})})


def with_clock(chip: ChipSpec, factor: float) -> ChipSpec:
    cores = chip.cores
    clock = cores.clock.model_copy(update={"value": cores.clock.value * factor})
    return chip.model_copy(update={"cores": cores.model_copy(update={"clock": clock})})


def check_laws(family, calls, chip, constants, least_seconds):
    """Parts are not negative and add up; nothing beats the peaks; a faster chip is no slower."""
    parts = family.parts(calls, chip, constants)
    for seconds in parts.seconds.values():
        assert (np.asarray(seconds) >= -1e-18).all()
    total = parts.total[0]
    assert np.isclose(sum(float(np.ravel(s)[0]) for s in parts.seconds.values()), total)
    assert total >= least_seconds * (1 - 1e-9)
    for faster in (with_bandwidth(chip, 1.5), with_clock(chip, 1.25)):
        assert family.parts(calls, faster, constants).total[0] <= total * (1 + 1e-9)


def errors_of_rows(header, rows):
    """Errors of carried rows, predicted with the stored constants."""
    names = header.split(",")
    errors = []
    for text in rows:
        values = dict(zip(names, text.split(","), strict=True))
        row = {k: (v if k in TEXT else float(v)) for k, v in values.items()}
        row = ATTENTION | row if "new_tokens" in row else row
        seconds = parts_of_row(**row).total[0]
        errors.append(abs(seconds / (float(values["latency_us"]) * 1e-6) - 1))
    return np.array(errors)
