"""Made-up samples of trace formats, and the folder of real ones."""

import json
import os
from pathlib import Path

import pytest

TRACES = os.environ.get("V4SIM_TRACES")
needs_traces = pytest.mark.skipif(
    not TRACES, reason="V4SIM_TRACES does not name a folder of request traces"
)


def real(name):
    return Path(TRACES) / name


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def hit_tokens(trace):
    """Tokens in leading ids seen before, requests in order, cut at the input: id by id."""
    seen = set()
    hits = 0
    for request in range(len(trace)):
        ids = trace.block_ids(request).tolist()
        run = next((i for i, item in enumerate(ids) if item not in seen), len(ids))
        hits += min(run * trace.block_tokens, int(trace.input_tokens[request]))
        seen.update(ids)
    return hits


def notes_with(trace, words):
    return [note for note in trace.notes if words in note]
