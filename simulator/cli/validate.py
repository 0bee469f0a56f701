"""`v4sim validate`: hold the predictions against tables of measured times, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError, V4SimError, unknown_name
from simulator.cli.calibrate import need_scipy
from simulator.cli.options import JsonFile, console, error_console, save_json

if TYPE_CHECKING:
    from hwmodels.dram.table import RowPrediction
    from simulator.calibration.dispatch import RowSet
    from simulator.calibration.machine_rows import MachinePredictions
    from simulator.calibration.published import Comparison
    from simulator.calibration.validation import Row


WORST = 10


def validate_dram(path: Path) -> dict[str, Any]:
    """Runs the rows of a table, prints how far off they are, and returns that as data.

    Bandwidth errors are shares of the peak, latency errors shares of the measured median.
    """
    from hwmodels.dram.table import predict_row, read_table

    rows = read_table(path)
    predictions: list[RowPrediction] = []
    with error_console().status("") as status:
        for number, row in enumerate(rows, start=1):
            status.update(f"{path.name}: row {number} of {len(rows)}")
            predictions.append(predict_row(row))
    what = f"{path.name}: configuration, channels, pattern"
    _say(
        f"\n{what:<60} {'rows':>5} {'bandwidth: median':>18} {'worst':>7} "
        f"{'p50 latency: median':>20} {'worst':>7}"
    )
    groups: dict[tuple[str, int, str], list[RowPrediction]] = {}
    for found in predictions:
        key = (found.row.config, found.row.channels, found.row.pattern)
        groups.setdefault(key, []).append(found)
    report: dict[str, Any] = {"file": path.name, "n": len(predictions), "groups": [], "worst": []}
    for (config, channels, pattern), group in sorted(groups.items()):
        line = _print_group(f"{config}, {channels}, {pattern}", group)
        report["groups"].append(
            {"config": config, "channels": channels, "pattern": pattern, **line}
        )
    if predictions:
        report["all"] = _print_group("all rows", predictions)
    for found in sorted(predictions, key=lambda p: -abs(p.useful_error))[:WORST]:
        report["worst"].append(_print_worst_windows(path, found))
    return report


def _print_group(name: str, group: list[RowPrediction]) -> dict[str, Any]:
    import numpy as np

    bandwidth = np.abs([found.useful_error for found in group])
    latency = np.abs([found.p50_error for found in group])
    _say(
        f"{name:<60} {len(group):>5} {np.median(bandwidth):>18.4f} {bandwidth.max():>7.4f} "
        f"{np.median(latency):>20.2%} {latency.max():>7.2%}"
    )
    return {
        "n": len(group),
        "median_abs_useful_error": float(np.median(bandwidth)),
        "worst_abs_useful_error": float(bandwidth.max()),
        "median_abs_p50_error": float(np.median(latency)),
        "worst_abs_p50_error": float(latency.max()),
    }


def _print_worst_windows(path: Path, found: RowPrediction) -> dict[str, Any]:
    row, result = found.row, found.result
    _say(
        f"  {path.name}:{row.line} {row.config}, {row.channels} channels, {row.pattern} of "
        f"{row.chunk_bytes} B at {row.align_bytes} B, {row.write_frac:.0%} writes: predicted "
        f"{result.useful_fraction:.4f} of peak, measured {row.frac_peak_useful:.4f}; p50 "
        f"{result.latency_p50_ns:,.1f} ns, measured {row.lat_p50_ns:,.1f}; mostly {_cause(found)}"
    )
    return {
        "line": row.line,
        "config": row.config,
        "channels": row.channels,
        "pattern": row.pattern,
        "predicted_useful_fraction": result.useful_fraction,
        "measured_useful_fraction": row.frac_peak_useful,
        "predicted_p50_ns": result.latency_p50_ns,
        "measured_p50_ns": row.lat_p50_ns,
        "cause": _cause(found),
    }


def _cause(found: RowPrediction) -> str:
    """What the data buses wait for most, beside moving data."""
    waits = {name: share for name, share in found.result.time_parts.items() if name != "data"}
    return max(waits, key=lambda name: waits[name])


MICRO = 1e6
FIDELITIES = ("tile", "cycle")


class InterruptedValidationError(V4SimError):
    """Ctrl-C: what was predicted so far is printed."""

    exit_code = 130


def validate(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Folder of CSV tables, or one table.")
    ] = None,
    cv: Annotated[
        bool, typer.Option("--cv", help="Five-fold cross-validation instead of stored constants.")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Figures that others published, beside ours.")
    ] = False,
    fidelity: Annotated[
        str,
        typer.Option(help="tile: closed forms of the kernel families; cycle: the machine runs."),
    ] = "tile",
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="So many rows a file, of each family and chip in proportion [default: all].",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Draws the sample's rows [default: 0].")] = None,
    json: JsonFile = None,
) -> None:
    """Predict every row of every table and print how far off the predictions are.

    Errors are of the measured time; coverage is the share of rows that the predicted p10 to p90
    interval holds. On Blackwell, vLLM rows under 20 us sit on a timer ladder: an error under 1 us
    counts as none there. --fidelity cycle runs each row's kernels on the machine, with the stored
    constants, and prints the closed forms' median error beside; c/t is cycle's time over tile's.

    Example: v4sim validate silicon --fidelity cycle --sample 40
    """
    drawn = sample is not None or seed is not None
    if published:
        if folder is not None or cv or drawn or fidelity != "tile":
            raise InputError(
                "--published has its own rows and closed forms: give it without DIR, --cv, "
                "--fidelity, --sample and --seed"
            )
        save_json(json, _print_published())
        return
    if folder is None:
        raise InputError("nothing to validate: give a folder of tables, or --published")
    _check_options(fidelity, cv, sample, seed)
    report = _validated(folder, fidelity, cv, sample, seed or 0)
    save_json(json, report)


def _check_options(fidelity: str, cv: bool, sample: int | None, seed: int | None) -> None:
    """Refuse what does not go together, before any table is read."""
    if fidelity == "roofline":
        raise InputError(
            "--fidelity roofline is a bound and predicts no time, expected tile or cycle; leave it "
            "out for tile"
        )
    if fidelity not in FIDELITIES:
        raise InputError(unknown_name("fidelity", fidelity, FIDELITIES))
    if cv and fidelity == "cycle":
        raise InputError(
            "--cv fits the constants of closed forms anew in every fold, and --fidelity cycle runs "
            "with those that are stored: give --cv alone, or cycle without it"
        )
    if sample is not None and sample < 1:
        raise InputError(
            f"--sample {sample} takes no row, expected at least 1; leave it out for all rows"
        )
    if seed is not None and seed < 0:
        raise InputError(f"--seed is {seed}, expected 0 or more; the default is 0")
    if seed is not None and sample is None:
        raise InputError(
            f"--seed {seed} draws a sample, but all rows are taken; give --sample N, or leave it "
            "out"
        )


def _validated(
    folder: Path, fidelity: str, cv: bool, sample: int | None, seed: int
) -> dict[str, Any]:
    """Predicts and prints the tables of a folder; returns all as data."""
    from simulator.calibration.dispatch import dispatched
    from simulator.calibration.sample import sampled
    from simulator.calibration.tables_in_folder import read_folder
    from simulator.calibration.validation import validate_tables

    tables = read_folder(folder)
    measured = dispatched(tables.measured)
    chosen = measured if sample is None else sampled(measured, sample, seed)
    if sample is not None:
        _say(
            f"A sample of {len(chosen):,} of {len(measured):,} rows: at most {sample:,} a file, of "
            f"each kernel family and chip in proportion, drawn with seed {seed}"
        )
    if cv:
        need_scipy()
    report: dict[str, Any] = {
        "cross_validated": cv,
        "fidelity": fidelity,
        "sample_rows_a_file": sample,
        "seed": seed if sample is not None else None,
        "not_run": [],
    }
    if fidelity == "cycle":
        report |= _by_machine(chosen, seed)
    else:
        with error_console().status("") as status:
            rows = validate_tables(chosen, cross=cv, progress=status.update)
        report |= _report(rows)
    report["not_covered"] = _print_not_covered(measured)
    report["too_few"] = _print_too_few(chosen) if cv else []
    report["dram"] = [validate_dram(path) for path in tables.dram]
    return report


def _by_machine(measured: RowSet, seed: int) -> dict[str, Any]:
    """Runs rows on the machine and prints how far off they are, on Ctrl-C those so far."""
    from simulator.calibration.machine_rows import MachinePredictions

    with error_console().status("predicting by closed forms, to compare with"):
        predictions = MachinePredictions(measured, seed)
    whole = _run_all(predictions)
    report = _report(predictions.predicted())
    report["not_run"] = _print_not_run(predictions)
    if not whole:
        what = "the tables above are of those" if predictions.done else "nothing was predicted"
        raise InterruptedValidationError(
            f"interrupted after {predictions.done:,} of {len(predictions):,} rows: {what}, no JSON "
            "is written, and the same command passes quickly over what was run"
        )
    return report


def _run_all(predictions: MachinePredictions) -> bool:
    """Runs rows with a bar on standard error; False where Ctrl-C ended it early."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=error_console(), transient=True) as progress:
        task = progress.add_task("rows", total=len(predictions))
        try:
            for _ in predictions.run():
                progress.advance(task)
        except KeyboardInterrupt:
            return False
    return True


