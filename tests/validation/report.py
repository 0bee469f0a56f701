"""Writes REPORT.md: how far predictions are off, and all constants. `make validation` runs it.

Nothing in the report depends on when or where it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from simulator.calibration.calibrate import FEWEST_ROWS
from simulator.calibration.dispatch import chip_of
from simulator.calibration.fit import fit_groups
from simulator.calibration.published import Comparison, PublishedFile, compared, read_published
from simulator.calibration.published_constants import (
    UNFITTED,
    FittedConstant,
    fitted_constants,
)
from simulator.calibration.validation import Row, Statistics, grouped, statistics_of
from simulator.kernels.architecture import core_architecture
from simulator.kernels.registry import FAMILIES
from tests.validation.dram_rows import DramError, dram_errors, dram_statistics
from tests.validation.noise import noise
from tests.validation.silicon_rows import (
    ENOUGH_ROWS,
    GROUPS,
    Group,
    RowsByFamily,
    cross_validated,
    group_statistics,
)

REPORT = Path(__file__).parent / "REPORT.md"
ERRORS = ("n", "median", "mean", "p90", "bias", "held")

HEAD = f"""# Validation

`make validation` writes this file from the rows in `silicon/` and `dram/`, the constants in
`simulator/kernels/constants/` and the figures in `simulator/calibration/published.yaml`; a test
holds it to what is computed.

Rows of H200 (hopper) and B200 (blackwell). Five-fold cross-validation: each row is predicted with
constants fitted to the other four fifths. A row is lowered by the engine's profile as a tiny graph;
a whole module is predicted with the constants that its kernels have from their own tables. Errors
are |predicted - measured| / measured; the bias is the mean logarithm of predicted over measured;
`held` is the share of rows within the predicted p10 to p90 interval, which follows from the row's
regime (time scale, largest cause, tokens, requests, phase) in the other folds. An error under 1 us
counts as none on Blackwell rows of vLLM under 20 us, whose timer ticks in steps of 2.05 us.
Families of fewer than {FEWEST_ROWS} rows on an architecture are not fitted there.

