"""The cache of DeepSeek-V4.1-Flash, all that is modelled of it: bytes a token and a request.

Key-value entries are made by four source layers and shared by all others: three of ratio 2 and one
of ratio 1, which in V4.1 makes an entry of every token (in V4 a ratio of 1 compresses nothing).
Source: report "DeepSeek-V4.1-Flash: Pushing the Limits of KV Cache Compression", section on the
cache (890 B a token), and its text_config.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.dtype import NVFP4_GROUP
from workloads.index_entry import Fp4IndexEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class V41Cache:
    """What a request of V4.1-Flash keeps.

    `sources` are (layer, tokens an entry) of the layers that make entries; `window_layers` layers
    keep `window` raw rows in the entries' format.
    """

    sources: tuple[tuple[int, int], ...] = ((2, 2), (8, 2), (14, 2), (20, 1))
    head_dim: int = 512
    index_head_dim: int = 128
    window: int = 128
    window_layers: int = 40

    @property
    def main_bytes(self) -> int:
        """An entry: e2m1 values with an e4m3 scale for 16 of them."""
        return NVFP4_GROUP.matrix_bytes(1, self.head_dim)

    @property
    def entry_bytes(self) -> int:
        """An entry and its index key."""
        return self.main_bytes + Fp4IndexEntry(self.index_head_dim).nbytes

    @property
    def growth_bytes_per_token(self) -> float:
        """Bytes that each further token adds, on average."""
        return sum(self.entry_bytes / ratio for _, ratio in self.sources)

    def tokens_in(self, nbytes: int) -> int:
        """Tokens of context whose entries so many bytes hold, windows left out."""
        return int(nbytes / self.growth_bytes_per_token)


V41_FLASH = V41Cache()
MISSING = (
    "its cross-decoder (20 encoder and 20 decoder layers)",
    "entries shared between layers, and picks that layers reuse",
    "blocks of candidates before the top-k",
    "FP4 main rows of 288 B under an engine's layout",
    "Engram tables (196 B parameters)",
    "FP8 weights in blocks of 32 x 32",
)
