"""Every kind of report: which function makes it of which records. A new kind is one line here.

Commands ask for a report by its kind; those with a folder of files of their own (bandwidth, layout,
indexer, offload, prefix, serve, step, validate) have a writer beside the function named here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from reports.report import Report

# Kind -> where its function is; loaded when asked for, since each needs its own part of v4sim.
REPORTS: dict[str, str] = {
    "bandwidth": "reports.memory_page:memory_report",
    "capacity": "reports.capacity_report:capacity_report",
    "claims": "reports.claims_report:claims_report",
    "compare": "reports.compare_report:compare_report",
    "compare-runs": "reports.runs_report:runs_report",
    "explain": "reports.explain_report:explain_report",
    "fleet": "reports.fleet_report:fleet_report",
    "indexer": "reports.indexer_page:indexer_report",
    "layout": "reports.layout_page:layout_report",
    "offload": "reports.offload_page:offload_report",
    "plan": "reports.plan_report:plan_report",
    "prefix": "reports.prefix_page:comparison_report",
    "serve": "reports.serve_bundle:serve_report",
    "serving-claims": "reports.claims_report:serving_claims_report",
    "step": "reports.step_report:step_report",
    "sweep": "reports.sweep_report:sweep_report",
    "validate": "reports.validation_page:validation_report",
}


def report_maker(kind: str) -> Callable[..., Report]:
    """The function that makes reports of a kind."""
    module, _, name = REPORTS[kind].partition(":")
    maker: Callable[..., Report] = getattr(import_module(module), name)
    return maker


def report_of(kind: str, *records: Any) -> Report:
    """The report of a kind, of the records that it is made of."""
    report = report_maker(kind)(*records)
    assert report.kind == kind, f"a report of kind {report.kind} was made for {kind}"
    return report
