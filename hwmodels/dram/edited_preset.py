"""A DRAM preset with some of its numbers replaced, as the `memory` section of a chip may do.

`memory: {preset: hbm3e_7800, RC: {value: 60, unit: ns, ...}}` is the preset with another row cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from hwmodels.dram.preset import MAX_BANKS_A_PC, DramPreset, Organisation, Timing, timing_faults
from simulator.basis.sourced import ClocksOrSeconds, Count, Sourced
from simulator.basis.units import exact_si
from simulator.basis.yaml_loader import KeyFaultError, StrictModel

INTERLEAVE_BYTES = 256  # consecutive bytes of a channel, which lie in one row
_ORGANISATION = (
    *("pseudo_channels", "stack_ids", "bank_groups", "banks_a_group"),
    *("rows", "bursts_a_row"),
)
# Beyond these a number is a slip of the hand, and addresses would not fit a machine word.
MOST_CLOCKS = 2**20
_MOST = {"pseudo_channels": 8, "rows": 2**24, "bursts_a_row": 2**12}
_OF_BANKS = ("stack_ids", "bank_groups", "banks_a_group")
_BOTH_RCD = ("RCDRD", "RCDWR")


class PresetNumbers(StrictModel):
    """Numbers of a preset that may be replaced: timings in clocks or in time, and organisation.

    `RCD` stands for RCDRD and RCDWR; the others are those of `Timing` and `Organisation`.
    """

    RCD: ClocksOrSeconds | None = None
    BL: ClocksOrSeconds | None = None
    CL: ClocksOrSeconds | None = None
    CWL: ClocksOrSeconds | None = None
    RCDRD: ClocksOrSeconds | None = None
    RCDWR: ClocksOrSeconds | None = None
    RP: ClocksOrSeconds | None = None
    RAS: ClocksOrSeconds | None = None
    RC: ClocksOrSeconds | None = None
    WR: ClocksOrSeconds | None = None
    RTP: ClocksOrSeconds | None = None
    CCDS: ClocksOrSeconds | None = None
    CCDL: ClocksOrSeconds | None = None
    CCDR: ClocksOrSeconds | None = None
    RRDS: ClocksOrSeconds | None = None
    RRDL: ClocksOrSeconds | None = None
    FAW: ClocksOrSeconds | None = None
    WTRS: ClocksOrSeconds | None = None
    WTRL: ClocksOrSeconds | None = None
    RTW: ClocksOrSeconds | None = None
    PPD: ClocksOrSeconds | None = None
    RFC: ClocksOrSeconds | None = None
    REFI: ClocksOrSeconds | None = None
    RFCpb: ClocksOrSeconds | None = None
    REFIpb: ClocksOrSeconds | None = None
    RREFD: ClocksOrSeconds | None = None
    pseudo_channels: Count | None = None
    stack_ids: Count | None = None
    bank_groups: Count | None = None
    banks_a_group: Count | None = None
    rows: Count | None = None
    bursts_a_row: Count | None = None

    @property
    def replaced(self) -> dict[str, Sourced]:
        """The numbers that are given, by key."""
        given = ((name, getattr(self, name)) for name in PresetNumbers.model_fields)
        return {name: number for name, number in given if number is not None}


def edited_preset(preset: DramPreset, replaced: Mapping[str, Sourced]) -> DramPreset:
    """The preset with numbers replaced; a KeyFaultError names the key of a contradiction.

    Assumes: a timing given in time takes the next whole clock of the preset.
    Assumes: bursts or pseudo-channels that are replaced change the channel's own peak, of which
        patterns reach a share; the share is applied to the bandwidth that the chip states.
    Assumes: where the refresh interval or the number of banks is replaced and REFIpb is not, every
        bank is refreshed as often as all banks together would be; where RFC is and RFCpb is not, a
        bank's refresh takes longer in the same proportion.
    """
    if not replaced:
        return preset
    timings = _timings(preset, replaced)
    counts = {name: number for name, number in replaced.items() if name in _ORGANISATION}
    organisation = _fields(preset.organisation) | counts
    sizes = {name: organisation[name].whole for name in _ORGANISATION}
    clocks = preset.timing.in_clocks | {name: number.whole for name, number in timings.items()}
    if "REFIpb" in clocks and "REFIpb" not in timings:
        clocks["REFIpb"] = _refresh_interval(preset, clocks, sizes)
        timings["REFIpb"] = _derived(clocks["REFIpb"], "clk", "a share of REFI for each bank")
    if "RFC" in timings and "RFCpb" in clocks and "RFCpb" not in timings:
        own = preset.timing.in_clocks
        clocks["RFCpb"] = max(1, own["RFCpb"] * clocks["RFC"] // own["RFC"])
        timings["RFCpb"] = _derived(clocks["RFCpb"], "clk", "as RFC, in the preset's proportion")
    faults = [*timing_faults(clocks), *_other_faults(preset, clocks, sizes)]
    _refuse_faults(faults, replaced, preset.name)
    organisation |= _channel_bandwidth(preset, clocks, sizes)
    ways = ", ".join(f"{name} {_amount(number)}" for name, number in replaced.items())
    changes = {
        "name": f"{preset.name} with {ways}",
        "timing": Timing.model_validate(_fields(preset.timing) | timings),
        "organisation": Organisation.model_validate(organisation),
    }
    own = {name: getattr(preset, name) for name in DramPreset.model_fields}
    return DramPreset.model_validate(own | changes)


def in_clocks(number: Sourced, clock: Sourced) -> int:
    """Whole clocks of a timing that is given in clocks or in time; a fraction is rounded up."""
    if number.dimension == "clk":
        return number.whole
    return math.ceil(exact_si(number.value, number.unit) / exact_si(clock.value, clock.unit))


def _timings(preset: DramPreset, replaced: Mapping[str, Sourced]) -> dict[str, Sourced]:
    """Replaced timings in clocks, RCD as the two that it stands for."""
    found: dict[str, Sourced] = {}
    for key, number in replaced.items():
        if key in _ORGANISATION:
            continue
        given = f"{number.value} {number.unit}, in clocks of {preset.clock.value} "
        given += f"{preset.clock.unit}"
        clocks = number
        if number.dimension != "clk":
            origin = f"{given}: {number.source or number.note}"
            clocks = _derived(in_clocks(number, preset.clock), "clk", origin)
        names = _BOTH_RCD if key == "RCD" else (key,)
        for name in names:
            if key == "RCD" and name in replaced:
                raise KeyFaultError(
                    ("RCD",),
                    f"RCD stands for RCDRD and RCDWR, and {name} is given as well; give RCDRD and "
                    "RCDWR without RCD",
                )
            found[name] = clocks
    return found


def _derived(value: float, unit: str, source: str) -> Sourced:
    return Sourced(value=value, unit=unit, kind="derived", source=source)


def _amount(number: Sourced) -> str:
    return f"{number.value} {number.unit}".removesuffix(" 1")


def _fields(model: StrictModel) -> dict[str, Sourced]:
    """The numbers that are given."""
    given = ((name, getattr(model, name)) for name in type(model).model_fields)
    return {name: number for name, number in given if number is not None}


def _refresh_interval(
    preset: DramPreset, clocks: Mapping[str, int], sizes: Mapping[str, int]
) -> int:
    """REFIpb for another refresh interval or number of banks, in the preset's proportion."""
    own = preset.timing.in_clocks
    banks = math.prod(sizes[name] for name in _OF_BANKS)
    share = Fraction(clocks["REFI"], own["REFI"]) * Fraction(preset.organisation.banks_a_pc, banks)
    return max(1, math.floor(own["REFIpb"] * share))


