"""Every kind of report: which function makes it of which records. A new kind is one line here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from reports.report import Report

# Kind -> where its function is; loaded when asked for, since each needs its own part of v4sim.
REPORTS: dict[str, str] = {
    "compare": "reports.compare_report:compare_report",
    "explain": "reports.explain_report:explain_report",
}


def report_maker(kind: str) -> Callable[..., Report]:
    """The function that makes reports of a kind."""
    module, _, name = REPORTS[kind].partition(":")
    maker: Callable[..., Report] = getattr(import_module(module), name)
    return maker
