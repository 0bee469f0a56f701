"""The shipped chips against their sources and against arithmetic; edited copies; refusals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hwmodels.chip import ChipSpec, find_chip, list_chips
from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.sourced import Sourced
from simulator.basis.yaml_loader import StrictModel

CHIPS = list_chips()
SHIPPED = Path(__file__).parents[2] / "hwmodels" / "chips"


def numbers(model: StrictModel) -> Iterator[Sourced]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, Sourced):
            yield value
        elif isinstance(value, StrictModel):
            yield from numbers(value)


def test_the_shipped_chips() -> None:
    hopper = ["h100", "h20", "h200", "h800"]
    blackwell = ["b200", "b300", "gb200", "gb300"]
    others = ["mi300x", "mi325x", "mi355x", "a100", "gb10", "rtx-4090", "rtx-pro-6000"]
    others += [name for name in TABLE if name.startswith("ascend")]
    assert sorted([*hopper, *blackwell, *others]) == CHIPS


@pytest.mark.parametrize("name", CHIPS)
def test_name_is_the_file_name(name: str) -> None:
    assert find_chip(name).name == name


# capacity GB as drivers report it, bandwidth GB/s, bf16 / fp8 / fp4 TFLOP/s, cores,
# scale-up GB/s one way, watts
TABLE = {
    "h100": (85.52, 3350, 989, 1979, None, 132, 450, 700),
    "h200": (150.75, 4800, 989, 1979, None, 132, 450, 700),
    "h800": (80, 3350, 990, 1980, None, 132, 200, 700),
    "h20": (102.63, 4000, 148, 296, None, 78, 450, 400),
    "b200": (192.3, 7700, 2250, 4500, 9000, 148, 900, 1000),
    "b300": (288.4, 7750, 2250, 4500, 14000, 148, 900, 1100),
    "gb200": (198.67, 8000, 2500, 5000, 10000, 152, 900, 1200),
    "gb300": (298.0, 8000, 2500, 5000, 15000, 152, 900, 1400),
    "mi300x": (192, 5300, 1307, 2610, None, 304, 448, 750),
    "mi355x": (288, 8000, 2500, 5000, 10100, 256, 535.5, 1400),
    "ascend-910b3": (68.7, 1600, 313, None, None, 20, 196, 400),
    "ascend-910b4": (34.36, 1200, 270, None, None, 20, 196, 350),
    "ascend-910b4-64g": (68.7, 1600, 270, None, None, 20, 196, 350),
    "ascend-a3-die": (68.7, 1600, 363.7, None, None, 24, 196, 400),
    "ascend-950pr": (128, 1600, 486, 1000, 2000, 36, 840, 600),
    "mi325x": (256, 6000, 1300, 2610, None, 304, 448, 1000),
    "a100": (80, 2039, 312, None, None, 108, 300, 400),
    "gb10": (128.53, 273, 213, 214, 427, 48, 25, 140),
    "rtx-4090": (25.77, 1008, 165.2, 330.3, None, 128, 31, 450),
    "rtx-pro-6000": (102.64, 1792, 467.8, 935.6, 1871.2, 188, 63, 600),
    "ascend-910c": (137.4, 3200, 727.4, None, None, 48, 392, 800),
    "ascend-950dt": (96, 4000, 486, 919, 1783, 36, 840, 700),
}


@pytest.mark.parametrize("name", CHIPS)
def test_against_the_sources(name: str) -> None:
    chip = find_chip(name)
    capacity, bandwidth, bf16, fp8, fp4, cores, link, watts = TABLE[name]
    assert chip.hbm_capacity_bytes == pytest.approx(capacity * 1e9, rel=1e-3)
    assert chip.hbm_bandwidth_bytes_per_s == bandwidth * 1e9
    rates = [chip.matrix_flops_per_s(dtype) for dtype in ("bf16", "fp8", "fp4")]
    assert rates == [None if rate is None else rate * 1e12 for rate in (bf16, fp8, fp4)]
    assert chip.core_count == cores
    assert chip.scale_up_bytes_per_s == link * 1e9
    assert chip.tdp_w == watts


@pytest.mark.parametrize("name", CHIPS)
def test_matrix_peak_is_cores_times_flops_times_clock(name: str) -> None:
    chip = find_chip(name)
    product = chip.core_count * chip.cores.matrix_flops_per_clock.si * chip.peak_clock_hz
    assert product == pytest.approx(chip.matrix_flops_per_s("bf16"), rel=0.01)


@pytest.mark.parametrize("name", CHIPS)
def test_memory_peak_is_stacks_times_pins(name: str) -> None:
    memory = find_chip(name).memory
    width = memory.stacks.whole * memory.channels_per_stack.whole * memory.channel_width.whole
    # B200 and B300 use NVIDIA's planning figures, 3-4 % below what their pins would give.
    assert width * memory.pin_rate.si / 8 == pytest.approx(memory.bandwidth.si, rel=0.04)


@pytest.mark.parametrize("name", CHIPS)
def test_orders_of_magnitude(name: str) -> None:
    chip = find_chip(name)
    assert chip.llc_bandwidth_bytes_per_s > chip.hbm_bandwidth_bytes_per_s
    assert 0 < chip.llc_latency_s < chip.dram_latency_s < chip.launch_gap_s
    assert chip.launch_gap_s < chip.stream_launch_gap_s
    assert chip.llc_line_bytes % chip.llc_sector_bytes == 0
    assert chip.llc_bytes < chip.hbm_capacity_bytes
    assert chip.special_ops_per_s < chip.vector_flops_per_s
    assert chip.smem_bytes_per_core >= 64 * 1024
    assert chip.hbm_channel_bytes_per_s * chip.hbm_channels == pytest.approx(
        chip.hbm_bandwidth_bytes_per_s
    )


@pytest.mark.parametrize("name", CHIPS)
def test_every_number_says_where_it_is_from(name: str) -> None:
    for number in numbers(find_chip(name)):
        origin = number.source if number.kind != "guessed" else number.note
        assert origin
        assert len(origin) >= 10


def test_h200_by_hand() -> None:
    chip = find_chip("h200")
    assert chip.vector_flops_per_s == pytest.approx(132 * 128 * 2 * 1.98e9, rel=0.002)
    assert chip.special_ops_per_s == pytest.approx(132 * 16 * 1.98e9, rel=0.001)
    assert chip.llc_bytes == 50 * 2**20
    assert chip.llc_bandwidth_bytes_per_s == 9.666e12
    assert chip.hbm_channels == 6 * 16
    assert chip.launch_gap_s == 1.37e-6
    assert chip.launch.graph_gap.kind == "measured"
    assert chip.dram_latency_s == 288.1e-9
    assert chip.smem_bytes_per_core == 228 * 1024
    assert chip.dies == 1


def test_910c_is_the_package_of_two_dies() -> None:
    chip = find_chip("ascend-910c")
    assert chip.dies == 2
    assert "two dies" in (chip.how_counted or "")
    assert chip.core_count == 2 * 24
    assert chip.vector_core_count == 2 * 48
    assert chip.llc_bandwidth_bytes_per_s == pytest.approx(2 * 24 * 110 * 1.85e9, rel=0.001)


def test_conflicts_name_both_figures() -> None:
    for name, used, other in (("b200", 7700, "8000"), ("b300", 7750, "8000")):
        number = find_chip(name).memory.bandwidth
        assert number.value == used
        assert other in (number.note or "")


def test_types_without_a_unit() -> None:
    h200 = find_chip("h200")
    assert h200.matrix_flops_per_s("fp4") is None
    assert h200.matrix_flops_per_s("tf32") == 494.5e12
    # FP32 matrix work runs on the vector units, unless the chip has matrix units for it.
    assert h200.matrix_flops_per_s("fp32") == h200.vector_flops_per_s
    assert find_chip("mi300x").matrix_flops_per_s("fp32") == 163.4e12
    with pytest.raises(InputError, match=r"unknown matrix type 'fp88': did you mean 'fp8'\?"):
        h200.matrix_flops_per_s("fp88")


def test_a_user_copies_edits_and_passes_the_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (SHIPPED / "h200.yaml").read_text()
    path.write_text(
        text.replace("name: h200", "name: mine").replace("value: 4800,", "value: 9600,")
    )
    chip = find_chip(path)
    assert chip.hbm_bandwidth_bytes_per_s == 9.6e12
    assert find_chip(str(path)) == chip
    path.write_text(text.replace("value: 4800,", "value: 2400,"))
    os.utime(path, ns=(1, 1))  # an edit in the same run is seen
    assert find_chip(path).hbm_bandwidth_bytes_per_s == 2.4e12


def test_unknown_chip_and_missing_file() -> None:
    with pytest.raises(InputError) as caught:
        find_chip("h20O")
    assert caught.value.message.startswith("unknown chip 'h20O': did you mean 'h20'? known are ")
    with pytest.raises(InputError, match=r"no/such\.yaml: no such chip file"):
        find_chip("no/such.yaml")
    assert find_chip("H200").name == "h200"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  bandwidth: {value: 4800", "  bandwith: {value: 4800", "unknown key 'memory.bandwith'"),
        ("unit: GB/s", "unit: GB", "'memory.bandwidth': unit 'GB' measures B, expected a unit of"),
        ("value: 4800", "value: -1", "'memory.bandwidth': value is -1, expected more than 0"),
    ],
)
def test_a_slip_in_a_copy_is_found(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = (SHIPPED / "h200.yaml").read_text()
    line = text[: text.index("value: 4800")].count("\n") + 1
    path = tmp_path / "slip.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FileFormatError) as caught:
        find_chip(path)
    assert caught.value.message.startswith(f"{path}:{line}: {expected}")


def test_a_missing_number_is_found(tmp_path: Path) -> None:
    lines = (SHIPPED / "mi355x.yaml").read_text().splitlines()
    start = next(i for i, text in enumerate(lines) if text.startswith("power:"))
    path = tmp_path / "cut.yaml"
    path.write_text("\n".join([*lines[:start], "power: {}"]) + "\n")
    with pytest.raises(FileFormatError) as caught:
        find_chip(path)
    assert caught.value.message == f"{path}:{start + 1}: missing key 'power.tdp'"


@pytest.mark.parametrize("name", CHIPS)
def test_the_machine_of_every_chip_is_described(name: str) -> None:
    chip = find_chip(name)
    cores = chip.cores
    assert chip.llc.slices
    assert chip.noc.core_port
    assert all((cores.threads, cores.blocks, cores.copy_bytes))
    assert all((cores.matrix_fill, cores.matrix_issue))
    # One partition has no other to be linked with.
    assert (chip.noc.partition_link is None) == (chip.llc.partitions is None)
    assert cores.register_file or all((cores.l0a, cores.l0b, cores.l0c, cores.unified_buffer))
    assert chip.matrix_fill_clocks >= chip.matrix_issue_clocks
    assert chip.copy_bytes_per_core <= chip.smem_bytes_per_core
    # A core takes in less than the whole cache gives, all of them more than memory does.
    port = chip.core_port_bytes_per_clock * chip.clock_hz
    assert port < chip.llc_bandwidth_bytes_per_s
    assert port * chip.core_count > chip.hbm_bandwidth_bytes_per_s
    slices = chip.llc_slices * 128 * chip.clock_hz
    assert slices > chip.llc_bandwidth_bytes_per_s


def test_machines_by_hand() -> None:
    h200, mi300x, b200 = find_chip("h200"), find_chip("mi300x"), find_chip("b200")
    assert h200.llc_slices == 6 * 16
    assert h200.threads_per_core == 64 * 32
    assert h200.register_bytes_per_core == 65536 * 4
    assert h200.matrix_issue_clocks == 2 * 64 * 64 * 16 / 4096
    assert b200.matrix_issue_clocks == 2 * 128 * 64 * 16 / 8192
    assert b200.partition_link_bytes_per_s == 10e12 / 2
    assert mi300x.llc_slices * 2 * 2**20 == mi300x.llc_bytes
    assert mi300x.threads_per_core == 32 * 64
    assert mi300x.register_bytes_per_core == 4 * 128 * 1024
    assert mi300x.matrix_issue_clocks == 2 * 32 * 32 * 8 / (2048 / 4)
    assert mi300x.partition_link_bytes_per_s is None
    ascend = find_chip("ascend-910c")
    assert ascend.register_bytes_per_core == (64 + 64 + 128) * 1024
    assert ascend.core_port_bytes_per_clock == 110
    assert (ascend.threads_per_core, ascend.blocks_per_core) == (1, 1)


def older(tmp_path: Path, name: str) -> ChipSpec:
    """A copy of a shipped chip as files were before their machine was described."""
    data = find_chip(name).model_dump(mode="json", exclude_none=True)
    del data["noc"], data["llc"]["slices"], data["memory"]["preset"]
    data["cores"].pop("register_file", None)
    for key in ("threads", "blocks", "copy_bytes", "matrix_fill", "matrix_issue"):
        del data["cores"][key]
    path = tmp_path / "older.yaml"
    path.write_text(yaml.safe_dump(data))
    return find_chip(path)


def test_what_older_files_leave_out_is_taken_as_the_properties_say(tmp_path: Path) -> None:
    chip = older(tmp_path, "h200")
    assert chip.llc_slices == chip.hbm_channels == 96
    assert chip.core_port_bytes_per_clock == 64
    assert chip.partition_link_bytes_per_s == 9.666e12 / 2
    assert (chip.threads_per_core, chip.blocks_per_core) == (2048, 32)
    assert chip.copy_bytes_per_core == 228 * 1024
    assert chip.register_bytes_per_core == 256 * 1024
    assert (chip.matrix_fill_clocks, chip.matrix_issue_clocks) == (32, 32)
    cube = older(tmp_path, "ascend-910b3")
    assert (cube.threads_per_core, cube.blocks_per_core) == (1, 1)
    assert cube.register_bytes_per_core == 256 * 1024
    assert cube.partition_link_bytes_per_s is None
