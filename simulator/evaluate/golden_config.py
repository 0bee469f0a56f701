"""The `config` text of a golden file, held to the same schema as every model.

config = read_config(Path("tiny_7.npz"), '{"vocab_size": 97, ...}')
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.basis.yaml_loader import LineMap
from simulator.evaluate.dense_reference import SUPPORTED
from workloads.deepseek_v4.config import model_from_mapping


class _GoldenLines(LineMap):
    """Names the file and its `config` where a text file would have a line."""

    def error(
        self, keys: Sequence[str | int], sentence: str, kind: type[InputError] = FileFormatError
    ) -> InputError:
        return kind(f"{self.path}: config: {sentence}")


def read_config(path: Path, text: str) -> dict[str, Any]:
    """Config from its JSON text.

    Raises FileFormatError naming the file and the key, UnsupportedError for a model variant that
    the dense reference does not define.
    """
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as broken:
        raise FileFormatError(f"{path}: config: not valid JSON ({broken})") from None
    if not isinstance(config, dict):
        raise FileFormatError(f"{path}: config: needs a JSON object, has {_shown(config)}")
    model_from_mapping(config, _GoldenLines(path, {}), name=path.stem)
    for key, only in SUPPORTED.items():
        if config.get(key, only) != only:
            given = _shown(config[key])
            raise UnsupportedError(f"{path}: config: {key!r} needs {only!r}, has {given}")
    return config


def _shown(value: object) -> str:
    """A value as JSON, short enough for a sentence."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
