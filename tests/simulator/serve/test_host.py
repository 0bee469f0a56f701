"""Host time: hidden behind kernels or not, by a node's processor; captured batch sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.node import find_node
from simulator.basis.errors import InputError
from simulator.basis.yaml_loader import load_yaml
from simulator.engine.profile import find_profile
from simulator.engine.serving_section import GraphSizes, HostSection
from simulator.serve.host import NO_HOST, host_time


def section(**keys: float | bool) -> HostSection:
    return HostSection(source="by hand", **keys)  # type: ignore[arg-type]


def test_work_hides_behind_longer_kernels_unless_nothing_overlaps() -> None:
    own = section(step_us=1000, request_us=10, gap_us=5)
    host = host_time(own, 1.0, 0, drafted=False, ranks=1)
    times = host.decode_ns(np.array([5e5, 5e6]), 100)
    assert times.tolist() == [2e6 + 5e3, 5e6 + 5e3]
    apart = host_time(own.model_copy(update={"overlaps": False}), 1.0, 0, drafted=False, ranks=1)
    assert apart.decode_ns(np.array([5e6]), 100).tolist() == [7e6 + 5e3]


def test_prompts_are_launched_kernel_by_kernel_unless_they_are_captured() -> None:
    own = section(eager_kernel_us=65, prompt_us=1000)
    eager = host_time(own, 1.0, 1000, drafted=False, ranks=1)
    assert eager.prompt_step_ns(10e6, 1, 0) == 65e6 + 1e6
    assert eager.prompt_step_ns(90e6, 1, 0) == 91e6
    captured = own.model_copy(update={"prompts_in_graphs": True})
    assert host_time(captured, 1.0, 1000, drafted=False, ranks=1).prompt_step_ns(10e6, 1, 0) == 11e6


def test_an_arm_host_takes_its_factor_for_everything() -> None:
    x86, arm = find_node("b300", 8), find_node("gb300", 8)
    assert (x86.host_factor, arm.host_factor) == (1.0, 2.6)
    own = find_profile("sglang-0.5").host
    fast, slow = (
        host_time(own, node.host_factor, 1267, drafted=True, ranks=1) for node in (x86, arm)
    )
    assert slow.step_ns == pytest.approx(2.6 * fast.step_ns)
    # A cycle of drafts that the x86 host hides is bound by the Arm one.
    assert slow.decode_ns(np.array([7.4e6]), 1)[0] > 1.2 * fast.decode_ns(np.array([7.4e6]), 1)[0]
    assert slow.scaled(2.0).launch_ns == 2 * slow.launch_ns
    assert host_time(None, 1.0, 5, drafted=False, ranks=1) is NO_HOST


@given(st.integers(1, 2000), st.booleans())
def test_batches_are_padded_to_the_next_captured_size(requests: int, drafted: bool) -> None:
    batching = find_profile("sglang-0.5").batching
    assert batching is not None
    assert batching.graph_sizes is not None
    padded = batching.graph_sizes.padded(requests, drafted)
    assert padded >= requests
    assert batching.graph_sizes.padded(padded, drafted) == padded


def test_sizes_are_those_of_the_engine() -> None:
    batching = find_profile("sglang-0.5").batching
    assert batching is not None
    sizes = batching.graph_sizes
    assert sizes is not None
    assert [sizes.padded(n, False) for n in (1, 3, 5, 13, 17, 257)] == [1, 4, 8, 16, 24, 272]
    assert [sizes.padded(n, True) for n in (7, 9, 33, 65, 257)] == [7, 10, 36, 72, 272]


def test_unknown_keys_and_falling_sizes_are_sentences(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "host.yaml"
    path.write_text("source: x\nstep_ms: 3\n")
    with pytest.raises(InputError, match="unknown key 'step_ms'"):
        load_yaml(path, HostSection)
    path.write_text("source: x\nplain: [[8, 1], [4, 2]]\ndrafted: [[8, 1]]\n")
    with pytest.raises(InputError, match="plain must list rising sizes"):
        load_yaml(path, GraphSizes)
