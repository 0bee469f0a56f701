"""One narrow model, prefilled once, for all tests of the proof."""

from types import SimpleNamespace

import pytest

from simulator.prefix.window_policy import parse_window_policies
from simulator.prove.proof import Prover, plan_lengths
from simulator.prove.small_model import narrow_model

POLICIES = (
    "full,periodic:90,periodic:128,boundary,periodic:90+boundary,periodic:90+zero,zero,"
    "zero:trimmed,bounded:8,vllm:none"
)


@pytest.fixture(scope="session")
def proven(tmp_path_factory):
    """Prover, what every policy stored, and the uncached runs by cut."""
    config = narrow_model("test-8", 8, (0, 128, 4, 128, 4))
    lengths = plan_lengths(config)
    prover = Prover(config, tmp_path_factory.mktemp("blocks"), lengths)
    stored = {p.name: prover._stored(p) for p in parse_window_policies(POLICIES)}
    prover.prefill(list(stored.values()))
    runs = {cut: prover.uncached(cut) for cut in lengths.cuts}
    return SimpleNamespace(prover=prover, stored=stored, runs=runs, lengths=lengths)
