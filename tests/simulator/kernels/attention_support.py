"""What tests of the attention families share: constants as fitted, calls, faster chips, rows."""

from pathlib import Path

import numpy as np
import yaml

import simulator.kernels
from hwmodels.chip import ChipSpec, find_chip
from simulator.kernels.fit import core_architecture
from simulator.kernels.measured import TEXT

CHIPS = ("h100", "h200", "b200", "b300", "gb200", "gb300")


def fitted(name: str, chip: ChipSpec) -> dict[str, float]:
    path = Path(simulator.kernels.__file__).parent / "constants" / f"{name}.yaml"
    architectures = yaml.safe_load(path.read_text())["architectures"]
    return architectures[core_architecture(chip)]["constants"]


def one(**values):
    return {k: np.array([v], dtype=str if k in TEXT else float) for k, v in values.items()}


def with_bandwidth(chip: ChipSpec, factor: float) -> ChipSpec:
    memory = chip.memory
    bandwidth = memory.bandwidth.model_copy(update={"value": memory.bandwidth.value * factor})
    return chip.model_copy(update={"memory": memory.model_copy(update={"bandwidth": bandwidth})})


def with_clock(chip: ChipSpec, factor: float) -> ChipSpec:
    cores = chip.cores
    clock = cores.clock.model_copy(update={"value": cores.clock.value * factor})
    return chip.model_copy(update={"cores": cores.model_copy(update={"clock": clock})})


def check_laws(family, calls, chip, constants, least_seconds):
    """Parts are not negative and add up; nothing beats the peaks; a faster chip is no slower."""
    parts = family.parts(calls, chip, constants)
    for seconds in parts.seconds.values():
        assert (np.asarray(seconds) >= -1e-18).all()
    total = parts.total[0]
    assert np.isclose(sum(float(np.ravel(s)[0]) for s in parts.seconds.values()), total)
    assert total >= least_seconds * (1 - 1e-9)
    for faster in (with_bandwidth(chip, 1.5), with_clock(chip, 1.25)):
        assert family.parts(calls, faster, constants).total[0] <= total * (1 + 1e-9)


def errors_of_rows(families, header, rows):
    """Errors of carried rows, each under the family that covers it."""
    names = header.split(",")
    errors = []
    for row in rows:
        values = dict(zip(names, row.split(","), strict=True))
        (family,) = [f for f in families.values() if f.covers(values)]
        calls = {k: (str(v) if k in TEXT else float(v)) for k, v in values.items()}
        chip = find_chip(values["chip"])
        seconds = family.parts(one(**calls), chip, fitted(family.name, chip)).total[0]
        errors.append(abs(seconds / (float(values["latency_us"]) * 1e-6) - 1))
    return np.array(errors)
