"""Trace blocks against cache granules: what is known of a hit, and what of it can be used."""

from __future__ import annotations


def known_tokens(blocks: int, block_tokens: int, input_tokens: int) -> int:
    """Tokens in the first `blocks` blocks of a prompt; the last block may be partial."""
    return min(blocks * block_tokens, input_tokens)


def whole_granules(tokens: int, granule_tokens: int) -> int:
    """Tokens in whole granules."""
    return tokens // granule_tokens * granule_tokens


def rounding_note(block_tokens: int, granule_tokens: int) -> str:
    """How the two sizes round, as a sentence."""
    known = (
        f"the trace tells prefixes apart only at multiples of {block_tokens:,} tokens (and at the "
        f"end of a prompt), so that up to {block_tokens - 1:,} tokens of a shared prefix count as "
        "different"
    )
    if block_tokens == 1:
        known = "the trace tells every token of a prefix"
    if granule_tokens == 1:
        return f"{known}; the cache is taken to hit at any token."
    if block_tokens % granule_tokens == 0:
        used = (
            f"cache granules of {granule_tokens:,} tokens divide a trace block and round only the "
            "end of a prompt"
        )
    else:
        used = (
            f"a hit is cut to whole cache granules of {granule_tokens:,} tokens, which loses up to "
            f"{granule_tokens - 1:,} more"
        )
    return f"{known}; {used}."
