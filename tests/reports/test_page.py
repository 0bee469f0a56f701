"""The page holds everything, loads nothing, and states the numbers of the records."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from reports.answer import answer_sentence, proof_sentence
from reports.page import page_html, write_page
from simulator.cost.result import StepResult
from tests.reports.factory import make_kernel, make_memory, make_proof, make_result, make_step

STEPS = [
    ("Decode", make_step()),
    ("Prefill", make_step(phase="prefill", batch=4, context=0, new_tokens=8192)),
]


class _Reader(HTMLParser):
    """Attributes that could load something, ids, balance of elements, and scripts by position."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "link", "img", "input"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                self.links.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.text).append(data)


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def html() -> str:
    files = {"Launches": Path("out/decode launches.csv"), "Timeline": "out/t.perfetto-trace"}
    return page_html("out/report.html", STEPS, proof=make_proof(), files=files, command="v4sim <x>")


def _scopes(result: StepResult) -> set[str]:
    return {kernel.scope for kernel in result.kernels}


def _figures(reader: _Reader) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(reader.scripts[0])
    return figures


def test_it_is_well_formed_and_loads_nothing(html: str) -> None:
    reader = _read(html)
    assert {name for _, name, _ in reader.links} == {"href"}
    assert {tag for tag, _, _ in reader.links} == {"a"}
    assert not any("//" in target for _, _, target in reader.links)
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html


def test_it_links_its_sections_and_files(html: str) -> None:
    reader = _read(html)
    targets = [target for _, _, target in reader.links]
    assert targets == [
        *("#step1", "#step2"),
        *("#step1", "#step2", "#names", "#files", "#assumptions", "#notes"),
        *("#names", "#names"),
        *("decode%20launches.csv", "t.perfetto-trace"),
    ]
    assert {target[1:] for target in targets if target.startswith("#")} <= set(reader.ids)
    assert len(set(reader.ids)) == len(reader.ids)
    assert "open it in ui.perfetto.dev" in html


def test_it_states_question_answer_and_proof(html: str) -> None:
    text = unescape(html)
    for _, result in STEPS:
        assert answer_sentence(result) in text
        for sentence in (*result.assumptions, *result.notes):
            assert sentence[1:] in text
    assert proof_sentence(make_proof()) in text
    assert "v4sim &lt;x&gt;" in html


def test_assumptions_stand_once(html: str) -> None:
    text = "".join(_read(html).text)
    assert text.count("no rank is late") == 1
    assert "A launch waits for the one that ended last" in text


def test_an_assumption_of_one_step_names_it() -> None:
    one = replace(STEPS[0][1], assumptions=("only here.",))
    text = page_html("r.html", [("A", one), ("B", STEPS[1][1])])
    assert "Only here. (A only)" in text


def test_figures_have_places_and_true_numbers(html: str) -> None:
    reader = _read(html)
    figures = _figures(reader)
    assert set(figures) <= set(reader.ids)
    assert set(figures) == {
        f"step{step}-{name}" for step in (1, 2) for name in ("roofline", "bandwidth")
    }
    result = STEPS[0][1]
    traces = figures["step1-bandwidth"]["data"]
    exact, mean, peak = (
        next(trace for trace in traces if trace.get("name", "").startswith(name))
        for name in ("each launch", "mean", "peak")
    )
    lengths = [b - a for a, b in zip(exact["x"], exact["x"][1:], strict=False)]
    moved = sum(rate * length for rate, length in zip(exact["y"], lengths, strict=False))
    assert moved == pytest.approx(sum(k.dram_bytes for k in result.kernels), rel=1e-6)
    assert peak["y"] == [4_800_000_000_000] * 2
    starts = {min(k.start_ps for k in result.kernels if k.scope == s) for s in _scopes(result)}
    assert mean["x"] == [time / 1e12 for time in sorted({0, result.total_ps, *starts})]


def test_every_operation_is_in_the_table(html: str) -> None:
    section = html[html.index('id="step1"') : html.index('id="step2"')]
    names = re.findall(r"<tr><td[^>]*>([^<]+)</td>", section)
    assert set(names) >= {kernel.name for kernel in STEPS[0][1].kernels}
    assert ">1,136</td>" in section  # launches of the step


def test_a_view_shows_layers_or_launches(html: str) -> None:
    figure = html[html.index('id="step1-bandwidth"') : html.index('id="step1-operations"')]
    views = re.split('<div class="view"', figure)[1:]
    assert len(views) == 6
    assert [" hidden>" in view[:60] for view in views] == [False, *[True] * 5]
    assert "mean of each layer" in views[0]
    assert "each launch" not in views[0]
    assert all("each launch" in view for view in views[1:])
    for trace in _figures(_read(html))["step1-bandwidth"]["data"]:
        assert trace.get("visible", True) == (trace.get("meta") != "launches")


def test_names_are_explained_where_they_stand_and_once_below(html: str) -> None:
    text = unescape(html)
    assert 'title="what experts_down does"' in text
    assert text.count("<dt>experts_down</dt><dd>what experts_down does</dd>") == 1
    assert text.count("<dt>c4 compressor rows</dt>") == 1
    assert "state: state" not in text
    assert text.count("<dt>heavily compressed (HCA)</dt>") == 1


def test_it_says_what_was_costed_once_for_equal_steps(html: str) -> None:
    assert html.count('class="basis"') == 1
    assert "experts in fp4, index keys in fp8" in html
    other = replace(STEPS[1][1], stored_expert_dtype="fp8")
    assert page_html("r.html", [STEPS[0], ("B", other)]).count('class="basis"') == 2


def test_it_survives_a_step_without_launches() -> None:
    for total_ps in (0, 5):
        reader = _read(page_html("r.html", [("Empty", make_result(total_ps=total_ps))]))
        text = "".join(reader.text)
        assert "V4-Flash" in text
        assert "golden" not in text
        assert "checked" not in text


def test_names_cannot_break_out() -> None:
    name = "</script><b>&"
    kernels = [make_kernel(name, 0, 10**6), make_kernel("b", 10**6, 2 * 10**6, kind="<i>")]
    html = page_html("r.html", [(name, make_result(*kernels))])
    reader = _read(html)
    assert "<b>&" not in html.replace("\\u003cb>&", "")
    assert _figures(reader)


def test_broken_proofs_and_full_memories_alarm() -> None:
    result = replace(STEPS[0][1], memory=make_memory(capacity_bytes=40_000_000_000))
    html = page_html("r.html", [("Decode", result)], proof=make_proof(logits_difference=1.0))
    assert 'class="proof broken"' in html
    over = result.memory.used_bytes - 40_000_000_000
    assert f"({over:,} B)" in html
    assert "Over capacity by" in html


def test_it_is_written_whole(tmp_path: Path) -> None:
    write_page(tmp_path / "r.html", STEPS[:1])
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</body></html>\n")
    assert len(text) < 2_000_000
