"""Azure LLM inference traces 2023 and 2024: CSV of wall-clock arrivals and lengths, no ids.

Source: Azure/AzurePublicDataset (CC-BY-4.0); Patel et al., Splitwise, ISCA 2024.
"""

from __future__ import annotations

import numpy as np

from workloads.traffic.csv_columns import clock_column, count_column, token_column
from workloads.traffic.csv_table import csv_table
from workloads.traffic.draft import Draft, counted
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace_file import TraceFile

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
IMAGES = "NumImages"


def _matches(file: TraceFile) -> bool:
    return set(COLUMNS) <= set(file.header)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Arrivals are counted from the earliest; every row is a session of its own."""
    draft = Draft(file, "azure")
    table = csv_table(file, COLUMNS, (IMAGES,))
    clock = clock_column(table, "TIMESTAMP")
    timed = clock >= 0
    if timed.any():
        start = int(clock[timed].min())
        clock[timed] -= start
        draft.notes.append(f"times are counted from {np.datetime64(start, 'ns')} UTC")
    if IMAGES in table:
        images = count_column(table, IMAGES)
        if images.any():
            draft.notes.append(
                f"{counted(int(images.sum()), 'image')} in {int((images > 0).sum()):,} of "
                f"{counted(len(images), 'request')}, dropped: a prompt is its tokens of text"
            )
    draft.fill(
        table.line,
        token_column(table, "ContextTokens"),
        token_column(table, "GeneratedTokens"),
        arrival_ns=clock,
    )
    return draft


AZURE = Reader(
    "Azure LLM inference traces, CSV of arrivals and lengths",
    _matches,
    _read,
    frozenset({*COLUMNS, IMAGES}),
    "TIMESTAMP, a date and time",
)