The same figures by file, operation, engine and chip, and the worst rows with reasons:
`v4sim validate tests/validation/silicon --cv`."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int) -> str:
    """A Markdown table; all but the first columns are numbers, set to the right."""
    marks = ["---"] * text_columns + ["---:"] * (len(header) - text_columns)
    lines = [header, marks, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def errors(found: Statistics) -> tuple[str, ...]:
    """Cells of `ERRORS`."""
    return (
        f"{found.n:,}",
        f"{found.median_abs_error:.1%}",
        f"{found.mean_abs_error:.1%}",
        f"{found.p90_abs_error:.1%}",
        f"{found.bias_log:+.1%}",
        f"{found.coverage:.0%}",
    )


def group_table(by_family: RowsByFamily) -> str:
    """Errors of each group beside what is asked of it."""
    rows = [
        (group.name, *errors(found), f"{group.median:.1%} / {group.p90:.0%}", _met(group, found))
        for group, found in group_statistics(by_family).items()
    ]
    return table(("group", *ERRORS, "target: median / p90", "met"), rows, 1)


def _met(group: Group, found: Statistics) -> str:
    return "yes" if group.meets(found) else "no"


def family_table(by_family: RowsByFamily) -> str:
    """Errors of each family on each architecture; a star where its group's target is missed."""
    group_of = {family: group for group in GROUPS for family in group.families}
    rows = []
    everything = (row for family in FAMILIES for row in by_family[family])
    for (family, cores), part in grouped(everything, _family_and_cores).items():
        found = statistics_of(part)
        star = "" if group_of[family].meets(found) else " *"
        rows.append((f"`{family}`{star}", cores, *errors(found)))
    return table(("kernel family", "architecture", *ERRORS), rows, 2)


def _family_and_cores(row: Row) -> tuple[str, ...]:
    return row.family, core_architecture(chip_of(row.chip))


# Medians asked of whole files.
AIMS = {
    "attention_kernel.csv": 0.04,
    "attention_module.csv": 0.035,
    "collective.csv": 0.045,
    "gemm.csv": 0.05,
    "mhc.csv": 0.03,
    "moe.csv": 0.03,
}


def noise_table(rows: Iterable[Row]) -> str:
    """Medians by file beside their aims, and what rows of a file say of each other."""
    return table(
        ("file", "median", "aim", "met", "pairs", "neighbours", "same work", "frameworks"),
        [
            (
                found.file,
                f"{found.median_error:.1%}",
                f"{AIMS[found.file]:.1%}",
                "yes" if round(found.median_error, 3) <= AIMS[found.file] else "no",
                f"{found.pairs:,}",
                f"{found.neighbours:.1%}",
                f"{found.same:,}",
                f"{found.frameworks:.1%}" if found.same else "–",
            )
            for found in noise(rows)
        ],
        1,
    )


def constant_table() -> str:
    """All fitted constants."""
    rows = [
        (
            f"`{c.family}`",
            c.architecture,
            f"`{c.name}`",
            c.unit,
            c.meaning + _together(c),
            f"{c.value:.4g}",
            f"{c.low:g} to {c.high:g}" + (", at a bound" if c.at_bound else ""),
            f"{c.rows:,}",
        )
        for c in fitted_constants()
    ]
    header = ("kernel family", "architecture", "constant", "unit", "meaning")
    return table((*header, "value", "bounds", "rows"), rows, len(header))


def _together(constant: FittedConstant) -> str:
    if constant.family == constant.rows_of:
        return ""
    return f" (fitted jointly with the rows of `{constant.rows_of}`)"


def unfitted_table() -> str:
    """Numbers of the programs that no fit touches."""
    rows = [
        (f"`{u.module}.{u.name}`", u.unit, u.meaning, u.origin, f"{u.value:,.10g}")
        for u in UNFITTED
    ]
    return table(("number", "unit", "meaning", "origin", "value"), rows, 4)


def published_table(content: PublishedFile) -> str:
    """Published figures beside ours."""
    found = [each for row in content.rows for each in compared(row)]
    header = ("kernel", "shape", "hardware", "family", "source", "remark", "unit")
    return table(
        (*header, "published", "ours", "time", "p10 to p90"),
        [_published_cells(each) for each in found],
        len(header),
    )


def _published_cells(found: Comparison) -> tuple[str, ...]:
    row = found.row
    return (
        row.kernel,
        row.shape,
        row.hardware,
        f"`{found.call.family}`",
        f"`{row.source}`",
        row.remark,
        row.unit,
        f"{row.value:,.5g}",
        f"{found.predicted:,.4g}",
        f"{found.time_difference:+.0%}",
        f"{found.low:,.4g} to {found.high:,.4g}",
    )


def left_out_table(content: PublishedFile) -> str:
    """Published figures without a prediction: how many of which kernels, and why."""
    rows = []
    for reason, words in content.reasons.items():
        own = [row for row in content.rows if row.not_covered == reason]
        kernels = ", ".join(dict.fromkeys(row.kernel for row in own))
        rows.append((kernels, words, str(len(own))))
    return table(("kernels", "why no family covers them", "rows"), rows, 2)


def dram_table(runs: Sequence[DramError]) -> str:
    """Errors of DRAM runs by configuration, channels and pattern."""
    kinds = sorted({(run.config, run.channels, run.pattern) for run in runs})
    rows = []
    for config, channels, pattern in kinds:
        kind = config, channels, pattern
        own = [run for run in runs if (run.config, run.channels, run.pattern) == kind]
        found = dram_statistics(own)
        bandwidth = f"{found.bandwidth_median:.2%}", f"{found.bandwidth_worst:.2%}"
        latency = f"{found.p50_median:.2%}", f"{found.p50_worst:.2%}"
        rows.append((f"`{config}`", pattern, str(channels), str(found.n), *bandwidth, *latency))
    errors_of = ("bandwidth: median", "worst", "p50 latency: median", "worst")
    return table(("configuration", "pattern", "channels", "n", *errors_of), rows, 2)


def report(by_family: RowsByFamily, runs: Sequence[DramError]) -> str:
    """The whole report."""
    content = read_published()
    everything = [row for rows in by_family.values() for row in rows]
    covered = sum(bool(row.calls) for row in content.rows)
    blocks = [
        HEAD,
        "## By group",
        group_table(by_family),
        f"All {len(everything):,} rows: " + _sentence(statistics_of(everything)),
        "## By kernel family and architecture",
        "A star marks a part that alone would miss its group's target. Intervals are asked to hold "
        f"75 to 85 % of rows in families of {ENOUGH_ROWS} rows or more.",
        family_table(by_family),
        "## What stops the errors",
        "Aims by file, and what rows say of each other. `neighbours`: pairs that differ in nothing "
        "but a size, by a factor of 2 at most; the median difference of their errors over the "
        "root of two is what no smooth model takes away. `frameworks`: half of the median "
        "difference of the same work's times under two engines.",
        noise_table(everything),
        "## DRAM",
        "Runs of Ramulator 2.1 with the reference's random numbers and hashes (`dram/`). Bandwidth "
        "errors are shares of the peak, latency errors shares of the measured median.",
        dram_table(runs),
        "## Constants that are fitted",
        "At most five a family and architecture. A module adds only its fixed part; constants of "
        "kernels that no table measures alone stand under those kernels.",
        constant_table(),
        "## Numbers that are not fitted",
        "`published`: in the engine's code or its authors' text. `derived`: from other numbers. "
        "`seen`: read off measured rows where only it differs. Bytes of formats, tile sizes and "
        "engines' decisions stand where they are used. Facts of chips: `v4sim chips show`.",
        unfitted_table(),
        "## Published figures",
        f"{covered} of {len(content.rows)} figures, never fitted to. `time` is ours over theirs, "
        "less one: above 0 the model is slower. Sources are spelt out in "
        "`simulator/calibration/published.yaml`.",
        published_table(content),
        left_out_table(content),
    ]
    return "\n\n".join(blocks) + "\n"


def _sentence(found: Statistics) -> str:
    return (
        f"median {found.median_abs_error:.1%}, mean {found.mean_abs_error:.1%}, p90 "
        f"{found.p90_abs_error:.1%}, bias {found.bias_log:+.1%}, {found.coverage:.0%} held."
    )


def main() -> None:
    """Cross-validates all families, runs the DRAM rows and writes the report."""
    by_family = {f: rows for group in fit_groups() for f, rows in cross_validated(group).items()}
    REPORT.write_text(report(by_family, dram_errors()))
    print(f"wrote {REPORT}")


if __name__ == "__main__":
    main()
