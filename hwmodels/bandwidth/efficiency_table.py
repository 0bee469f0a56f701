"""Writes the table of memory efficiency by pattern (`-m hwmodels.bandwidth.efficiency_table`).

Every entry is one steady window of the burst-level model, on one stack's channels.
"""

from __future__ import annotations

import sys

from hwmodels.bandwidth.access import Access
from hwmodels.bandwidth.efficiency import TABLE
from hwmodels.bandwidth.measurement import measure
from hwmodels.dram.chip_memory import ChipMemory
from hwmodels.dram.preset import find_preset, list_presets
from simulator.basis.atomic import write_text

# Powers of two, and entries of caches: index keys of 68 and 132 bytes, key-value of 584 and 656.
RUNS = (32, 64, 68, 128, 132, 256, 512, 576, 584, 640, 656, 1024, 2048, 4096)
WRITE_FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
_STREAMS = 132


def preset_memory(preset: str) -> ChipMemory:
    """One stack of a preset as the memory of a chip, with 132 cores."""
    facts = find_preset(preset)
    channels = 8 if facts.standard.startswith("HBM2") else 16
    peak = channels * facts.channel_bytes_per_s
    return ChipMemory(preset, facts, channels, channels, peak, 0.0, _STREAMS)


def table_text(jobs: int = 2) -> str:
    """The table as YAML."""
    from joblib import Parallel, delayed

    questions = [
        (preset, Access(kind=kind, granule_bytes=run, write_fraction=share))
        for preset in list_presets()
        for kind, run in (("stream", 4096), *(("gather", run) for run in RUNS))
        for share in WRITE_FRACTIONS
    ]
    found = Parallel(n_jobs=jobs)(
        delayed(measure)(preset_memory(preset), access) for preset, access in questions
    )
    rows: dict[tuple[str, str], list[str]] = {}
    for (preset, access), one in zip(questions, found, strict=True):
        name = "stream" if access.kind == "stream" else str(access.granule_bytes)
        rows.setdefault((preset, name), []).append(f"{min(1.0, one.useful_fraction):.4f}")
    lines = [
        "# Useful share of the peak by pattern, from the burst-level DRAM model; made by",
        "# python -m hwmodels.bandwidth.efficiency_table. A list has one entry a share of writes;",
        "# gathers are by bytes of a run that begins at multiples of its size.",
        f"write_fractions: [{', '.join(map(str, WRITE_FRACTIONS))}]",
        "presets:",
    ]
    for (preset, name), shares in rows.items():
        entries = f"[{', '.join(shares)}]"
        if name == "stream":
            lines += [f"  {preset}:", f"    stream: {entries}", "    gather:"]
        else:
            lines.append(f'      "{name}": {entries}')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_text(TABLE, table_text())
    print(f"wrote {TABLE}", file=sys.stderr)
