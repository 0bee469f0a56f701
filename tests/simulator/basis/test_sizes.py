"""Sizes of tokens: K is 1,024 and M 1,048,576, and nothing is rounded."""

import pytest

from simulator.basis.errors import InputError
from simulator.basis.sizes import read_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("8192", 8192), ("128K", 131072), ("1M", 1048576), ("0.5M", 524288), ("0.5k", 512),
     ("131,072", 131072), ("131_072", 131072), (" 4 K", 4096), (7, 7), ("-4", -4)],
)  # fmt: skip
def test_a_size_is_read_whole(text: str | int, tokens: int) -> None:
    assert read_tokens(text) == tokens


@pytest.mark.parametrize("text", ["", "K", "12q", "1e3", "1G", "0.0001K", "1.5", "K128"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--context"):
        read_tokens(text, "--context")
