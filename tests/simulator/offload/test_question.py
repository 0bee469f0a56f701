"""Questions: completed, or refused with one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator.basis.errors import InputError, UnsupportedError
from simulator.offload.question import read_lengths
from tests.simulator.offload.questions import asked
from workloads.deepseek_v4 import config


def test_defaults() -> None:
    question = asked()
    assert (question.top_k, question.buffer_entries, question.return_entries) == (512, 1024, 512)
    assert (question.c4_layers, question.last_context, question.mean_context) == (
        21,
        220_000,
        210_000,
    )
    assert question.at(8000, 100).mean_context == 8050


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt_tokens": 0}, "prompt is 0 tokens, expected at least 1"),
        ({"output_tokens": -3}, "output is -3 tokens"),
        ({"prompt_tokens": 2_000_000}, "takes at most 1,048,576"),
        ({"buffer_entries": 500}, r"expected 512 to 1,048,576 \(12 too few, the 512 picks"),
        ({"buffer_entries": 2**21}, "too many"),
        ({"overlap": 1.5}, "overlap is 1.5, expected a share"),
        ({"overlap": float("nan")}, "overlap is nan"),
        ({"returns": -0.1}, "returns is -0.1"),
        ({"return_entries": -1}, "return-entries is -1"),
        ({"return_entries": 0}, "return-entries is 0"),
        ({"gather_share": 0.0}, "gather-share is 0"),
        ({"host_gigabytes": -1.0}, "host-gb is -1"),
        ({"host_gigabytes": float("inf")}, "host-gb is inf"),
        ({"host_gigabytes": 1e-12}, "host-gb is 1e-12"),
        ({"host_ratio": 0}, "host-ratio is 0, expected 1 to 1,024"),
        ({"window_ratio": 2.0}, "window ratio is 2"),
        ({"offload_window_ratio": 0.1, "engine": "ideal"}, "does not size its window by a ratio"),
        ({"index_dtype": "fp3"}, "unknown"),
        ({"fidelity": "cycle"}, "use --fidelity tile or roofline"),
    ],
)
def test_bad_input(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        asked(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"engine": "vllm-0.33"}, "one block size.*nearest: --engine sglang-0.5"),
        ({"engine": "trtllm-1.3"}, "stores cache rows as kv_fp8_uniform"),
        ({"engine": "ascend", "chip": "ascend-910c"}, "stores cache rows as kv_bf16"),
    ],
)
def test_engines_that_cannot(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnsupportedError, match=sentence):
        asked(**changes)


def test_lengths() -> None:
    assert read_lengths("8192, 131072,8192") == (8192, 131072)
    assert read_lengths("") == ()
    with pytest.raises(InputError, match="--contexts has '1e5', expected whole numbers"):
        read_lengths("8192,1e5")


def test_a_model_without_c4_layers_has_nothing_to_move(tmp_path: Path) -> None:
    shipped = Path(config.__file__).parent / "models" / "tiny.yaml"
    text = shipped.read_text().replace("[0, 128, 4, 128, 4]", "[0, 128, 0, 128, 128]")
    bare = tmp_path / "bare.yaml"
    bare.write_text(text)
    with pytest.raises(UnsupportedError, match="has no C4 layer among its 5"):
        asked(model=str(bare), engine="ideal", prompt_tokens=500, output_tokens=12)
