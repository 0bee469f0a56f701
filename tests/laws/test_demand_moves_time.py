"""Laws: what moves demand moves time; every number of a chip moves some time.

Each number of a model is halved and doubled, each format replaced, over a panel of steps. A kernel
that then asks for something else takes another time at one point at least, under every engine, and
never less for more unless its engine cuts it in another way, which the price says.
`make laws` goes through all cases, `make test` through a seeded tenth.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.node import NodeSpec, find_node
from simulator.basis.sourced import Sourced
from simulator.basis.yaml_loader import StrictModel
from simulator.engine.profile import find_profile
from tests.laws.panel import ENGINES, FIDELITIES, POINTS, Moves, Point, Probe, probe, small
from tests.sampling import tenth
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.layer_kinds import TYPE_OF_KIND
from workloads.deepseek_v4.precision import Precision
from workloads.parallel import ParallelLayout

MODEL = "v4-flash"
# Fields of a model without work of their own, each with the reason.
WORKLESS = {
    "name": "a name",
    "num_key_value_heads": "1 is the only value: one stored row serves all heads",
    "scoring_func": "one value is accepted",
    "norm_topk_prob": "one value is accepted",
    "hidden_act": "one value is accepted",
    "attention_bias": "one value is accepted",
    "tie_word_embeddings": "one value is accepted",
    "routed_scaling_factor": "a factor on values",
    "swiglu_limit": "a bound on values",
    "hc_eps": "changes values only",
    "rms_norm_eps": "changes values only",
    "rope_theta": "changes values only",
    "compress_rope_theta": "changes values only",
    "rope_scaling": "changes values only",
    "max_position_embeddings": "a limit on contexts, not work",
    "num_nextn_predict_layers": "draft layers run only where drafts are asked for",
    **dict.fromkeys(
        (
            *("dspark_block_size", "dspark_markov_rank", "dspark_target_layer_ids"),
            *("dspark_n_routed_experts", "dspark_num_experts_per_tok"),
            *("enable_confidence_head", "confidence_head_with_markov"),
        ),
        "drafts are made only where they are asked for: tests of steps with drafts",
    ),
    "dspark_noise_token_id": "a token id",
    "sample_from_anchor": "one value is accepted",
    "stored": "the checkpoint's formats by module: tests of weight formats",
    "file_notes": "words",
    "expert_dtype": "the checkpoint's format; the deployment's is a format below",
    "quantization_config": "the checkpoint's format; the deployment's are formats below",
}
FIELDS = tuple(name for name in ModelConfig.model_fields if name not in WORKLESS)
FORMATS = (
    {"expert": "fp8"},
    {"expert": "bf16"},
    {"index": "fp4"},
    {"index": "bf16"},
    {"kv": "bf16"},
    {"kv": "mxfp4"},
    {"kv": "nvfp4"},
    {"kv": "fp8-uniform"},
    {"linear": "bf16"},
)
# SGLang multiplies the output projection's first half in BF16 on Hopper, however it is stored.
UNMOVED = {("sglang-0.5", "h200", "linear"): {f"{kind}/o_a" for kind in ("swa", "csa", "hca")}}
MACHINES = tuple(
    (engine, chip)
    for engine in ENGINES
    for chip in (("ascend-910c",) if "ascend" in engine else ("h200", "b200"))
    if (engine, chip) != ("trtllm-1.3", "h200")
)
CASES = tuple(
    (engine, chip, fidelity, field)
    for engine, chip in MACHINES
    for fidelity in FIDELITIES
    for field in (*FIELDS, *(f"{k}={v}" for own in FORMATS for k, v in own.items()))
    # TensorRT-LLM stores its FP8 rows so: there is nothing to change.
    if (engine, field) != ("trtllm-1.3", "kv=fp8-uniform")
)


@lru_cache(maxsize=256)
def before(engine: str, chip: str, fidelity: str, point: Point) -> Probe:
    return probed(small(MODEL), Precision(), engine, chip, fidelity, point)


def probed(
    config: ModelConfig, precision: Precision, engine: str, chip: str, fidelity: str, point: Point
) -> Probe:
    spec, node = find_chip(chip), find_node(chip, 8)
    return probe(config, precision, find_profile(engine), point, spec, node, fidelity)


def changed(field: str) -> Iterator[tuple[ModelConfig, Precision]]:
    """The model with a number halved and doubled, as far as that is a model; or another format."""
    config = small(MODEL)
    if "=" in field:
        name, value = field.split("=")
        yield config, Precision(**{name: value})
        return
    if field == "compress_ratios":
        for factor in (0.5, 2.0):
            ratios = tuple(int(ratio * factor) for ratio in config.compress_ratios)
            yield config.model_copy(update={field: ratios}), Precision()
        return
    if field == "layer_types":
        kinds = {"csa": "hca", "hca": "csa", "swa": "swa"}
        types = tuple(TYPE_OF_KIND[kinds[layer.kind]] for layer in config.layers)
        yield config.model_copy(update={field: types}), Precision()
        return
    value = getattr(config, field)
    assert isinstance(value, int), f"{field} is no number: how is it to be changed?"
    for other in (value // 2, value * 2):
        data = config.model_dump() | {field: other}
        if field == "num_hidden_layers":
            data["compress_ratios"] = config.compress_ratios * (other // value)
        try:
            yield ModelConfig.model_validate(data), Precision()
        except ValueError:
            continue


def moves(engine: str, chip: str, fidelity: str, field: str) -> tuple[Moves, int]:
    """What moves over all points, and how many there were."""
    found, points = Moves(), 0
    for config, precision in changed(field):
        for point in POINTS:
            try:
                after = probed(config, precision, engine, chip, fidelity, point)
            except ValueError:  # fewer groups than ranks
                continue
            points += 1
            found |= Moves.between(before(engine, chip, fidelity, point), after, fidelity)
    return found, points


def test_every_field_of_a_model_is_changed_or_has_a_reason() -> None:
    assert set(WORKLESS) <= set(ModelConfig.model_fields)
    shapes = {"compress_ratios", "layer_types"}
    assert all(isinstance(getattr(small(MODEL), name), int) for name in set(FIELDS) - shapes)


@pytest.mark.parametrize(("engine", "chip", "fidelity", "field"), tenth(CASES, 4))
def test_what_moves_demand_moves_time(engine: str, chip: str, fidelity: str, field: str) -> None:
    found, points = moves(engine, chip, fidelity, field)
    assert points, f"{field} has no other value that a step accepts"
    assert found.asked, f"{field} changes no demand"
    known: set[str] = set()
    if fidelity == "tile":
        known = UNMOVED.get((engine, chip, field.split("=")[0]), set())
    assert found.asked - found.moved == known
    assert not found.against


MACHINE = "the machine's simulation reads it"
# Numbers of a chip and a node that move no kernel at `tile` on eight chips: what they do move.
ELSEWHERE = {
    "dies_per_package": "weights that a benchmark of GEMMs finds in the cache: measured rows",
    "memory.capacity": "what fits",
    "memory.stacks": "fidelity cycle: channels",
    "memory.channels_per_stack": "fidelity cycle: channels",
    "memory.pin_rate": "the preset, where a file names none; checked against the bandwidth",
    "memory.channel_width": "checked against the bandwidth: a note where they differ",
    "memory.latency": "kernels priced by tiles, and rows measured with cold buffers",
    "llc.line": "fidelity cycle: the cache",
    "llc.sector": "fidelity cycle: the cache",
    "llc.partitions": "fidelity cycle: the cache",
    "llc.slices": MACHINE,
    "noc.core_port": MACHINE,
    "noc.partition_link": MACHINE,
    "llc.far_latency": "fidelity cycle: the cache",
    "llc.latency": "fidelity cycle, and kernels of the tile model that stay in the cache",
    "cores.matrix_flops_per_clock": "checked against the peak rates: a note where they differ",
    "cores.scratchpad": "tiles and loads in flight of the tile model",
    "cores.l1_and_scratchpad": "described, not used",
    "cores.register_file": "described, not used",
    "cores.threads": MACHINE,
    "cores.blocks": MACHINE,
    "cores.copy_bytes": MACHINE,
    "cores.matrix_fill": MACHINE,
    "cores.matrix_issue": MACHINE,
    "matrix.fp16": "no kernel multiplies in FP16",
    "matrix.int8": "no kernel multiplies in INT8",
    "matrix.tf32": "products in FP32 without TF32",
    "launch.stream_gap": "described, not used: steps are replayed from a graph",
    "power.all_in": "money: power bills",
    "host_link.bandwidth": "tiers and offloading",
    "host_link.latency": "tiers and offloading",
}
# Steps on one node, on two, and with keys of four bits.
PLACES = (
    *((point, Precision()) for point in POINTS[::3]),
    (Point(32, 1, 8191, ParallelLayout(1, 16, 16)), Precision()),
    (POINTS[0], Precision(index="fp4")),
)
CALIBRATED = (
    ("h200", "sglang-0.5"),
    ("h200", "vllm-0.33"),
    ("b200", "sglang-0.5"),
    ("b200", "trtllm-1.3"),
)


def numbers(spec: StrictModel, prefix: str = "") -> Iterator[str]:
    """Paths of all sourced numbers that are given."""
    for name in type(spec).model_fields:
        value = getattr(spec, name)
        if isinstance(value, Sourced):
            yield prefix + name
        elif isinstance(value, StrictModel):
            yield from numbers(value, f"{prefix}{name}.")


def scaled(spec: StrictModel, path: str, factor: float) -> StrictModel:
    """A specification with one number multiplied; whole numbers stay whole."""
    name, _, rest = path.partition(".")
    own = getattr(spec, name)
    if rest:
        return spec.model_copy(update={name: scaled(own, rest, factor)})
    value = own.value * factor
    value = max(1, int(value)) if isinstance(own.value, int) else value
    number = type(own).model_validate(own.model_dump() | {"value": value})
    return spec.model_copy(update={name: number})


@lru_cache(maxsize=64)
def own_probe(engine: str, chip: str, point: Point, precision: Precision) -> Probe:
    return probed(small(MODEL), precision, engine, chip, "tile", point)


def moves_a_kernel(path: str) -> bool:
    """Whether a number moves the time of a kernel under a calibrated engine on H200 or B200."""
    config = small(MODEL)
    for chip, engine in CALIBRATED:
        spec: ChipSpec = find_chip(chip)
        node: NodeSpec = find_node(chip, 8)
        of_chip = path in set(numbers(spec))
        if not of_chip and path not in set(numbers(node)):
            continue
        for factor in (0.5, 2.0):
            own = scaled(spec if of_chip else node, path, factor)
            for point, precision in PLACES:
                found = own_probe(engine, chip, point, precision)
                machine = (own, node) if of_chip else (spec, own)
                after = probe(config, precision, find_profile(engine), point, *machine, "tile")  # type: ignore[arg-type]
                if any(after[name].time_ps != asked.time_ps for name, asked in found.items()):
                    return True
    return False


NUMBERS = tuple(
    dict.fromkeys(
        path
        for chip in ("h200", "b200")
        for spec in (find_chip(chip), find_node(chip, 8))
        for path in numbers(spec)
    )
)


def test_every_exception_is_a_number_of_these_chips() -> None:
    assert set(ELSEWHERE) <= set(NUMBERS)


@pytest.mark.parametrize("path", tenth(NUMBERS, 2))
def test_numbers_of_a_chip_move_kernels_or_say_what_they_move(path: str) -> None:
    assert moves_a_kernel(path) != (path in ELSEWHERE)