def _channel_bandwidth(
    preset: DramPreset, clocks: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[str, Sourced]:
    """The channel's peak where another burst length or number of pseudo-channels changes it."""
    own = preset.organisation
    ways = sizes["pseudo_channels"] / clocks["BL"]
    if ways == own.pseudo_channels.whole / preset.timing.in_clocks["BL"]:
        return {}
    peak = float(own.burst.whole * ways / preset.clock.si / 1e9)
    source = "bursts of all pseudo-channels over BL clocks"
    return {"channel_bandwidth": _derived(peak, "GB/s", source)}


def _other_faults(
    preset: DramPreset, clocks: Mapping[str, int], sizes: Mapping[str, int]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Contradictions beyond those of the timings among themselves."""
    banks = math.prod(sizes[name] for name in _OF_BANKS)
    if banks > MAX_BANKS_A_PC:
        yield (
            ("banks_a_group", "bank_groups", "stack_ids"),
            f"a pseudo-channel has {banks} banks, expected at most {MAX_BANKS_A_PC} "
            f"({banks - MAX_BANKS_A_PC} too many)",
        )
    for name, number in clocks.items():
        most = MOST_CLOCKS if name == "REFI" else clocks["REFI"]
        if number > most:
            what = "" if name == "REFI" else "tREFI = "
            yield (name, "REFI"), f"t{name} is {number} clocks, expected at most {what}{most}"
    for name, most in _MOST.items():
        if sizes[name] > most:
            yield (name,), f"{name} is {sizes[name]}, expected at most {most}"
    bursts, at_least = sizes["bursts_a_row"], INTERLEAVE_BYTES // preset.organisation.burst.whole
    if bursts % at_least:
        yield (
            ("bursts_a_row",),
            f"bursts_a_row is {bursts}, expected a multiple of {at_least}, the bursts of the "
            f"{INTERLEAVE_BYTES} consecutive bytes of a channel; try "
            f"{-(-bursts // at_least) * at_least}",
        )
    busy = clocks.get("RFCpb", 0) + clocks["RC"]
    if "REFIpb" in clocks and busy > clocks["REFIpb"] * banks:
        yield (
            ("RFCpb", "REFIpb", "REFI", "RC", *_OF_BANKS),
            f"a bank is refreshed every REFIpb x banks = {clocks['REFIpb'] * banks} clocks, "
            f"expected at least RFCpb + RC = {busy}, its refresh and one row cycle",
        )


def _refuse_faults(
    faults: list[tuple[tuple[str, ...], str]], replaced: Mapping[str, Sourced], preset: str
) -> None:
    """Say all contradictions, at the key of the first one that the file replaced."""
    if not faults:
        return
    keys = faults[0][0]
    known = {name: name for name in replaced}
    if "RCD" in replaced:
        known |= dict.fromkeys(_BOTH_RCD, "RCD")
    place = next((known[key] for key in keys if key in known), next(iter(replaced)))
    said = "; ".join(sentence for _, sentence in faults)
    if any(len(involved) > 1 for involved, _ in faults):
        said += f"; a number that is not given here is that of {preset}"
    raise KeyFaultError((place,), said)
