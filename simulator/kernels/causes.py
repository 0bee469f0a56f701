"""Where a kernel's time goes: whole picoseconds by cause that add up to the kernel's duration."""

from __future__ import annotations

from collections.abc import Mapping

# In the order in which reports list them.
CAUSES = (
    "launch",
    "dram_latency",
    "dram_bandwidth",
    "llc",
    "matrix",
    "l0",
    "vector",
    "tail",
    "power",
    "serial",
    "communication",
)
_PLACE = {cause: i for i, cause in enumerate(CAUSES)}
# Cause of the time of a kernel that waits for a resource.
CAUSE_OF_RESOURCE = {
    "matrix": "matrix",
    "vector": "vector",
    "special": "vector",
    "memory": "dram_bandwidth",
    "llc": "llc",
    "link": "communication",
    "launch": "launch",
    "latency": "serial",
}
# Resource that binds a kernel most of whose time has a cause; cores that idle wait for the others.
RESOURCE_OF_CAUSE = {
    "launch": "launch",
    "dram_latency": "latency",
    "dram_bandwidth": "memory",
    "llc": "llc",
    "matrix": "matrix",
    "l0": "matrix",
    "vector": "vector",
    "tail": "matrix",
    "power": "matrix",
    "serial": "latency",
    "communication": "link",
}


def shared_out(
    total_ps: int, weights: Mapping[str, float], places: Mapping[str, int] = _PLACE
) -> dict[str, int]:
    """A duration divided in proportion to weights, exactly: the largest remainders round up.

    `places` are those of the names in the answer, in that order; the causes unless given.
    """
    whole = sum(weights.values())
    if total_ps <= 0 or whole <= 0:
        return {}
    exact = {cause: total_ps * weight / whole for cause, weight in weights.items() if weight > 0}
    parts = {cause: int(value) for cause, value in exact.items()}
    missing = total_ps - sum(parts.values())
    if missing < 0 or missing > len(parts):
        # Beyond 2^53 picoseconds a float has no room for the last digits.
        parts[max(parts, key=lambda cause: parts[cause])] += missing
    else:
        ranked = sorted((parts[cause] - exact[cause], places[cause], cause) for cause in parts)
        for _, _, cause in ranked[:missing]:
            parts[cause] += 1
    return {cause: parts[cause] for cause in places if parts.get(cause)}


def part_of(cause: str, total_ps: int, weights: Mapping[str, float]) -> int:
    """What `shared_out` gives one cause, which has some weight."""
    whole = sum(weights.values())
    if total_ps <= 0 or whole <= 0:
        return 0
    missing, part_ps, own = total_ps, 0, (0.0, 0)
    others = []
    for name, weight in weights.items():
        if weight <= 0:
            continue
        exact = total_ps * weight / whole
        down = int(exact)
        missing -= down
        others.append((down - exact, _PLACE[name]))
        if name == cause:
            part_ps, own = down, others[-1]
    if missing < 0 or missing > len(others):
        return shared_out(total_ps, weights).get(cause, 0)
    rank = sum(1 for other in others if other < own)
    return part_ps + (rank < missing)


def waits_by_resource(causes_ps: Mapping[str, int]) -> dict[str, int]:
    """Time by the resource that it waits for."""
    waits: dict[str, int] = {}
    for cause, part_ps in causes_ps.items():
        resource = RESOURCE_OF_CAUSE[cause]
        waits[resource] = waits.get(resource, 0) + part_ps
    return waits


def binding_resource(causes_ps: Mapping[str, int]) -> str:
    """The resource that most of the time waits for; launches where there is no time."""
    waits = waits_by_resource(causes_ps)
    return max(waits, key=lambda resource: waits[resource]) if waits else "launch"
