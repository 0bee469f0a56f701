"""Answers: a sentence, a table, a figure, the data, and files; in a notebook a short table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.basis.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from reports.served import Served
    from simulator.capacity.capacity import Capacity
    from simulator.capacity.verdict import Verdict
    from simulator.cost.question import AskedStep
    from simulator.cost.result import StepResult
    from simulator.evaluate.formats_run import FormatsResult
    from simulator.plan.plan_question import PlanQuestion
    from simulator.plan.search import SearchResult
    from simulator.prefix.comparison import CacheDeployment, PolicyRow

# What a notebook shows of an answer: so many rows and letters at most.
SHOWN_ROWS = 8
SHOWN_LETTERS = 3900


class Answer(ABC):
    """What every answer has."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The answer in a sentence, as the command prints it."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """The answer's main table, exact, units in the columns' names or `attrs`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All figures, as `--json` of the command writes them."""

    @abstractmethod
    def figure(self) -> go.Figure:
        """The answer's main figure."""

    def save(self, folder: str | Path) -> list[Path]:
        """Write JSON, the table as CSV and the figure as a page that works offline; the paths.

        Raises InputError where the folder cannot be made.
        """
        from reports.step_json import write_json
        from simulator.basis.atomic import write_text

        made = _made(folder)
        files = [made / "answer.json", made / "table.csv", made / "figure.html"]
        write_json(files[0], self.to_dict())
        write_text(files[1], self.to_pandas().to_csv(index=False))
        write_text(files[2], self.figure().to_html(include_plotlyjs=True))
        return files

    @abstractmethod
    def _short(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Headings and rows of the table that a notebook shows."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence}>"

    def _repr_html_(self) -> str:
        headings, rows = self._short()
        head = "".join(f"<th>{escape(h)}</th>" for h in headings)
        text = f"<p><b>{escape(self.sentence)}</b></p><table><thead><tr>{head}</tr></thead><tbody>"
        left = len(rows)
        for row in rows[:SHOWN_ROWS]:
            line = "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            if len(text) + len(line) > SHOWN_LETTERS - 120:
                break
            text += line
            left -= 1
        more = f"<p>{left} rows more: to_pandas()</p>" if left else ""
        return f"{text}</tbody></table>{more}"


def _made(folder: str | Path) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {folder}: {error.strerror}") from error
    return path


def _bars(names: Iterable[str], values: Iterable[float], x: str, title: str) -> go.Figure:
    import plotly.graph_objects as go

    bars = go.Bar(x=list(values), y=list(names), orientation="h")
    figure = go.Figure(bars)
    figure.update_layout(title=title, xaxis_title=x, template="plotly_white")
    figure.update_yaxes(autorange="reversed", title="")
    return figure


@dataclass(frozen=True, repr=False)
class StepAnswer(Answer):
    """A costed step: `seconds` with `low_s` to `high_s`, its operations, its roofline."""

    asked: AskedStep
    result: StepResult

    @property
    def seconds(self) -> float:
        """Duration of the step."""
        return self.result.seconds

    @property
    def low_s(self) -> float:
        """A tenth of the times on silicon are expected below."""
        return self.result.low_ps * 1e-12

    @property
    def high_s(self) -> float:
        """A tenth of the times on silicon are expected above."""
        return self.result.high_ps * 1e-12

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all chips in a second."""
        return self.result.tokens / self.result.seconds

    @property
    def sentence(self) -> str:
        """As `v4sim step` begins."""
        from reports.answer import answer_sentence

        return answer_sentence(self.result)

    def to_pandas(self) -> pd.DataFrame:
        """A row an operation, in picoseconds, bytes and FLOP of one chip."""
        from reports.table import to_frame
        from reports.tables import operation_table

        return to_frame(operation_table(self.result))

    def launches(self) -> pd.DataFrame:
        """A row a launch."""
        from reports.table import to_frame
        from reports.tables import kernel_table

        return to_frame(kernel_table(self.result))

    def to_dict(self) -> dict[str, Any]:
        """As `v4sim step --json`."""
        from reports.step_json import answer_to_json

        return answer_to_json(self.result, self.asked.chip)

    def figure(self) -> go.Figure:
        """The roofline; where no operation has a place on it, the time by operation."""
        import plotly.graph_objects as go

        from reports.breakdown import StepBreakdown
        from reports.roofline_figure import roofline

        found = roofline(self.result, StepBreakdown(self.result))
        if found is not None:
            return go.Figure(found.figure)
        table = self.to_pandas()
        return _bars(table["operation"], table["critical_ps"] / 1e9, "ms", self.sentence)

    def save(self, folder: str | Path) -> list[Path]:
        """Write the page, tables and timeline of `v4sim step --out`."""
        from reports.bundle import write_report

        title = self.result.question.phase.capitalize()
        files = write_report(folder, [(title, self.result)], command="v4sim.step")
        return [files.page, *files.linked.values()]

    def _short(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        from reports.breakdown import StepBreakdown
        from reports.quantity import share_text
        from simulator.basis.units import format_time_ps

        groups = sorted(StepBreakdown(self.result).by_operation, key=lambda g: -g.critical_ps)
        rows = [
            (
                group.key,
                format_time_ps(group.critical_ps),
                share_text(group.critical_ps, self.result.total_ps),
            )
            for group in groups
        ]
        return ("operation", "time", "share"), rows


@dataclass(frozen=True, repr=False)
class CapacityAnswer(Answer):
    """What a deployment holds: `requests` at once, what binds, whether what was asked for fits."""

    capacity: Capacity
    verdict: Verdict

    @property
    def requests(self) -> float:
        """Requests at once, of all replicas."""
        return self.capacity.requests

    @property
    def fits(self) -> bool:
        """Whether the requests asked for (or one) fit."""
        return self.capacity.is_enough

    @property
    def sentence(self) -> str:
        """The verdict."""
        return self.verdict.sentence

    def to_pandas(self) -> pd.DataFrame:
        """Memory of a chip by term, in bytes."""
        import pandas as pd

        terms = [(t.name, t.nbytes, t.about) for t in self.capacity.terms]
        return pd.DataFrame(terms, columns=["term", "nbytes", "about"])

    def to_dict(self) -> dict[str, Any]:
        """As `v4sim capacity --json`."""
        from reports.capacity_text import capacity_to_json

        return capacity_to_json(self.capacity, self.verdict)

    def figure(self) -> go.Figure:
        """Memory of a chip by term."""
        table = self.to_pandas()
        return _bars(table["term"], table["nbytes"] / 2**30, "GiB of one chip", self.sentence)

    def _short(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        whole = self.capacity.question.chip.hbm_capacity_bytes
        rows = [
            (t.name, f"{t.nbytes / 2**30:,.2f}", f"{t.nbytes / whole:.1%}")
            for t in self.capacity.terms
        ]
        return ("term", "GiB", "share"), rows


@dataclass(frozen=True, repr=False)
class ServeAnswer(Answer):
    """A served scenario: latencies, rates, money; a row a request."""

    served: Served

    @property
    def sentence(self) -> str:
        """As `v4sim serve` begins."""
        from reports.serve_text import serve_sentence

        return serve_sentence(self.served)

    def to_pandas(self) -> pd.DataFrame:
        """A row a request; times in nanoseconds, -1 where not known."""
        from reports.serve_tables import request_table
        from reports.table import to_frame

        return to_frame(request_table(self.served))

    def to_dict(self) -> dict[str, Any]:
        """As `v4sim serve --json`."""
        from reports.serve_tables import serve_json

        return serve_json(self.served)

    def figure(self) -> go.Figure:
        """Times to the first token, as their distribution."""
        import plotly.graph_objects as go

        from reports.serve_bundle import serve_figures

        return go.Figure(next(iter(serve_figures(self.served).values())))

    def save(self, folder: str | Path) -> list[Path]:
        """Write the page and tables of `v4sim serve --out`."""
        from reports.serve_bundle import write_serve_report

        return write_serve_report(folder, self.served, "v4sim.serve")

    def _short(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        from reports.quantity import number_text

        waits = self.served.summary.latencies
        named = (
            ("time to first token, s", waits.ttft_s),
            ("time per output token, ms", waits.tpot_ms),
        )
        rows = [
            (name, *(number_text(x) for x in (spread.p50, spread.p90, spread.p99)))
            for name, spread in named
            if spread is not None
        ]
        return ("", "p50", "p90", "p99"), rows


@dataclass(frozen=True, repr=False)
class PlanAnswer(Answer):
    """The cheapest plan that meets the targets, the runner-up, and all that were simulated."""

    question: PlanQuestion
    result: SearchResult

    @property
    def sentence(self) -> str:
        """As `v4sim plan` begins."""
        from simulator.plan.verdict import plan_sentence

        return plan_sentence(self.question, self.result)

    @property
    def meets(self) -> bool:
        """Whether a plan was found."""
        return self.result.best is not None

    def to_pandas(self) -> pd.DataFrame:
        """A row a simulated plan."""
        import pandas as pd

        rows = [
            {
                "plan": out.label,
                "chips": out.chips,
                "meets": out.meets,
                "usd_per_hour": out.usd_per_hour,
                "usd_per_million_output": out.usd_per_million_output,
                "output_tokens_per_s": out.output_tokens_per_s,
                **{target.name: target.found for target in out.targets},
            }
            for out in self.result.tried
        ]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """As `v4sim plan --json`, without sensitivity."""
        from reports.plan_report import plan_to_json

        return plan_to_json(self.question, self.result, ())

    def figure(self) -> go.Figure:
        """Dollars a million output tokens of every simulated plan."""
        table = self.to_pandas().sort_values("usd_per_million_output")
        return _bars(table["plan"], table["usd_per_million_output"], "USD per M output tokens", "")

    def _short(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        tried = sorted(self.result.tried, key=lambda out: not out.meets)
        rows = [
            (out.label, "yes" if out.meets else "no", f"{out.usd_per_million_output:,.3f}")
            for out in tried
        ]
        return ("plan", "meets", "USD per M output tokens"), rows


@dataclass(frozen=True, repr=False)
class PrefixAnswer(Answer):
    """Ways of keeping the sliding window of cached prefixes, compared on a trace."""

    trace: str
    deployment: CacheDeployment
    rows: Sequence[PolicyRow]

    @property
    def sentence(self) -> str:
        """As `v4sim prefix compare` begins."""
        from reports.prefix_table import comparison_answer

        return comparison_answer(self.rows, self.trace)

    def to_pandas(self) -> pd.DataFrame:
        """A row a policy."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "policy": row.totals.policy,
                    "hit_fraction": row.hit_fraction,
                    "recomputed_fraction": row.recomputed_fraction,
                    "ttft_mean_s": row.ttft_mean_s,
                    "ttft_p99_s": row.ttft_p99_s,
                    "uncached_mean_s": row.uncached_mean_s,
                    "usd_per_m_input": row.usd_per_m_input,
                    "total_usd_per_m_input": row.total_usd_per_m_input,
                }
                for row in self.rows
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Figures of every policy, as in `v4sim prefix compare --json`."""
        from reports.prefix_table import comparison_json

        return {"trace": self.trace, "policies": comparison_json(self.rows)}

    def figure(self) -> go.Figure:
        """Mean time to the first token by policy."""
        table = self.to_pandas()
        return _bars(table["policy"], table["ttft_mean_s"], "mean TTFT, s", self.trace)

    def _short(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        rows = [
            (row.totals.policy, f"{row.hit_fraction:.2%}", f"{row.ttft_mean_s:.3f}")
            for row in self.rows
        ]
        return ("policy", "hit", "mean TTFT, s"), rows


@dataclass(frozen=True, repr=False)
class RunAnswer(Answer):
    """A small model, executed in formats: logits and picks against the exact run."""

    model: str
    results: Sequence[FormatsResult]

    @property
    def sentence(self) -> str:
        """How far the last run is from the exact one."""
        last = self.results[-1]
        return (
            f"{self.model} in {last.formats.name}: logits move by {last.logit_rms:.3g} of their "
            f"spread, {last.same_token:.1%} of the best tokens stay; stored values are within half "
            f"a step of their formats: {'yes' if last.holds else 'no'}"
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row a run."""
        import pandas as pd

        return pd.DataFrame([self._row(one) for one in self.results])

    def to_dict(self) -> dict[str, Any]:
        """Figures of every run."""
        return {"model": self.model, "runs": [self._row(one) for one in self.results]}

    def figure(self) -> go.Figure:
        """Relative error of the logits by run."""
        table = self.to_pandas()
        return _bars(
            table["formats"], table["logit_rms_over_spread"], "error of logits", self.model
        )

    def _row(self, one: FormatsResult) -> dict[str, Any]:
        return {
            "formats": one.formats.name,
            "logit_rms_over_spread": one.logit_rms,
            "holds": one.holds,
        }

    def _short(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        rows = [(one.formats.name, f"{one.logit_rms:.3g}", str(one.holds)) for one in self.results]
        return ("formats", "error of logits", "holds"), rows
