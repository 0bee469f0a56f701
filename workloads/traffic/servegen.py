"""ServeGen summaries: rates, burstiness and mean lengths of clients, from which traffic is drawn.

Source: alibaba/ServeGen (Apache-2.0). `..._clients.csv` has a row a client; `..._rate_600s.csv`
beside it, if there, gives the total rate over the day.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import FileFormatError, InputError, unknown_name
from workloads.traffic.csv_columns import numbers
from workloads.traffic.csv_table import CsvTable, csv_table
from workloads.traffic.draft import Draft, counted
from workloads.traffic.gaps import arrivals_within_s
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace_file import TraceFile

RATE = "mean_rate_req_s"
COLUMNS = (RATE, "rate_weighted_iat_cv", "commonest_family", "mean_input_tokens",
           "mean_output_tokens")  # fmt: skip
RATE_COLUMNS = ("window_start_s", "sum_rate_req_s")
_CLIENTS, _RATES = "_clients.csv", "_rate_600s.csv"
_MOST_REQUESTS = 20_000_000


def _matches(file: TraceFile) -> bool:
    return set(COLUMNS) <= set(file.header) or set(RATE_COLUMNS) <= set(file.header)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Traffic of `duration_s` seconds, drawn with `seed`.

    Assumes: in traffic drawn from ServeGen summaries every client is a renewal process of its
    family, mean rate and coefficient of variation, sped up and slowed down with the total rate of
    the day; lengths are exponential around the client's means, as a summary has no more.
    """
    if set(RATE_COLUMNS) <= set(file.header):
        raise InputError(
            f"{file.path}: total rates without lengths; give the clients' file beside it "
            f"(..{_CLIENTS}), which takes these rates along"
        )
    draft = Draft(file, "servegen")
    table = csv_table(file, COLUMNS)
    rates, cvs = _positive(table, RATE), _positive(table, COLUMNS[1])
    inputs, outputs = _positive(table, COLUMNS[3]), _positive(table, COLUMNS[4])
    rng = np.random.default_rng(options.seed)
    clock, rate_note = _day(file, options.duration_s)
    busy_s = float(clock[1][-1])
    if rates.sum() * busy_s > _MOST_REQUESTS:
        raise InputError(
            f"{file.path}: {rates.sum() * busy_s:,.0f} requests in {options.duration_s:g} s, over "
            f"the limit of {_MOST_REQUESTS:,}; shorten the duration"
        )
    parts = []
    for place in range(len(table)):
        family = _family(table, place)
        times = arrivals_within_s(rng, family, rates[place], cvs[place], busy_s)
        lengths = [_lengths(rng, means[place], len(times)) for means in (inputs, outputs)]
        line = np.full(len(times), table.line[place])
        parts.append((np.interp(times, clock[1], clock[0]), line, *lengths))
    seconds, line, given, answered = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(seconds, kind="stable")
    arrival = np.rint(seconds[order] * 1e9).astype(np.int64)
    draft.fill(line[order], given[order], answered[order], arrival_ns=arrival)
    draft.notes.append(
        f"generated, not recorded: {counted(len(order), 'request')} of "
        f"{counted(len(table), 'client')} over {options.duration_s:g} s with seed {options.seed}; "
        f"lengths are exponential around each client's means; {rate_note}"
    )
    return draft


def _lengths(rng: np.random.Generator, mean: float, count: int) -> NDArray[np.int64]:
    """Geometric lengths from 1, the whole-number form of exponential ones."""
    return rng.geometric(1 / max(mean, 1.0), count).astype(np.int64)


def _day(
    file: TraceFile, duration_s: float
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], str]:
    """Clock time and busy time, in seconds, at the corners of the windows; what was taken."""
    flat = (np.array([0.0, duration_s]), np.array([0.0, duration_s]))
    beside = file.path.with_name(file.name.replace(_CLIENTS, _RATES))
    if beside == file.path or not beside.is_file():
        return flat, "rates are constant, as no file of rates stands beside it"
    rates = TraceFile(beside)
    table = csv_table(rates, RATE_COLUMNS)
    starts, rate = (_positive(table, name, least=0.0) for name in RATE_COLUMNS)
    if len(starts) < 2 or (np.diff(starts) <= 0).any() or rate.mean() <= 0:
        raise FileFormatError(f"{beside}: windows are expected to rise, with some rate above 0")
    corners = np.append(starts - starts[0], 2 * starts[-1] - starts[-2] - starts[0])
    busy = np.concatenate([[0.0], np.cumsum(np.diff(corners) * rate / rate.mean())])
    if duration_s > corners[-1]:
        raise InputError(
            f"{beside}: rates of {corners[-1]:g} s, fewer than the {duration_s:g} s asked for"
        )
    inside = corners < duration_s
    clock = np.append(corners[inside], duration_s)
    end = float(np.interp(duration_s, corners, busy))
    return (clock, np.append(busy[inside], end)), f"total rate over time from {beside.name}"


def _family(table: CsvTable, place: int) -> str:
    name = table["commonest_family"][place].lower()
    families = {"gamma": "gamma", "weibull": "weibull", "exponential": "poisson"}
    if name not in families:
        raise FileFormatError(f"{table.at(place)}: {unknown_name('family', name, families)}")
    return families[name]


def _positive(table: CsvTable, name: str, least: float = 1e-9) -> NDArray[np.float64]:
    values = numbers(table[name])
    good = (values >= least) & np.isfinite(values)
    if not good.all():
        raise table.wrong(name, int(np.argmin(good)), "a number above 0")
    return values


SERVEGEN = Reader(
    "ServeGen summaries, from which traffic is drawn",
    _matches,
    _read,
    frozenset(COLUMNS),
    f"drawn from {RATE}",
    known=frozenset({"client_chunk", "windows_600s", "requests_est", "peak_600s_rate"}),
)
