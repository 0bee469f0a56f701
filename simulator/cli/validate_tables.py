"""Prints how far predictions of measured rows are off, by group, and returns that as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.cli.options import console

if TYPE_CHECKING:
    from simulator.calibration.dispatch import RowSet
    from simulator.calibration.machine_rows import MachinePredictions
    from simulator.calibration.slices import Slice
    from simulator.calibration.validation import Row

MICRO = 1e6


def print_report(rows: list[Row]) -> dict[str, Any]:
    """Prints the tables of errors and the worst rows; returns them as data."""
    from simulator.calibration.validation import grouped, worst

    report: dict[str, Any] = {"all": None, "groups": [], "families": [], "files": [], "worst": []}
    if not rows:
        return report
    cycle = bool(rows[0].tile_s)
    _print_header("file, operation, engine, chip", cycle)
    keys = ("file", "op", "engine", "chip")
    for key, group in grouped(rows, lambda r: (r.file, r.op, r.engine, r.chip)).items():
        report["groups"].append(_print_line(keys, key, group))
    _print_header("kernel family, chip", cycle)
    for key, group in grouped(rows, lambda r: (r.family, r.chip)).items():
        line = _print_line(("family", "chip"), key, group)
        report["families"].append({**line, "constants_of": _constants_of(*key)})
    _print_header("file", cycle)
    for key, group in grouped(rows, lambda r: (r.file,)).items():
        report["files"].append(_print_line(("file",), key, group))
    report["all"] = _print_line(("file",), ("all rows",), rows)
    _say("\nTen worst rows, and what the model says their time goes to")
    for row in worst(rows):
        report["worst"].append(_print_worst(row))
    return report


def _constants_of(family: str, chip: str) -> str:
    """Architecture whose constants serve; says so where it is not the chip's own."""
    from simulator.calibration.dispatch import chip_of
    from simulator.kernels.constants_file import constants_for

    stored = constants_for(family, chip_of(chip))
    if not stored.standing.calibrated:
        _say(f"  {chip}: {stored.standing.words}, wider interval")
    return stored.architecture


def _print_header(what: str, cycle: bool) -> None:
    beside = f" {'tile':>7} {'|c/t-1|':>7} {'p90':>7}" if cycle else ""
    _say(
        f"\n{what:<76} {'rows':>6} {'median':>7} {'mean':>7} {'p90':>7} {'bias':>7} {'held':>5} "
        f"{'width':>6}{beside}"
    )


def _print_line(names: tuple[str, ...], key: tuple[str, ...], rows: list[Row]) -> dict[str, Any]:
    """A line of errors; of rows that the machine ran, with the closed forms beside it."""
    from simulator.calibration.validation import statistics_of

    s = statistics_of(rows)
    shown, more = _beside(rows) if rows[0].tile_s else ("", {})
    _say(
        f"{', '.join(key):<76} {s.n:>6,} {s.median_abs_error:>7.1%} {s.mean_abs_error:>7.1%} "
        f"{s.p90_abs_error:>7.1%} {s.bias_log:>+7.1%} {s.coverage:>5.0%} {s.median_width:>6.0%}"
        f"{shown}"
    )
    return {
        **dict(zip(names, key, strict=True)),
        "n": s.n,
        "median_abs_error": s.median_abs_error,
        "mean_abs_error": s.mean_abs_error,
        "p90_abs_error": s.p90_abs_error,
        "bias_log": s.bias_log,
        "coverage": s.coverage,
        "median_width": s.median_width,
        **more,
    }


def _beside(rows: list[Row]) -> tuple[str, dict[str, float]]:
    """The closed forms on the same rows, as the end of a line and as data."""
    from dataclasses import asdict

    from simulator.calibration.machine_rows import beside_tile

    found = beside_tile(rows)
    text = (
        f" {found.tile_median_abs_error:>7.1%} {found.median_abs_change:>7.1%} "
        f"{found.p90_abs_change:>7.1%}"
    )
    return text, asdict(found)


