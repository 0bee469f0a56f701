"""Live sessions and a pool of blocks, counted slowly: one list, one loop, nothing shared.

A session is a list of requests (start in s, tokens, ids of its full blocks), ids its own.
"""


def live_order(sessions, live):
    """(session, request) in the order of issue, and when, in s."""
    open_, order, waiting, admitted = [], [], list(range(len(sessions))), 0

    def admit(now):
        nonlocal admitted
        if waiting:
            open_.append({"at": now, "admission": admitted, "session": waiting.pop(0), "next": 0})
            admitted += 1

    for _ in range(live):
        admit(0)
    while open_:
        one = min(open_, key=lambda o: (o["at"], o["admission"]))
        requests = by_time(sessions[one["session"]])
        number, start = requests[one["next"]]
        order.append((one["session"], number, one["at"]))
        one["next"] += 1
        if one["next"] == len(requests):
            open_.remove(one)
            admit(one["at"])
        else:
            one["at"] += min(300, max(0, requests[one["next"]][1] - start))
    return order


def by_time(session):
    """Number and start of requests, by start; equal ones in order of the file."""
    return sorted(((n, request[0]) for n, request in enumerate(session)), key=lambda x: x[1])


def granules(session, ids, each):
    """Names of whole granules: the session, and the last of `each` ids."""
    return [(session, ids[k + each - 1]) for k in range(0, len(ids) - each + 1, each)]


def lru_hits(asked, capacity):
    """Leading known blocks of each request under block LRU, the tail of a prompt evicted first."""
    stack, hits = [], []  # most recent first
    for names in asked:
        hit = 0
        while hit < len(names) and names[hit] in stack:
            hit += 1
        hits.append(hit)
        for name in reversed(names):
            if name in stack:
                stack.remove(name)
            stack.insert(0, name)
        del stack[capacity:]
    return hits
