"""NCCL and the engines' all-reduces: bytes by hand, hand arithmetic, laws, carried rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.calibration.row_entries import entry_of
from simulator.kernels import graph_all_reduce, nccl
from simulator.kernels.family import check_families
from simulator.kernels.link_traffic import (
    gathered,
    one_shot,
    ring_reduced,
    switch_reduced,
    two_shot,
)
from simulator.kernels.nccl import rank_bytes_per_s
from tests.simulator.kernels.row_support import CHIPS, check_laws, errors_of_rows, fitted, one

FAMILIES = {**nccl.FAMILIES, **graph_all_reduce.FAMILIES}
HEADER = (
    "chip,engine,kernel_source,nccl_dtype,op_name,num_gpus,message_size,latency_us,op,"
    "allreduce_dtype"
)
# Source: aiconfigurator-core 0.12.0, (c) NVIDIA, Apache-2.0.
ROWS = (
    "h200,nccl-2.29.2,NCCL,int8,reduce_scatter,8,32768,11.65,nccl,",
    "h200,nccl-2.29.2,NCCL,half,all_reduce,4,134217728,1180.42,nccl,",
    "b200,nccl-2.27.3,NCCL,half,reduce_scatter,2,8388608,36.75,nccl,",
    "b200,nccl-2.27.5,NCCL,int8,reduce_scatter,8,134217728,219.6,nccl,",
    "b200,nccl-2.28.9,NCCL,int8,all_reduce,2,131072,11.61,nccl,",
    "h200,nccl-2.23,NCCL,int8,alltoall,4,268435456,664.8,nccl,",
    "b200,vllm-0.24.0,vLLM_custom_graph,,all_reduce,4,8192,7.363,custom_allreduce,bfloat16",
    "h200,vllm-0.24.0,vLLM_custom_graph,,all_reduce,2,65536,4.823,custom_allreduce,bfloat16",
    "b200,trtllm-1.3.0rc20,TRTLLM,,all_reduce,4,1024,5.041,custom_allreduce,bfloat16",
    "h200,sglang-0.5.14,SGLang_CustomAllReduce_graph,,all_reduce,8,524288,13.051,custom_allreduce,"
    "bfloat16",
    "h200,sglang-0.5.9,SGLang_CustomAllReduce_graph,,all_reduce,4,134217728,1180.911,"
    "custom_allreduce,bfloat16",
)
ENGINES = {
    "graph_all_reduce_peer": "vllm-0.24.0",
    "graph_all_reduce_sglang": "sglang-0.5.14",
    "graph_all_reduce_trtllm": "trtllm-1.3.0",
}
CONSTANTS = {
    "start_us": 5.0,
    "hop_us": 1.0,
    "link_share": 0.8,
    "copy_tb_per_s": 1.0,
    "simple_us": 10.0,
}


def nccl_call(elements, ranks=8, operation="all_gather", dtype="half"):
    size = {"half": 2, "int8": 1}[dtype]
    return one(
        ranks=ranks,
        operation=operation,
        message_bytes=elements * size,
        floating=float(dtype == "half"),
    )


def graph_call(family, elements, ranks=8):
    return one(engine=ENGINES[family], ranks=ranks, message_bytes=2 * elements)


def call_of(family, elements, ranks):
    if family in ENGINES:
        return graph_call(family, elements, ranks)
    return nccl_call(elements, ranks, "alltoall" if family == "nccl_alltoall" else "all_reduce")


def test_families_are_registered():
    check_families(FAMILIES)


@pytest.mark.parametrize(
    ("algorithm", "sent", "copied", "steps"),
    [
        (gathered, 70, 10, 7),
        (ring_reduced, 140, 10, 14),
        (switch_reduced, 90, 0, 2),
        (one_shot, 560, 80, 1),
        (two_shot, 140, 20, 2),
    ],
)
def test_bytes_of_eighty_over_eight_ranks(algorithm, sent, copied, steps):
    traffic = algorithm(np.array([80.0]), np.array([8.0]))
    assert (traffic.sent[0], traffic.copied[0], traffic.steps[0]) == (sent, copied, steps)


def test_a_large_gather_by_hand():
    size = 2 * 2**28
    parts = nccl.FAMILIES["nccl_ring"].parts(nccl_call(2**28), find_chip("h200"), CONSTANTS)
    transfer = size * 7 / 8 / (0.8 * 450e9) + size / 8 / 1e12
    assert parts.seconds["communication"][0] == pytest.approx(transfer)
    # A hop a step, the hand-shake, and the start of all channels.
    assert parts.total[0] == pytest.approx(5e-6 + 7e-6 + 10e-6 + 2e-6 + transfer)


def test_a_gather_of_middle_size_has_flags_in_lines_of_128_bytes():
    parts = nccl.FAMILIES["nccl_ring"].parts(nccl_call(2**21), find_chip("h200"), CONSTANTS)
    transfer = 2**22 * 7 / 8 / (0.8 * 450e9) + 2**22 / 8 / 1e12
    handshake = 10e-6 * (1.9 - 0.6) / (3.4 - 0.6)
    expected = 5e-6 + 7e-6 + handshake + 2e-6 + transfer * 128 / 120
    assert parts.total[0] == pytest.approx(expected)


def test_a_small_gather_runs_with_flags_instead_of_a_handshake():
    parts = nccl.FAMILIES["nccl_ring"].parts(nccl_call(1024), find_chip("h200"), CONSTANTS)
    transfer = 2048 * 7 / 8 / (0.8 * 450e9) + 2048 / 8 / 1e12
    # Twice the transfer for the flags; then as many channels as end first, of 2 us to start all.
    shares = np.linspace(0.001, 1, 100_000)
    channels = (shares * 2e-6 + transfer / shares).min() - transfer
    assert parts.total[0] == pytest.approx(5e-6 + 7e-6 + 2 * transfer + channels)


def test_only_floating_point_is_added_up_in_the_switch():
    family, chip = nccl.FAMILIES["nccl_ring"], find_chip("h200")
    half = family.parts(nccl_call(2**28, 8, "all_reduce"), chip, CONSTANTS)
    whole = family.parts(nccl_call(2**29, 8, "all_reduce", "int8"), chip, CONSTANTS)
    assert half.total[0] < whole.total[0]


def test_a_direct_read_by_hand():
    family, chip = FAMILIES["graph_all_reduce_sglang"], find_chip("h200")
    parts = family.parts(graph_call(family.name, 512, ranks=4), chip, CONSTANTS)
    transfer = 3 * 1024 / (0.8 * 450e9) + 1024 / 1e12
    assert parts.total[0] == pytest.approx(5e-6 + 3e-6 + transfer)


def test_beyond_its_buffers_an_engine_leaves_it_to_nccl():
    family, chip = FAMILIES["graph_all_reduce_peer"], find_chip("h200")
    graph = family.parts(graph_call(family.name, 2**28, 4), chip, CONSTANTS).total[0]
    ring = nccl.FAMILIES["nccl_ring"].parts(
        nccl_call(2**28, 4, "all_reduce"), chip, fitted("nccl_ring", chip)
    )
    assert graph == ring.total[0]


def test_versions_tell_the_sglang_kernels_apart():
    row = {"op": "custom_allreduce", "kernel_source": "SGLang_CustomAllReduce_graph"}
    for engine, taker in (
        ("sglang-0.5.6", "graph_all_reduce_peer"),
        ("sglang-0.5.10", "graph_all_reduce_peer"),
        ("sglang-0.5.14", "graph_all_reduce_sglang"),
    ):
        assert entry_of({**row, "engine": engine}).judged == taker
    old = {"op": "custom_allreduce", "kernel_source": "TRTLLM", "engine": "sglang-0.5.6.post2"}
    assert entry_of(old).judged == "graph_all_reduce_trtllm"


def test_a_mesh_gives_two_ranks_one_link():
    chip = find_chip("mi300x")
    rates = rank_bytes_per_s(chip, np.array([2.0, 8.0]))
    assert rates[0] == pytest.approx(chip.scale_up_bytes_per_s / 7)
    assert rates[1] == pytest.approx(chip.scale_up_bytes_per_s)


@given(
    family=st.sampled_from(sorted(FAMILIES)),
    chip=st.sampled_from(CHIPS),
    elements=st.integers(1, 2**30),
    ranks=st.sampled_from([2, 4, 8]),
)
def test_laws(family, chip, elements, ranks):
    spec = find_chip(chip)
    # At the least a rank's operands or results cross its link: (n - 1) / n of the message.
    least = 2 * elements * (ranks - 1) / ranks / spec.scale_up_bytes_per_s
    calls = call_of(family, elements, ranks)
    check_laws(FAMILIES[family], calls, spec, fitted(family, spec), least)


@given(
    family=st.sampled_from(["nccl_alltoall", "nccl_ring"]),
    elements=st.integers(1, 2**28),
    more=st.integers(1, 2**20),
    ranks=st.sampled_from([2, 4, 8]),
)
def test_a_larger_message_never_takes_less(family, elements, more, ranks):
    chip = find_chip("b200")
    less, greater = (
        FAMILIES[family].parts(call_of(family, n, ranks), chip, fitted(family, chip)).total[0]
        for n in (elements, elements + more)
    )
    assert greater >= less


def test_carried_rows_are_met():
    errors = errors_of_rows(HEADER, ROWS)
    assert np.median(errors) < 0.08
    assert max(errors) < 0.3
