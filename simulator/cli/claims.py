"""`v4sim claims`: published figures beside ours, and published statements put right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from simulator.cli.options import JsonFile, console, error_console, save_json

if TYPE_CHECKING:
    from simulator.claims.claim import ClaimResult


def claims(json: JsonFile = None) -> None:
    """Print every published figure beside ours, one line each, and the statements that are wrong.

    Exit code 1 when a figure that we compute or execute is not met.

    Example: v4sim claims
    """
    from simulator.claims.claim import corrected_statements, evaluate_claims

    rows: list[dict[str, Any]] = []
    with error_console().status("counting and running"):
        for result in evaluate_claims():
            console().print(_line(result), soft_wrap=True)
            rows.append(_row(result))
    console().print("\nStatements that are wrong or need a footnote:")
    statements = []
    for statement, right in corrected_statements():
        text = f"{statement.key}  [{statement.verdict}] {statement.statement} -> {right}"
        console().print(text, soft_wrap=True, markup=False)
        statements.append(statement.model_dump() | {"right": right})
    save_json(json, {"claims": rows, "statements": statements})
    differing = [row["number"] for row in rows if row["verdict"] == "differs"]
    if differing:
        raise typer.Exit(1)


def _line(result: ClaimResult) -> str:
    claim = result.claim
    published = ", ".join(
        f"{value:,.6g}" if value < 1e6 else f"{value:,}" for value in claim.values
    )
    if result.ours is None:
        ours, difference = "-", "-"
    else:
        ours = ", ".join(f"{v:,.6g}" if abs(v) < 1e6 else f"{v:,.0f}" for v in result.ours)
        difference = (
            f"{result.difference:.2%}" if claim.unit != "relative" else (f"{result.difference:.2g}")
        )
    return (
        f"{claim.number:2d}  {claim.quantity} | published {published} {claim.unit} | ours {ours} | "
        f"difference {difference} | {result.verdict} | {claim.kind}"
    )


def _row(result: ClaimResult) -> dict[str, Any]:
    return result.claim.model_dump() | {
        "ours": result.ours,
        "difference": result.difference,
        "verdict": result.verdict,
    }
