"""Models for the proof: by name, by a file of window and layer list; large ones are refused."""

import pytest

from simulator.basis.errors import InputError
from simulator.prove.small_model import default_models, small_model


def test_default_models():
    models = default_models()
    assert [(m.name, m.sliding_window) for m in models] == [
        (f"{name}-{window}", window)
        for name in ("flash-like", "pro-like")
        for window in (8, 16, 32)
    ]
    assert models[0].layer_ratios == (0, 0, 4, 128, 4, 128, 4, 128, 4)
    assert models[3].layer_ratios == (128, 128, 4, 128, 4, 128, 4, 128, 4)


def test_a_file_needs_window_and_layers_only(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("sliding_window: 12\ncompress_ratios: [4, 128, 4]\nindex_topk: 5\n")
    config = small_model(str(path))
    assert (config.name, config.sliding_window, config.num_hidden_layers) == ("mine", 12, 3)
    assert (config.index_topk, config.hidden_size) == (5, 32)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("compress_ratios: [4]\n", "sliding_window is missing"),
        ("sliding_window: 8\n", "compress_ratios is missing"),
        ("sliding_window: 8\ncompress_ratios: [4, 5]\n", r"layer 1 of .* is CSA with 5 tokens"),
        ("sliding_window: 8\ncompress_ratios: 4\n", "compress_ratios"),
        ("sliding_window: 8\ncompress_ratios: []\n", ":2: compress_ratios lists no layer"),
        ("sliding_window: 8\ncompress_ratios: [4]\nindex_topq: 5\n", "index_topk"),
    ],
)
def test_faults_of_a_file(tmp_path, text, sentence):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        small_model(str(path))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("v4-flash", "v4-flash has 2[0-9,]+ parameters, and a proof runs at most 20,000,000"),
        ("flash-like-9", "did you mean 'flash-like-8'"),
        ("none.yaml", "no such model file"),
    ],
)
def test_what_cannot_be_run(name, sentence):
    with pytest.raises(InputError, match=sentence):
        small_model(name)
