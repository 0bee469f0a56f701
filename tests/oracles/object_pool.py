"""Pools of objects of several sizes, one eviction after another: slow and obviously right."""

NEVER = float("inf")


def pool_bytes(paths, sizes, capacity, parents, worth, first=0):
    """Bytes hit where the end of least `worth(object, request, uses before, next use)` leaves.

    What others need stays, `parents` -1 for none. Requests before `first` are not counted.
    """
    held, hit, used = set(), 0, {}
    for request, path in enumerate(paths):
        for one in path:
            hit += sizes[one] * (one in held and request >= first)
            held.add(one)
            used.setdefault(one, []).append(request)
        while sum(sizes[one] for one in held) > capacity:
            ends = held - {parents[one] for one in held}
            coming = {
                one: next((r for r in range(request + 1, len(paths)) if one in paths[r]), NEVER)
                for one in ends
            }
            held.remove(
                min(ends, key=lambda one: (worth(one, request, used[one], coming[one]), -one))
            )
    return hit


def evictions(sizes):
    """Ways to say what an object is worth: known beforehand, by its past, and by its size."""
    return {
        "farthest": lambda one, request, used, coming: -(coming - request) * sizes[one],
        "lru": lambda one, request, used, coming: used[-1],
        "fifo": lambda one, request, used, coming: used[0],
        "lfu": lambda one, request, used, coming: len(used),
        "largest": lambda one, request, used, coming: -sizes[one],
        "smallest": lambda one, request, used, coming: sizes[one],
        "latest": lambda one, request, used, coming: -used[-1],
    }
