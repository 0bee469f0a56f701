"""Hits of engines that keep single windows: prefixes in sets, every boundary tried, slow."""

GRANULE = 256


def _wanted(name, tokens):
    """Boundaries at which a prompt of so many tokens leaves a window."""
    every = range(GRANULE, tokens + 1, GRANULE)
    resume = [at for at in every if at < tokens][-1:]
    return {
        "lmcache": list(every),
        "hicache": list(every),
        "mooncake": resume,
        "mooncake:none": list(every),
        "mooncake:512": sorted({at for at in every if at % 512 == 0} | set(resume)),
    }[name]


def served_hits(name, prompts, block_tokens):
    """Tokens of each served prompt that are hit, nothing forgotten, one prompt at a time.

    `prompts`: ids of blocks, of which two make a granule or one does.
    """
    pages, windows, hits = set(), set(), []
    for ids in prompts:
        tokens = len(ids) * block_tokens
        heads = {at: tuple(ids[: at // block_tokens]) for at in range(0, tokens, GRANULE)}
        heads[tokens] = tuple(ids)
        found = [
            at
            for at, head in heads.items()
            if at < tokens and at % GRANULE == 0 and head in pages and head in windows
        ]
        hit = max(found, default=0)
        hits.append(hit)
        pages |= {tuple(ids[:n]) for n in range(1, len(ids) + 1)}
        windows |= {heads[at] for at in _wanted(name, tokens) if at > hit}
    return hits
