"""Kernels that a roofline can tell apart: launches of one name, whatever layers do the same work.

A name is split by kind of layer where the kinds differ in FLOP per byte or in FLOP per second.
"""

from __future__ import annotations

from math import isclose

from reports.breakdown import GroupTotal, StepBreakdown

_SAME = 0.05  # closer than this, two dots on axes of several decades are one


def distinct_kernels(breakdown: StepBreakdown) -> tuple[GroupTotal, ...]:
    """Groups such as `experts_down (csa, hca)` and `sparse_attention (swa)`, largest part first."""
    kernels = breakdown.result.kernels
    single = [f"{kernel.name} ({kernel.kind})" for kernel in kernels]
    groups = {group.key: group for group in breakdown.group_by(single)}
    clusters: dict[str, list[tuple[GroupTotal, list[str]]]] = {}
    for name, kind in dict.fromkeys((kernel.name, kernel.kind) for kernel in kernels):
        group = groups[f"{name} ({kind})"]
        for first, kinds in clusters.setdefault(name, []):
            if _alike(first, group):
                kinds.append(kind)
                break
        else:
            clusters[name].append((group, [kind]))
    merged = {
        f"{name} ({kind})": f"{name} ({', '.join(kinds)})"
        for name, found in clusters.items()
        for _, kinds in found
        for kind in kinds
    }
    return breakdown.group_by([merged[key] for key in single])


def _alike(a: GroupTotal, b: GroupTotal) -> bool:
    # Compared as products, so that a group without bytes or time needs no division.
    return isclose(a.total_flops * b.dram_bytes, b.total_flops * a.dram_bytes, rel_tol=_SAME) and (
        isclose(a.total_flops * b.duration_ps, b.total_flops * a.duration_ps, rel_tol=_SAME)
    )
