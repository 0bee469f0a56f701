"""Colours of the pages: the Okabe-Ito set, which colour-blind readers tell apart."""

from __future__ import annotations

RESOURCE_COLORS = {
    "memory": "#0072b2",
    "llc": "#56b4e9",
    "matrix": "#e69f00",
    "vector": "#009e73",
    "special": "#cc79a7",
    "link": "#d55e00",
    "latency": "#b8a100",
    "launch": "#8d95a1",
}
CAUSE_COLORS = {
    "launch": "#8d95a1",
    "dram_latency": "#7fb3d5",
    "dram_bandwidth": "#0072b2",
    "llc": "#56b4e9",
    "matrix": "#e69f00",
    "l0": "#a65628",
    "vector": "#009e73",
    "tail": "#f2d08a",
    "power": "#cc79a7",
    "serial": "#b8a100",
    "communication": "#d55e00",
}
WEIGHT_COLOR = "var(--weights)"
POOL_COLORS = ("#0072b2", "#56b4e9", "#009e73", "#7fd1b9", "#cc79a7", "#f0c9de", "#b8a100")
WORKSPACE_COLOR = "#e69f00"
FREE_COLOR = "var(--free)"
INK = "#1c2430"
MUTED = "#5a6675"
GRID = "#e6e9ee"
