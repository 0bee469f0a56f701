"""A page of costed steps: one HTML file that holds everything and loads nothing.

Question and answer first, then what was proved, then a section a step, the files beside the page,
and every assumption behind the numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from reports import rates
from reports.answer import basis_sentence, machine_text, proof_sentence
from reports.glossary import names_section
from reports.html_document import html_document
from reports.section import Section, step_section
from simulator.basis.assumptions import assumptions_of
from simulator.basis.atomic import write_text
from simulator.cost import critical_path
from simulator.cost.result import ProofLine, StepResult
from simulator.engine.default_engine import engine_text

_UNITS = (
    "Numbers are rounded to four digits for reading; the files hold exact integers. "
    "1 GB = 10⁹ bytes (traffic), 1 GiB = 2³⁰ bytes (memory held). A multiply-add is two FLOP. "
    "Times, bytes and FLOP are those of one chip (rank), the busiest."
)


def write_page(
    path: Path | str,
    steps: Sequence[tuple[str, StepResult]],
    *,
    proof: ProofLine | None = None,
    files: Mapping[str, Path | str] | None = None,
    command: str = "",
    more: Mapping[str, str] | None = None,
) -> None:
    """Write titled steps as one page. `files` are linked by label, relative to the page.

    `more`: whole sections after the steps, by name.
    """
    write_text(path, page_html(path, steps, proof=proof, files=files, command=command, more=more))


def page_html(
    path: Path | str,
    steps: Sequence[tuple[str, StepResult]],
    *,
    proof: ProofLine | None = None,
    files: Mapping[str, Path | str] | None = None,
    command: str = "",
    more: Mapping[str, str] | None = None,
) -> str:
    """The page as text; `path` is where it will stand, for links to files beside it."""
    assert steps, "a page needs at least one step"
    sections = [
        step_section(f"step{number}", title, result)
        for number, (title, result) in enumerate(steps, 1)
    ]
    below = {
        **{name.lower(): html for name, html in (more or {}).items()},
        "names": names_section([result for _, result in steps]),
        "files": _files(Path(path), files or {}),
        "assumptions": _assumptions(steps),
        "notes": _notes(steps),
    }
    body = "".join(
        [
            _header([result for _, result in steps], sections, proof, _contents(sections, below)),
            "<main>",
            *(section.html for section in sections),
            *below.values(),
            "</main>",
            _footer(command),
        ]
    )
    figures = [figure for section in sections for figure in section.figures]
    return html_document(_title(steps), body, figures)


def _title(steps: Sequence[tuple[str, StepResult]]) -> str:
    question = steps[0][1].question
    names = ", ".join(title for title, _ in steps)
    return f"{question.model} on {machine_text(question)}: {names}"


def _header(
    results: Sequence[StepResult],
    sections: Sequence[Section],
    proof: ProofLine | None,
    contents: str,
) -> str:
    """Each answer with what was costed; what several have in common stands once, below them."""
    bases = [f'<p class="basis">{escape(basis_sentence(result))}</p>' for result in results]
    if len(sections) == 1:
        answers = f"<h1>{escape(sections[0].sentence)}</h1>{bases[0]}"
    else:
        answers = "".join(
            f'<h1 class="several"><a href="#{section.id}">{escape(section.title)}</a>: '
            f"{escape(section.sentence)}</h1>{basis if basis not in bases[index + 1 :] else ''}"
            for index, (section, basis) in enumerate(zip(sections, bases, strict=True))
        )
    result = results[0]
    proved = ""
    if proof is not None:
        state = "" if proof.holds else "broken"
        proved = f'<p class="proof {state}">{escape(proof_sentence(proof))}</p>'
    return (
        f'<header><p class="kicker">v4sim · {escape(result.question.fidelity)} model · '
        f"engine {escape(engine_text(result.question.engine))}</p>{answers}"
        f"{proved}{contents}</header>"
    )


def _contents(sections: Sequence[Section], below: Mapping[str, str]) -> str:
    """Links to the steps and to what stands below them."""
    links = [(section.id, section.title) for section in sections]
    links += [(name, name.capitalize()) for name, html in below.items() if html]
    items = "".join(f'<a href="#{place}">{escape(title)}</a>' for place, title in links)
    return f'<nav class="contents">{items}</nav>'


def _files(page: Path, files: Mapping[str, Path | str]) -> str:
    if not files:
        return ""
    items = []
    for label, file in files.items():
        link = os.path.relpath(Path(file).resolve(), page.resolve().parent)
        hint = " – open it in ui.perfetto.dev" if link.endswith(".perfetto-trace") else ""
        items.append(
            f'<li>{escape(label)}: <a href="{quote(Path(link).as_posix())}">{escape(link)}</a>'
            f"{hint}</li>"
        )
    return f'<section id="files"><h3>Files</h3><ul>{"".join(items)}</ul></section>'


def _assumptions(steps: Sequence[tuple[str, StepResult]]) -> str:
    ours = assumptions_of([critical_path, rates])
    items = _once([(title, (*result.assumptions, *ours)) for title, result in steps])
    return f'<section id="assumptions"><h3>Assumptions</h3><ul>{items}</ul></section>'


def _notes(steps: Sequence[tuple[str, StepResult]]) -> str:
    items = _once([(title, result.notes) for title, result in steps])
    return f'<section id="notes"><h3>Notes</h3><ul>{items}</ul></section>' if items else ""


def _once(texts: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Each text once; those of some steps only name them."""
    titles: dict[str, list[str]] = {}
    for title, sentences in texts:
        for sentence in dict.fromkeys(sentences):
            titles.setdefault(sentence, []).append(title)
    items = []
    for sentence, of in titles.items():
        only = "" if len(of) == len(texts) else f" ({', '.join(of)} only)"
        items.append(f"<li>{escape(sentence[:1].upper() + sentence[1:] + only)}</li>")
    return "".join(items)


def _footer(command: str) -> str:
    made = f"<p>Made by <code>{escape(command)}</code></p>" if command else ""
    return f"<footer><p>{_UNITS}</p>{made}</footer>"
