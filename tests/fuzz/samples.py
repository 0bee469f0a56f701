"""A small valid question of every command, and the files that they name."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import hwmodels
import simulator
import workloads

_SCENARIO = """name: chat
model: v4-flash
chip: h200
parallel: {tp: 8}
engine: sglang-0.5
traffic:
  made: {input_tokens: 4096, output_tokens: 64, range_ratio: 0.1, shared_prefix_tokens: 256,
         requests: 5, rate_per_s: 4}
service_levels: {ttft_s: 2, tpot_ms: 40, percentile: 99}
seed: 1
"""
_PLAN = """name: documents
scenario:
  name: documents
  model: v4-flash
  chip: h200
  traffic:
    made: {input_tokens: 2000, output_tokens: 40, range_ratio: 0.2, requests: 10, rate_per_s: 0.4}
  service_levels: {ttft_s: 30, tpot_ms: 60, percentile: 95}
chips:
  - {chip: h200, most_chips: 16}
engines: [sglang-0.5]
layouts: [[8, 1]]
max_requests: [32]
"""
_AIPERF = "".join(
    f'{{"timestamp": {1000 * i}, "input_length": {600 + i}, "output_length": 4, '
    f'"hash_ids": [0, {i + 1}]}}\n'
    for i in range(6)
)
_TABLE = """arrived_at,num_prefill_tokens,num_decode_tokens
0.0,500,5
1.5,700,9
2.5,900,4
"""
_RECORD = """{"schema": "v4sim.run/1", "version": "0.1.0", "command": ["v4sim", "serve", "chat"],
 "exit_code": 0, "inputs": [{"given": "chat", "bytes": 9, "sha256": "00"}], "printed": "none"}
"""
_HARDWARE = Path(hwmodels.__file__).parent
_SIMULATOR = Path(simulator.__file__).parent
_WORKLOADS = Path(workloads.__file__).parent
_ROWS = Path(__file__).parents[1] / "validation" / "silicon"
_TEXTS = {"chat.yaml": _SCENARIO, "plan.yaml": _PLAN, "a.jsonl": _AIPERF, "v.csv": _TABLE}
_COPIES = {
    "chip.yaml": _HARDWARE / "chips/h200.yaml",
    "blackwell.yaml": _HARDWARE / "chips/b200.yaml",
    "node.yaml": _HARDWARE / "nodes/h200-x8.yaml",
    "rack.yaml": _HARDWARE / "nodes/gb300-nvl72.yaml",
    "model.yaml": _WORKLOADS / "deepseek_v4/models/v4-flash.yaml",
    "tiny.yaml": _WORKLOADS / "deepseek_v4/models/tiny.yaml",
    "engine.yaml": _SIMULATOR / "engine/profiles/vllm-0.33.yaml",
    "tiers.yaml": _SIMULATOR / "prefix/tiers/node.yaml",
    "golden.npz": _SIMULATOR / "evaluate/data/tiny_7.npz",
}
_CSV = ("gemm", "moe", "mhc", "collective", "attention_module", "attention_kernel")

# The words after `v4sim`; a file is one of those above. Most first, so that a sample has all.
QUESTIONS: tuple[str, ...] = (
    "step --model v4-flash --chip chip.yaml --count 8 --batch 4",
    "step --model model.yaml --chip b200 --count 8 --engine engine.yaml --phase prefill",
    "whatif --model v4-flash --chip chip.yaml --count 8 --set cores.count=120",
    "capacity --model v4-flash --chip chip.yaml --count 8 --context 8192:0.7,65536:0.3",
    "capacity --model model.yaml --chip b200 --count 8 --engine engine.yaml --requests 4",
    "chips show blackwell.yaml",
    "chips list",
    "models show model.yaml",
    "models list",
    "verify golden.npz",
    "run --model tiny.yaml --tokens 20 --only",
    "calibrate --list",
    *(f"validate {name}.csv" for name in _CSV),
    "bandwidth --chip chip.yaml --pattern gather --granule 64 --channels 1",
    "address --request 0:6:5 --request 3:3 --model v4-flash",
    "indexer --entries 513 --chip chip.yaml",
    "serve chat.yaml",
    "sweep chat.yaml --workers 1 --grid scheduler.max_requests=4,8",
    "plan plan.yaml",
    "offload --dp 2 --chip blackwell.yaml",
    "prefix compare --trace a.jsonl --policies zero",
    "prefix compare --trace a.jsonl --node node.yaml --tiers tiers.yaml --policies full",
    "prefix compare --trace a.jsonl --reference --capacity-tokens 1024",
    "prefix crossover --node node.yaml --model model.yaml --prefixes 4096,8192",
    "trace info a.jsonl",
    "trace info v.csv",
    "trace synth --out new.jsonl --sessions 2 --turns-mean 3 --input-mean 2000 "
    "--last-input-mean 3000 --system-tokens 100",
    "layout --model v4-flash --chip chip.yaml --pages 256 --padding none --grouping engine",
    "prefix compare --trace a.jsonl --node rack.yaml --policies full",
    "compare step.json step2.json",
    "compare --model v4-flash --chip chip.yaml,b200 --count 8",
    "explain step.json --levers 1",
    "show run",
    *(f"init {kind} --out own.yaml" for kind in ("chip", "engine", "model", "prices", "tiers")),
    "init plan --trace a.jsonl --chip b200 --out own.yaml",
    "init scenario --trace v.csv --out own.yaml",
    "glossary window",
    "prefix prove --model flash-like-8 --policy zero --cut 20",
)


@cache
def _steps() -> dict[str, str]:
    """Two steps as their JSON."""
    from reports.step_json import step_to_json
    from simulator.cost.question import ask
    from simulator.cost.step import cost_step

    return {
        name: json.dumps(
            step_to_json(cost_step(ask(model="tiny", chip="h200", batch=batch))), indent=1
        )
        for name, batch in (("step.json", 1), ("step2.json", 2))
    }


def write_samples(folder: Path) -> None:
    """All files that the questions name."""
    for name, text in _TEXTS.items():
        (folder / name).write_text(text)
    for name, source in _COPIES.items():
        shutil.copy(source, folder / name)
    for name, text in _steps().items():
        (folder / name).write_text(text)
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run/run.json").write_text(_RECORD)
    for name in _CSV:
        lines = (_ROWS / f"{name}.csv").read_text().splitlines(keepends=True)
        (folder / f"{name}.csv").write_text("".join([lines[0], *lines[1 :: len(lines) // 8][:8]]))
