"""The 64-bit Mersenne twister, so that a seed gives the same addresses as the reference runs."""

from __future__ import annotations

import numpy as np

from hwmodels.dram.compiled import compiled

_WORDS = 312
_MIDDLE = 156


@compiled
def mersenne_words(seed, count):  # type: ignore[no-untyped-def]
    """The first `count` outputs of mt19937_64 with this seed."""
    state = np.empty(_WORDS, dtype=np.uint64)
    state[0] = np.uint64(seed)
    for i in range(1, _WORDS):
        mixed = state[i - 1] ^ (state[i - 1] >> np.uint64(62))
        state[i] = np.uint64(6364136223846793005) * mixed + np.uint64(i)
    out = np.empty(count, dtype=np.uint64)
    at = _WORDS
    for k in range(count):
        if at == _WORDS:
            _turn(state)
            at = 0
        word = state[at]
        at += 1
        word ^= (word >> np.uint64(29)) & np.uint64(0x5555555555555555)
        word ^= (word << np.uint64(17)) & np.uint64(0x71D67FFFEDA60000)
        word ^= (word << np.uint64(37)) & np.uint64(0xFFF7EEE000000000)
        out[k] = word ^ (word >> np.uint64(43))
    return out


@compiled
def _turn(state):  # type: ignore[no-untyped-def]
    for i in range(_WORDS):
        word = (state[i] & np.uint64(0xFFFFFFFF80000000)) | (
            state[(i + 1) % _WORDS] & np.uint64(0x7FFFFFFF)
        )
        mixed = state[(i + _MIDDLE) % _WORDS] ^ (word >> np.uint64(1))
        if word & np.uint64(1):
            mixed ^= np.uint64(0xB5026F5AA96619E9)
        state[i] = mixed
