"""Copies of files of facts that ship, as a user makes them: other names inside and out."""

from __future__ import annotations

from pathlib import Path

import hwmodels
import simulator
import workloads

_HARDWARE = Path(hwmodels.__file__).parent
_SIMULATOR = Path(simulator.__file__).parent
_MODELS = Path(workloads.__file__).parent / "deepseek_v4" / "models"
CHIP = "chips/my-chip.yaml"


def copied(folder: Path, source: Path, name: str, *changes: tuple[str, str]) -> None:
    """A copy under another name with texts changed, each of which has to stand in it."""
    text = source.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text)


def own_chip(folder: Path, *changes: tuple[str, str]) -> str:
    """A renamed H200, relative to the folder."""
    copied(folder, _HARDWARE / "chips/h200.yaml", CHIP, ("name: h200", "name: mine"), *changes)
    return CHIP


def own_node(folder: Path, *changes: tuple[str, str]) -> str:
    """A renamed H200 in a renamed node beside it."""
    source = _HARDWARE / "nodes/h200-x8.yaml"
    copied(folder, source, "chips/my-node.yaml", ("name: h200-x8", "name: ours"), *changes)
    return own_chip(folder, ("node: h200-x8", "node: my-node.yaml"))


def own_model(folder: Path) -> str:
    """V4-Flash under another name."""
    change = ("model_type: deepseek_v4", "model_type: deepseek_v4\nname: mine")
    copied(folder, _MODELS / "v4-flash.yaml", "my-model.yaml", change)
    return "my-model.yaml"


def own_engine(folder: Path) -> str:
    """A renamed vLLM 0.33, its kernels in a renamed file beside it."""
    profiles = _SIMULATOR / "engine/profiles"
    copied(folder, profiles / "kernels/vllm.yaml", "engines/my-kernels.yaml")
    copied(
        folder,
        profiles / "vllm-0.33.yaml",
        "engines/my-engine.yaml",
        *(("name: vllm-0.33", "name: mine"), ("kernels: vllm", "kernels: my-kernels.yaml")),
    )
    return "engines/my-engine.yaml"


def own_tiers(folder: Path) -> str:
    """The tiers that ship."""
    copied(folder, _SIMULATOR / "prefix/tiers/node.yaml", "my-tiers.yaml")
    return "my-tiers.yaml"


def own_prices(folder: Path, *changes: tuple[str, str]) -> str:
    """Prices of an H200 as those of another chip."""
    source = _HARDWARE / "prices/h200.yaml"
    copied(folder, source, "my-prices.yaml", ("chip: h200", "chip: mine"), *changes)
    return "my-prices.yaml"
