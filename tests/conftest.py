"""How long a test takes depends on the machine: no verdict of hypothesis hangs on it.

Of a property `make test` tries 30 examples, unless it says how many, `make test-all` 100. Of a test
with many cases `make test` runs a seeded quarter, `make test-all` all; laws say
themselves which tenth of theirs runs.
"""

import random

import pytest
from hypothesis import HealthCheck, settings

from tests.sampling import WHOLE

settings.register_profile(
    "v4sim",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if WHOLE else 30,
)
settings.load_profile("v4sim")

MANY_CASES = 6


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out three quarters of the cases of tests that have many, seeded, as `deselected`."""
    if WHOLE:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = item.nodeid.partition("[")[0]
        if not name.startswith("tests/laws/"):
            cases.setdefault(name, []).append(item)
    left_out: set[str] = set()
    for name, own in cases.items():
        if len(own) >= MANY_CASES:
            picked = random.Random(name).sample(own, 3 * len(own) // 4)
            left_out |= {item.nodeid for item in picked}
    if left_out:
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
