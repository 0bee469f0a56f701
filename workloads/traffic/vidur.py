"""Vidur CSV: prefill and decode lengths, with or without arrival times; no ids.

Source: microsoft/vidur (MIT). Prompts are never cut to a limit, unlike there.
"""

from __future__ import annotations

import numpy as np

from workloads.traffic.csv_columns import check_sums, second_column, token_column
from workloads.traffic.csv_table import csv_table
from workloads.traffic.draft import MISSING, Draft
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace_file import TraceFile

COLUMNS = ("num_prefill_tokens", "num_decode_tokens")
OPTIONAL = ("num_total_tokens", "arrived_at")


def _matches(file: TraceFile) -> bool:
    return set(COLUMNS) <= set(file.header)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    draft = Draft(file, "vidur")
    table = csv_table(file, COLUMNS, OPTIONAL)
    prefill = token_column(table, "num_prefill_tokens")
    decode = token_column(table, "num_decode_tokens")
    if "num_total_tokens" in table:
        total = token_column(table, "num_total_tokens")
        what = "num_total_tokens is not prefill plus decode"
        check_sums(table, total, prefill + decode, what, "the parts were", draft.doubts)
    arrival = (
        second_column(table, "arrived_at")
        if "arrived_at" in table
        else np.full(len(table), MISSING)
    )
    draft.fill(table.line, prefill, decode, arrival_ns=arrival)
    return draft


VIDUR = Reader(
    "Vidur CSV of lengths, arrivals optional",
    _matches,
    _read,
    frozenset({*COLUMNS, *OPTIONAL}),
    "arrived_at in seconds",
    known=frozenset({"pd_ratio"}),
)
