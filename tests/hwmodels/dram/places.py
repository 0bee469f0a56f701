"""Byte addresses of chosen banks and rows on one channel, found by decoding."""

from __future__ import annotations

from hwmodels.dram.mapping import DEFAULT_MAPPING, parse_mapping
from hwmodels.dram.parameters import ControllerSpec
from hwmodels.dram.preset import DramPreset
from tests.oracles.dram_twin import Twin


def addresses(
    preset: DramPreset, row: int, *, pc: int = 0, sid: int = 0, group: int = 0, bank: int = 0
) -> list[int]:
    """Addresses of all bursts of a row; `bank` counts inside its bank group."""
    mapping = parse_mapping(DEFAULT_MAPPING, preset.organisation)
    twin = Twin(preset, mapping, ControllerSpec(refresh="none"), 1, 256, False)
    channel = twin.channels[0]
    channel.tick = 0
    organisation = preset.organisation
    a_row = organisation.pseudo_channels.whole * organisation.banks_a_pc
    a_row *= organisation.bursts_a_row.whole
    number = (sid * organisation.bank_groups.whole + group) * organisation.banks_a_group.whole
    found = []
    for burst in range(row * a_row, (row + 1) * a_row):
        request = channel._request(0, burst, 0)
        if (request.pc, request.bank) == (pc, number + bank):
            assert request.row == row
            found.append(burst * 32)
    return found
