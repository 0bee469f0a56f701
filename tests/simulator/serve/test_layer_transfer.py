"""State of prompts that is sent layer by layer beside their computation."""

from __future__ import annotations

from simulator.serve.run import run_scenario
from tests.laws.test_serving_laws import scenario


def test_what_is_sent_beside_the_prompt_comes_sooner() -> None:
    made = {"input_tokens": 30_000, "output_tokens": 16, "requests": 8, "rate_per_s": 1.0}
    found = {}
    for transfer in ("at_once", "layer"):
        asked = scenario(
            parallel={"tp": 4},
            traffic={"made": made},
            disaggregation={"prefill_replicas": 1, "transfer": transfer},
        )
        requests = run_scenario(asked).requests
        assert requests.finished.all()
        waited = requests.column("finish_ns") - requests.column("first_token_ns")
        found[transfer] = waited.mean()
    assert found["layer"] < found["at_once"]