def _print_worst(row: Row) -> dict[str, Any]:
    predicted, measured = row.predicted_s * MICRO, row.measured_s * MICRO
    _say(
        f"  {row.file}:{row.line} {row.op} {row.engine} {row.chip}: predicted {predicted:,.1f} us "
        f"({row.low_s * MICRO:,.1f} to {row.high_s * MICRO:,.1f}), measured {measured:,.1f}, "
        f"{predicted / measured - 1:+.0%}; mostly {row.cause} ({row.family}); {row.call}"
    )
    tile = {"tile_us": row.tile_s * MICRO} if row.tile_s else {}
    return {
        **tile,
        "file": row.file,
        "line": row.line,
        "op": row.op,
        "engine": row.engine,
        "chip": row.chip,
        "family": row.family,
        "call": row.call,
        "measured_us": measured,
        "predicted_us": predicted,
        "predicted_p10_us": row.low_s * MICRO,
        "predicted_p90_us": row.high_s * MICRO,
        "cause": row.cause,
    }


def print_by(names: list[str], rows: list[Row]) -> list[dict[str, Any]]:
    """Prints rows grouped by some of their columns."""
    from reports.validation_rows import group_keys

    groups: dict[tuple[str, ...], list[Row]] = {}
    for key, row in zip(group_keys(rows, names), rows, strict=True):
        groups.setdefault(key, []).append(row)
    _print_header(", ".join(names), bool(rows[0].tile_s))
    return [_print_line(tuple(names), key, own) for key, own in sorted(groups.items())]


def print_slices(found: list[Slice]) -> list[dict[str, Any]]:
    """Prints slices that are off to one side, those first that cost a family most."""
    from dataclasses import asdict

    _say(f"\nSlices that are off to one side, on rows seen and not seen: {len(found)}")
    for part in found:
        _say(
            f"  {part.family}, {part.engine}, {part.chip}: {part.words}: {part.rows:,} rows, bias "
            f"{part.bias:+.1%} ({part.bias_unseen:+.1%} unseen), {part.error_share:.0%} of its "
            f"squared error; mostly {part.cause}"
        )
    return [{**asdict(part), "words": part.words} for part in found]


def print_not_covered(measured: RowSet) -> list[dict[str, Any]]:
    """Prints how many rows no family covers, by kind; never none without saying so."""
    from simulator.calibration.validation import not_covered

    found: list[dict[str, Any]] = [
        {"file": file, "op": op, "engine": engine, "kernel": kernel, "n": count}
        for (file, op, engine, kernel), count in not_covered(measured).items()
    ]
    if len(measured):
        total = sum(kind["n"] for kind in found)
        _say(f"\nRows that no kernel family covers: {total:,}")
    for kind in found:
        name = ", ".join(str(kind[k]) for k in ("file", "op", "engine", "kernel") if kind[k])
        _say(f"  {name}: {kind['n']:,}")
    return found


def print_too_few(measured: RowSet) -> list[dict[str, Any]]:
    """Prints which covered rows cross-validation leaves out, and why."""
    from simulator.calibration.calibrate import FEWEST_ROWS
    from simulator.calibration.validation import too_few

    found = [
        {"family": family, "architecture": architecture, "n": count}
        for (family, architecture), count in too_few(measured).items()
    ]
    for kind in found:
        _say(
            f"Left out, fewer than {FEWEST_ROWS} rows: {kind['family']} on "
            f"{kind['architecture']}, {kind['n']}"
        )
    return found


def print_not_run(predictions: MachinePredictions) -> list[dict[str, Any]]:
    """Prints which rows the machine cannot run, and why."""
    found = [
        {"file": file, "chip": chip, "reason": reason, "n": count}
        for (file, chip, reason), count in predictions.faults().items()
    ]
    for kind in found:
        _say(f"Not run: {kind['n']:,} of {kind['file']} on {kind['chip']}: {kind['reason']}")
    return found


def _say(text: str) -> None:
    console().print(text, soft_wrap=True, markup=False)
