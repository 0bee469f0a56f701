"""Exact replays at the size of the published models, by counting and in closed form."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.prefix.window_geometry import WindowGeometry
from simulator.prove.replay_count import ReplayCount, count_first_token, count_whole_window
from workloads.deepseek_v4.config import ModelConfig, find_model

FULL_SIZE = ("v4-flash", "v4-pro")


@dataclass(frozen=True, slots=True)
class FullSizeReplay:
    """Counts for the first token after the boundary and for every slot of the windows."""

    model: str
    geometry: WindowGeometry
    first_token: ReplayCount
    whole_window: ReplayCount


def full_size_replays() -> list[FullSizeReplay]:
    """V4-Flash and V4-Pro, without their MTP layer."""
    return [replay_of(find_model(name)) for name in FULL_SIZE]


def replay_of(config: ModelConfig) -> FullSizeReplay:
    """Counts of one model."""
    window, ratios = config.sliding_window, config.layer_ratios
    return FullSizeReplay(
        model=config.name,
        geometry=WindowGeometry.of_model(config),
        first_token=count_first_token(window, ratios),
        whole_window=count_whole_window(window, ratios),
    )
