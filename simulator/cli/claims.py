"""`v4sim claims`: published figures beside ours, and published statements put right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.quantity import share_text
from simulator.basis.errors import InputError, unknown_name
from simulator.cli.claims_measured import say_effects, say_fused, say_measured
from simulator.cli.options import (
    JsonFile,
    PageFile,
    command_line,
    console,
    error_console,
    save_json,
)
from simulator.cli.progress import progress

if TYPE_CHECKING:
    from reports.report import Report
    from simulator.claims.claim import ClaimResult
    from simulator.claims.serving import Compared
    from simulator.claims.serving_row import ServingRow


def say_serving(
    only: Sequence[str], out: Path | None, json: Path | None, page: Path | None
) -> bool:
    """Run the rows and print them; False where a figure leaves its band."""
    from reports.serving_claims_text import serving_columns, serving_records, setting_lines
    from reports.text_table import print_table, wrapped
    from simulator.claims.serving_row import serving_rows

    rows, sources = serving_rows()
    rows = _chosen(rows, only)
    found = _compared(rows)
    files = [] if out is None else _write(rows, out)
    save_json(json, {"serving": serving_records(found, sources)})
    if page is not None:
        from reports.kinds import report_of

        _write_page(page, report_of("serving-claims", found, sources))
    width = console().width
    print_table(console(), serving_columns(found))
    console().print("\nRuns, and why ours differs by more than its band (without one: by 30 %)")
    for line in setting_lines(found, sources):
        console().print(wrapped(line, width, 2), style="dim")
    tested = [one for one in found if one.verdict]
    held = sum(one.verdict == "held" for one in tested)
    console().print(
        f"\n{held} of {len(tested)} figures with a band are in it; {len(found) - len(tested)} have "
        "none, since their settings are not all known."
    )
    if files:
        first = f"v4sim serve {files[0]}"
        console().print(
            f"wrote {len(files)} scenarios; the first runs with: {first}", soft_wrap=True
        )
    return held == len(tested)


def _chosen(rows: Sequence[ServingRow], only: Sequence[str]) -> tuple[ServingRow, ...]:
    names = [row.name for row in rows]
    for name in only:
        if name not in names:
            raise InputError(unknown_name("run", name, names))
    return tuple(row for row in rows if not only or row.name in only)


def _compared(rows: Sequence[ServingRow]) -> list[Compared]:
    """All figures; which run it is, on standard error."""
    from simulator.claims.serving import compare_row

    found: list[Compared] = []
    with progress("serving", len(rows)) as tick:
        for place, row in enumerate(rows):
            tick(place, what=f"serving {row.name}")
            found += compare_row(row)
    return found


def _write(rows: Sequence[ServingRow], out: Path) -> list[Path]:
    """A file for every scenario, as `v4sim serve` takes it."""
    import yaml

    from simulator.basis.atomic import write_text

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make folder {out}: {error.strerror}") from None
    files = []
    for row in rows:
        for scenario in (row.scenario, row.other):
            if scenario is None:
                continue
            path = out / f"{scenario.name}.yaml"
            data = scenario.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
            write_text(path, f"# {row.setting}\n{text}")
            files.append(path)
    return files


# Where the quantity stands, and what is wrapped goes on.
_INDENT = 35


def claims(
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE.csv]",
            help="With --serving: measured runs of this table, mapped to scenarios by recipes.",
        ),
    ] = None,
    serving: Annotated[
        bool, typer.Option("--serving", help="Published serving results instead: each is served.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="With --serving: this run alone (of a table: those with this in their names); "
            "repeatable.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECHANISM",
            help="With a table: leave out lockstep, host, exchange, skew, padding or client; "
            "repeatable.",
        ),
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="With a table: scores without each mechanism.")
    ] = False,
    interval: Annotated[
        bool,
        typer.Option("--interval", help="With a table: p10 to p90 of each figure (slower)."),
    ] = False,
    fused: Annotated[
        bool,
        typer.Option("--fused", help="Published layers of fused expert exchange beside ours."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --serving: write every scenario here."),
    ] = None,
    page: PageFile = None,
    json: JsonFile = None,
) -> None:
    """Print every published figure beside ours, one line each, and the statements that are wrong.

    With --serving: throughput, latency and capacity of published runs, from scenarios that
    v4sim serve takes (--out). Exit code 1 when a figure is not met or leaves its band. With a table
    of measured runs each row prints the scenario that it became, or why it is not mapped.

    Example: v4sim claims --serving --out out/published
    """
    if page is not None and (fused or table is not None):
        raise InputError(
            "--page goes with published figures: give it without --fused and without a table; "
            "--json has theirs"
        )
    if fused:
        if table is not None or serving or only or without or effects or interval or out:
            raise InputError("--fused has rows of its own: give it alone, or with --json")
        say_fused(json)
        return
    if table is not None:
        if not serving or out is not None:
            raise InputError(
                f"{table} is a table of measured runs, which goes with --serving and without "
                "--out; try: v4sim claims --serving FILE.csv"
            )
        if effects:
            if without or interval or json is not None:
                raise InputError(
                    "--effects leaves out each mechanism by itself and prints scores alone: give "
                    "it without --without, --interval and --json"
                )
            say_effects(table, only or [])
            return
        say_measured(table, only or [], json, without=without or [], bands=interval)
        return
    if without or effects or interval:
        raise InputError(
            "--without, --effects and --interval go with a table of measured runs, such as: v4sim "
            "claims --serving FILE.csv --effects"
        )
    if serving:
        if not say_serving(only or [], out, json, page):
            raise typer.Exit(1)
        return
    if only or out is not None:
        raise InputError("--only and --out go with --serving, which is not given; add it")
    _say_claims(json, page)


def _say_claims(json: Path | None, page: Path | None) -> None:
    from simulator.claims.claim import corrected_statements

    rows: list[dict[str, Any]] = []
    results: list[ClaimResult] = []
    _say(f"no  verdict  difference  {'kind':<9}  quantity: published; ours", "bold")
    for result in _evaluated():
        _say(_line(result))
        _say(f"{'':<{_INDENT}}source: {result.claim.source}", "dim")
        rows.append(_row(result))
        results.append(result)
    verdicts = Counter(row["verdict"] for row in rows)
    _say("\n" + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    _say("\nStatements that are wrong or need a footnote")
    statements = []
    corrected = list(corrected_statements())
    for statement, right in corrected:
        _say(f"{statement.key}  {statement.verdict}: {statement.statement}", indent=3)
        _say(f"   right: {right}", indent=3)
        statements.append(statement.model_dump() | {"right": right})
    save_json(json, {"claims": rows, "statements": statements})
    if page is not None:
        from reports.kinds import report_of

        _write_page(page, report_of("claims", results, corrected))
    if verdicts["differs"]:
        raise typer.Exit(1)


def _write_page(page: Path, report: Report) -> None:
    from reports.report_page import write_report_page

    write_report_page(page, report, command_line())
    console().print(f"Open the report in a browser: {page.resolve()}", soft_wrap=True)


def _evaluated() -> Iterator[ClaimResult]:
    """Every claim; the note on progress is gone whenever a line is printed."""
    from simulator.claims.claim import evaluate_claims

    results = evaluate_claims()
    while True:
        with error_console().status("counting and running"):
            result = next(results, None)
        if result is None:
            return
        yield result


def _say(text: str, style: str | None = None, indent: int = _INDENT) -> None:
    """One line for pipes, so that it can be searched; wrapped and indented on a terminal."""
    from reports.text_table import wrapped

    if console().is_terminal:
        text = wrapped(text, console().width, indent)
    console().print(text, style=style, soft_wrap=True, markup=False)


def _line(result: ClaimResult) -> str:
    """What can be aligned first, then the quantity with its figures."""
    claim = result.claim
    kind = "" if result.ours is None else claim.kind
    published = " / ".join(_figure(value) for value in claim.values)
    unit = f"x {claim.unit}" if claim.unit[0].isdigit() else claim.unit
    return (
        f"{claim.number:2d}  {result.verdict:<7}  {_difference(result):>10}  {kind:<9}  "
        f"{claim.quantity}: published {published} {unit}; ours {_ours(result)}"
    )


def _difference(result: ClaimResult) -> str:
    if result.difference is None:
        return "–"
    if not result.difference:
        return "none"
    if result.claim.unit == "relative":
        return f"{result.difference:.1g}"
    return share_text(result.difference, 1, digits=2)


def _ours(result: ClaimResult) -> str:
    if result.ours is None:
        # The source of such a claim ends with what it waits for.
        return f"not yet: {result.claim.source.rpartition('; ')[2]}"
    if not result.difference:
        return "the same"
    return " / ".join(_figure(value) for value in result.ours)


def _figure(value: float) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _row(result: ClaimResult) -> dict[str, Any]:
    return result.claim.model_dump() | {
        "ours": result.ours,
        "difference": result.difference,
        "verdict": result.verdict,
    }
