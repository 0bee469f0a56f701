"""Steps as the coster would leave them: 43 layers of 26 launches or so, on three streams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from simulator.cost.result import (
    ChipPeaks,
    KernelRecord,
    MemoryUse,
    ProofLine,
    StepQuestion,
    StepResult,
)
from simulator.kernels.causes import CAUSE_OF_RESOURCE
from simulator.kernels.standing import Standing
from workloads.parallel import ParallelLayout

STANDING = Standing("calibrated", "h200", "calibrated on this chip")
PEAKS = ChipPeaks(
    name="H200",
    matrix_flops_per_s={"bf16": 989.5e12, "fp8": 1979e12},
    vector_ops_per_s=67e12,
    dram_bytes_per_s=4.8e12,
    link_bytes_per_s=450e9,
)
LAUNCH_PS = 1_800_000
GAP_PS = 400_123  # not a whole number of ns, so that rounding is put to the test

# (name, family, stream, matrix MFLOP a token and class, weight KB, cache KB a request, link KB)
_ATTENTION = [
    ("mhc_collapse", "elementwise", 0, {"fp32": 0.4}, 90, 0, 0),
    ("attn_norm", "norm", 0, {}, 14, 0, 0),
    ("qkv_a_proj", "gemm", 0, {"fp8": 17.3}, 8_650, 0, 0),
    ("q_b_proj", "gemm", 0, {"fp8": 12.6}, 6_291, 0, 0),
    ("kv_norm_rope", "norm", 1, {}, 2, 0, 0),
    ("ring_write", "cache_write", 1, {}, 0, 1, 0),
    ("sparse_attention", "attention", 0, {"bf16": 21.0}, 0, 75, 0),
    ("o_a_proj", "gemm", 0, {"fp8": 8.4}, 4_194, 0, 0),
    ("o_b_proj", "gemm", 0, {"fp8": 4.2}, 2_097, 0, 0),
    ("attn_all_reduce", "collective", 0, {}, 0, 0, 14),
    ("mhc_expand", "elementwise", 0, {"fp32": 0.2}, 60, 0, 0),
]
_COMPRESSED = [
    ("compress_proj", "gemm", 1, {"bf16": 2.1}, 1_050, 0, 0),
    ("compress_pool", "elementwise", 1, {}, 4, 3, 0),
    ("pool_append", "cache_write", 1, {}, 0, 1, 0),
]
_INDEXER = [
    ("indexer_q_proj", "gemm", 1, {"fp8": 6.3}, 3_146, 0, 0),
    ("indexer_score", "indexer", 1, {"fp8": 16.8}, 0, 4_325, 0),
    ("indexer_top_k", "topk", 1, {}, 0, 131, 0),
]
_MOE = [
    ("ffn_norm", "norm", 0, {}, 14, 0, 0),
    ("router_gate", "gemm", 0, {"bf16": 2.1}, 2_100, 0, 0),
    ("router_top_k", "topk", 0, {}, 0, 0, 0),
    ("expert_dispatch", "collective", 0, {}, 0, 0, 43),
    ("shared_gate_up", "gemm", 2, {"fp8": 2.1}, 1_050, 0, 0),
    ("shared_down", "gemm", 2, {"fp8": 1.0}, 524, 0, 0),
    ("experts_gate_up", "grouped_gemm", 0, {"fp8": 100.6}, 268_435, 0, 0),
    ("experts_swiglu", "elementwise", 0, {}, 0, 0, 0),
    ("experts_down", "grouped_gemm", 0, {"fp8": 50.3}, 134_217, 0, 0),
    ("expert_combine", "collective", 0, {}, 0, 0, 57),
    ("mhc_expand_ffn", "elementwise", 0, {"fp32": 0.2}, 60, 0, 0),
]


@dataclass
class _Clock:
    streams: dict[int, int] = field(default_factory=dict)
    kernels: list[KernelRecord] = field(default_factory=list)

    def launch(self, question: StepQuestion, scope: str, kind: str, row: tuple[Any, ...]) -> None:
        name, family, stream, *_ = row
        work = _work(question, kind, row)
        busy = _busy(work, question.batch * question.new_tokens)
        bound = max(busy, key=lambda key: busy[key])
        start = self._start(stream, joins=family in ("collective", "attention")) + GAP_PS
        self.streams[stream] = start + busy[bound]
        self.kernels.append(
            KernelRecord(
                path=f"{scope}/{name}",
                name=name,
                family=family,
                scope=scope,
                kind=kind,
                stream=stream,
                start_ps=start,
                end_ps=start + busy[bound],
                nodes=(f"{scope}/{name}", f"{scope}/{name}/epilogue"),
                busy_ps=busy,
                causes_ps=_causes(busy, bound),
                low_ps=busy[bound] * 92 // 100,
                high_ps=busy[bound] * 111 // 100,
                calibrated=family != "norm",
                priced_by=f"{family}_family",
                program="gemm",
                shapes="64 x 1536 x 4096 fp8",
                **work,
            )
        )

    def _start(self, stream: int, *, joins: bool) -> int:
        if joins:
            return max(self.streams.values(), default=0)
        # A side stream far behind waits for the main one, which joins at collectives.
        main, now = self.streams.get(0, 0), self.streams.get(stream, 0)
        return main if stream and now < main - 20_000_000 else now


def _work(question: StepQuestion, kind: str, row: tuple[Any, ...]) -> dict[str, Any]:
    _, family, _, mflops, weight_kb, cache_kb, link_kb = row
    tokens = question.batch * question.new_tokens
    shared = {"embed": 1, "head": 1}.get(kind, 8)
    cache = int(cache_kb * 1000 * question.batch * max(1, question.new_tokens // 64))
    read, written = (0, cache) if family == "cache_write" else (cache, 0)
    weights, activation = int(weight_kb * 1000 / shared), 14_336 * tokens
    return {
        "flops": {key: int(value * 1e6 * tokens / shared) for key, value in mflops.items()},
        "vector_ops": 4 * 7_168 * tokens,
        "special_ops": tokens * 128,
        "weight_bytes": weights,
        "activation_bytes": activation,
        "cache_read_bytes": read,
        "cache_write_bytes": written,
        "dram_read_bytes": weights + read,
        "dram_write_bytes": activation // 8 + written,
        "link_bytes": int(link_kb * 1000 * tokens / 8),
    }


def _busy(work: dict[str, Any], tokens: int) -> dict[str, int]:
    dram, link = work["dram_read_bytes"] + work["dram_write_bytes"], work["link_bytes"]
    peaks = {**PEAKS.matrix_flops_per_s, "fp32": 67e12}
    return {
        "matrix": sum(int(n / peaks[key] * 1.4e12) for key, n in work["flops"].items()),
        "vector": int(work["vector_ops"] / PEAKS.vector_ops_per_s * 1e12),
        "special": int(tokens * 17.3),
        "memory": int(dram / PEAKS.dram_bytes_per_s * 1.13e12),
        "link": int(link / PEAKS.link_bytes_per_s * 1e12) + (4_000_000 if link else 0),
        "launch": LAUNCH_PS,
    }


def _causes(busy: dict[str, int], bound: str) -> dict[str, int]:
    """The launch gap, and the rest for the resource that binds."""
    launch = min(busy["launch"], busy[bound])
    rest = busy[bound] - launch
    return {"launch": launch, CAUSE_OF_RESOURCE[bound]: rest} if rest else {"launch": launch}


def make_kernel(
    name: str, start_ps: int, end_ps: int, *, bound: str = "memory", **changes: Any
) -> KernelRecord:
    """One launch with little to it, on stream 0, that waits for one resource."""
    kernel = KernelRecord(
        path=f"layer00/{name}",
        name=name,
        family="gemm",
        scope="layer00",
        kind="csa",
        stream=0,
        start_ps=start_ps,
        end_ps=end_ps,
        nodes=(f"layer00/{name}",),
        flops={"bf16": 1_000},
        vector_ops=10,
        special_ops=1,
        weight_bytes=100,
        activation_bytes=10,
        cache_read_bytes=0,
        cache_write_bytes=0,
        dram_read_bytes=100,
        dram_write_bytes=10,
        link_bytes=0,
        busy_ps={"memory": end_ps - start_ps},
        causes_ps={CAUSE_OF_RESOURCE[bound]: end_ps - start_ps},
        low_ps=(end_ps - start_ps) * 9 // 10,
        high_ps=(end_ps - start_ps) * 11 // 10,
        calibrated=True,
        priced_by="gemm_bf16",
        program="gemm",
        shapes="1 x 2 x 3 bf16",
    )
    return replace(kernel, **changes)


def make_result(*kernels: KernelRecord, total_ps: int | None = None) -> StepResult:
    """A step of the given launches, which ends with the last one unless told otherwise."""
    end_ps = max((kernel.end_ps for kernel in kernels), default=0)
    return StepResult(
        question=make_question(),
        kernels=kernels,
        total_ps=end_ps if total_ps is None else total_ps,
        low_ps=end_ps * 9 // 10,
        high_ps=end_ps * 11 // 10,
        tokens=64,
        memory=make_memory(),
        peaks=PEAKS,
        standing=STANDING,
    )


def make_question(**changes: Any) -> StepQuestion:
    """Decode of 64 requests at 128 Ki tokens on eight chips, with changes by name."""
    question = StepQuestion(
        model="V4-Flash",
        chip="H200",
        count=8,
        layout=ParallelLayout(tensor=8, expert=8),
        phase="decode",
        batch=64,
        context=131_072,
        new_tokens=1,
        fidelity="tile",
        engine="sglang-0.5",
        index_dtype="fp8",
        expert_dtype="fp4",
        kv_dtype="fp8",
    )
    return replace(question, **changes)


def make_step(layers: int = 43, **changes: Any) -> StepResult:
    """A costed step of `layers` layers; `changes` go into the question."""
    question = make_question(**changes)
    clock = _Clock()
    clock.launch(question, "embed", "embed", ("embed_lookup", "gather", 0, {}, 500, 0, 0))
    for layer in range(layers):
        scope = f"layer{layer:02}"
        kind = "swa" if layer < 2 else ("csa", "hca")[layer % 2]
        rows = [*_ATTENTION[:6]]
        rows += _COMPRESSED if kind != "swa" else []
        rows += _INDEXER if kind == "csa" else []
        for row in [*rows, *_ATTENTION[6:], *_MOE]:
            clock.launch(question, scope, kind, row)
    for row in [
        ("final_norm", "norm", 0, {}, 14, 0, 0),
        ("lm_head", "gemm", 0, {"bf16": 1_059.0 / 8}, 132_382, 0, 0),
        ("logits_gather", "collective", 0, {}, 0, 0, 32),
    ]:
        clock.launch(question, "head", "head", row)
    total_ps = max(kernel.end_ps for kernel in clock.kernels) + 7_000_001
    return StepResult(
        question=question,
        kernels=tuple(clock.kernels),
        total_ps=total_ps,
        low_ps=total_ps * 95 // 100,
        high_ps=total_ps * 108 // 100,
        tokens=question.batch * question.new_tokens,
        memory=make_memory(),
        peaks=PEAKS,
        standing=STANDING,
        assumptions=(
            "experts are drawn uniformly, so 64 requests touch 226 of 256 experts in a layer.",
            "a kernel of one shape takes the same time wherever it stands in the step.",
            "collectives start together on all ranks: no rank is late.",
        ),
        notes=("The indexer's logits fit the last-level cache; they add no DRAM traffic.",),
        abouts={name: f"what {name} does" for name in dict.fromkeys(k.name for k in clock.kernels)},
        stored_expert_dtype="fp4",
    )


def make_memory(**changes: int) -> MemoryUse:
    """What one of eight ranks holds."""
    memory = MemoryUse(
        weight_bytes=21_474_836_480,
        state_bytes_by_pool={
            "window": 184_549_376,
            "c4": 13_958_643_712,
            "c128": 429_496_730,
            "c4_index": 5_033_164_800,
            "c4_state": 94_371_840,
        },
        workspace_bytes=3_221_225_472,
        capacity_bytes=141_000_000_000,
    )
    return replace(memory, **changes)


def make_proof(**changes: Any) -> ProofLine:
    """A golden file that holds."""
    proof = ProofLine(
        golden_name="golden_tiny.npz",
        layers=5,
        logits_difference=2.384e-7,
        logits_tolerance=1e-5,
        activations_difference=3e-8,
        activations_tolerance=1e-6,
        checks=412,
    )
    return replace(proof, **changes)
