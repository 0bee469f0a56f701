"""Prints steps and operators that were measured on Ascend machines beside ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.options import console, error_console

if TYPE_CHECKING:
    from simulator.calibration.npu_rows import NpuPrediction

# A prediction that is off by more than twice, to either side.
FAR = 2.0
_WIDTHS = "{line:>4} {what:<66} {measured:>11} {predicted:>11} {time:>6}  {interval:<23} {inside}"


def validate_npu(path: Path) -> dict[str, Any]:
    """Predicts the rows of a table, prints each and what they come to, and returns that as data."""
    from simulator.calibration.npu_rows import predict_npu_row, read_npu_rows

    rows, found = read_npu_rows(path), []
    with error_console().status("") as status:
        for number, row in enumerate(rows, start=1):
            status.update(f"{path.name}: row {number} of {len(rows)}")
            found.append(predict_npu_row(row))
    titles = {
        "line": "line", "what": "chip, model, precision, batch x context, metric",
        "measured": "measured", "predicted": "predicted", "time": "time",
        "interval": "p10 to p90", "inside": "",
    }  # fmt: skip
    _say(f"\n{path.name}: {len(rows)} rows; time is predicted over measured time, less one")
    _say(_WIDTHS.format(**titles))
    asked = [one for one in found if one.predicted is not None]
    for one in asked:
        _say(_line(one))
    report: dict[str, Any] = {"file": path.name, "n": len(rows), "asked": len(asked)}
    report["summary"] = {
        name: _summary(name, own) for name, own in _judged(asked).items() if own
    }  # fmt: skip
    reasons = Counter(one.reason for one in found if one.predicted is None)
    _say(f"\nRows that cannot be asked: {len(found) - len(asked)} of {len(found)}")
    for reason, number in reasons.most_common():
        lines = ", ".join(str(one.row.line) for one in found if one.reason == reason)
        _say(f"  {number}: {reason} (lines {lines})")
    report["rows"] = [_data(one) for one in found]
    return report


def _judged(asked: Sequence[NpuPrediction]) -> dict[str, list[NpuPrediction]]:
    """Rows by what they are judged as; a throughput says the same as the time of its step."""
    times = [one for one in asked if not one.row.texts["unit"].startswith("tok/s")]
    return {
        "steps, time per token": [one for one in times if one.row.kind == "step"],
        "steps, throughput": [one for one in asked if one.row.texts["unit"].startswith("tok/s")],
        "operators": [one for one in times if one.row.kind == "operator"],
    }


def _summary(name: str, own: Sequence[NpuPrediction]) -> dict[str, Any]:
    import numpy as np

    slower = np.array([one.slower for one in own], dtype=float)
    errors = np.abs(slower - 1)
    inside = sum(1 for one in own if one.inside)
    far = int(np.sum(np.maximum(slower, 1 / slower) > FAR))
    _say(
        f"{name}: {len(own)} rows, median error {np.median(errors):.1%}, worst {errors.max():.1%}, "
        f"{far} off by more than twice, {inside} inside ({inside / len(own):.0%})"
    )
    return {
        "n": len(own), "median_abs_error": float(np.median(errors)),
        "worst_abs_error": float(errors.max()), "off_by_twice": far, "inside": inside,
        "median_log_ratio": float(np.median(np.log(slower))),
    }  # fmt: skip


def _line(one: NpuPrediction) -> str:
    texts, row = one.row.texts, one.row
    size = f"{texts['batch']} x {texts['context']}" if texts["context"] else texts["batch"]
    words = (texts["chip"], texts["model"], texts["precision"], size, texts["metric"])
    assert one.predicted is not None
    assert one.slower is not None
    return _WIDTHS.format(
        line=row.line,
        what=", ".join(word.partition(" (")[0] for word in words)[:66],
        measured=f"{row.value:,.5g}",
        predicted=f"{one.predicted:,.4g}",
        time=f"{one.slower - 1:+.0%}",
        interval=f"{one.low:,.4g} to {one.high:,.4g} {texts['unit'].split('/')[0]}",
        inside="inside" if one.inside else "outside",
    )


def _data(one: NpuPrediction) -> dict[str, Any]:
    texts = one.row.texts
    return {
        "line": one.row.line,
        **{name: texts[name] for name in ("chip", "model", "precision", "batch", "context")},
        "metric": texts["metric"],
        "unit": texts["unit"],
        "measured": one.row.value,
        "predicted": one.predicted,
        "p10": one.low,
        "p90": one.high,
        "inside": one.inside,
        "error": one.error,
        "engine": one.engine or None,
        "not_asked": one.reason or None,
    }


def _say(text: str) -> None:
    console().print(text, soft_wrap=True, markup=False)