def _print_not_run(predictions: MachinePredictions) -> list[dict[str, Any]]:
    """Prints which rows the machine cannot run, and why."""
    found = [
        {"file": file, "chip": chip, "reason": reason, "n": count}
        for (file, chip, reason), count in predictions.faults().items()
    ]
    for kind in found:
        _say(f"Not run: {kind['n']:,} of {kind['file']} on {kind['chip']}: {kind['reason']}")
    return found


def _report(rows: list[Row]) -> dict[str, Any]:
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
    if not stored.calibrated:
        _say(f"  not calibrated on {chip}: constants of {stored.architecture}, wider interval")
    return stored.architecture


def _print_header(what: str, cycle: bool) -> None:
    beside = f" {'tile':>7} {'|c/t-1|':>7} {'p90':>7}" if cycle else ""
    _say(
        f"\n{what:<76} {'rows':>6} {'median':>7} {'mean':>7} {'p90':>7} {'bias':>7} {'held':>5}"
        + beside
    )


def _print_line(names: tuple[str, ...], key: tuple[str, ...], rows: list[Row]) -> dict[str, Any]:
    """A line of errors; of rows that the machine ran, with the closed forms beside it."""
    from simulator.calibration.validation import statistics_of

    s = statistics_of(rows)
    shown, more = _beside(rows) if rows[0].tile_s else ("", {})
    _say(
        f"{', '.join(key):<76} {s.n:>6,} {s.median_abs_error:>7.1%} {s.mean_abs_error:>7.1%} "
        f"{s.p90_abs_error:>7.1%} {s.bias_log:>+7.1%} {s.coverage:>5.0%}{shown}"
    )
    return {
        **dict(zip(names, key, strict=True)),
        "n": s.n,
        "median_abs_error": s.median_abs_error,
        "mean_abs_error": s.mean_abs_error,
        "p90_abs_error": s.p90_abs_error,
        "bias_log": s.bias_log,
        "coverage": s.coverage,
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


def _print_not_covered(measured: RowSet) -> list[dict[str, Any]]:
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


def _print_too_few(measured: RowSet) -> list[dict[str, Any]]:
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


def _print_published() -> dict[str, Any]:
    """Prints published figures beside ours, and why the others have none."""
    from simulator.calibration.published import compared, read_published

    content = read_published()
    report: dict[str, Any] = {"compared": [], "not_covered": []}
    _say(f"{'kernel, shape, hardware':<78} {'published':>10} {'ours':>10} {'time':>6}  p10 to p90")
    for found in (found for row in content.rows for found in compared(row)):
        row = found.row
        what = ", ".join(word for word in (row.kernel, row.shape, row.hardware) if word)
        _say(
            f"{what:<78} {row.value:>10,.5g} {found.predicted:>10,.4g} "
            f"{found.time_difference:>+6.0%}  {found.low:,.4g} to {found.high:,.4g} {row.unit}; "
            f"{found.call.family}{'; ' + row.remark if row.remark else ''}"
        )
        report["compared"].append(_published_line(found))
    left = [row for row in content.rows if row.not_covered]
    _say(f"\nPublished figures that no kernel family covers: {len(left)} of {len(content.rows)}")
    for reason, words in content.reasons.items():
        rows = [row for row in left if row.not_covered == reason]
        kernels = ", ".join(dict.fromkeys(row.kernel for row in rows))
        _say(f"  {len(rows)}: {kernels}: {words}")
        report["not_covered"].append({"n": len(rows), "kernels": kernels, "reason": words})
    return report


def _published_line(found: Comparison) -> dict[str, Any]:
    row = found.row
    return {
        "kernel": row.kernel,
        "shape": row.shape,
        "hardware": row.hardware,
        "unit": row.unit,
        "published": row.value,
        "predicted": found.predicted,
        "predicted_p10": found.low,
        "predicted_p90": found.high,
        "time_difference": found.time_difference,
        "family": found.call.family,
        "source": row.source,
        "remark": row.remark,
    }


def _say(text: str) -> None:
    console().print(text, soft_wrap=True, markup=False)
