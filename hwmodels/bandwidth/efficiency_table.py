"""Writes the table of memory efficiency by pattern (`-m hwmodels.bandwidth.efficiency_table`).

Every entry is one steady window of the burst-level model, on one stack's channels.
"""

from __future__ import annotations

import sys

from hwmodels.bandwidth.efficiency import RUNS, TABLE, WRITE_FRACTIONS
from hwmodels.bandwidth.made_shares import entry_access, preset_memory
from hwmodels.bandwidth.measurement import measure
from hwmodels.dram.preset import find_preset, list_presets
from simulator.basis.atomic import write_text


def table_text(jobs: int = 2) -> str:
    """The table as YAML."""
    from joblib import Parallel, delayed

    questions = [
        (preset, entry_access(run, share))
        for preset in list_presets()
        for run in (None, *RUNS)
        for share in WRITE_FRACTIONS
    ]
    found = Parallel(n_jobs=jobs)(
        delayed(measure)(preset_memory(find_preset(preset)), access) for preset, access in questions
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
