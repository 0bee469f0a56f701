"""Every command of the README and of docs/ prints what stands below it.

A seeded tenth of the sections runs in `make test`, those marked long in `make test-all` alone.
"""

import pytest

from tests.documents.console import Section, differences, documents, masked, sections
from tests.sampling import WHOLE, tenth

SECTIONS = [section for path in documents() for section in sections(path)]


@pytest.mark.parametrize(
    "section",
    tenth([section for section in SECTIONS if WHOLE or not section.is_long], 3),
    ids=lambda section: section.name,
)
def test_commands_print_what_the_document_says(section: Section) -> None:
    found = differences(section)
    assert not found, "'make docs' writes it anew:\n\n" + "\n\n".join(found)


def test_the_readme_is_short_and_has_commands() -> None:
    (readme, *pages) = documents()
    assert len(readme.read_text().splitlines()) <= 200
    assert len(sections(readme)) >= 3
    assert {"tutorial.md", "concepts.md", "reference.md", "validation.md"} <= {
        page.name for page in pages
    }


def test_no_document_names_a_folder_of_one_machine() -> None:
    for path in documents():
        text = path.read_text()
        assert masked(text) == text.replace("v4sim 0.1.0", "v4sim #"), path


def test_masks_hide_what_differs_by_run_alone() -> None:
    assert masked("wrote /tmp/abc/x.json") == masked("wrote /tmp/def/y.json")
    assert masked("takes 17.84 ms") == "takes 17.84 ms"
    assert masked("v4sim 0.1.0") == masked("v4sim 0.2.0")


def test_the_reference_is_made_from_the_code() -> None:
    from tests.documents.reference import PAGE, reference

    assert PAGE.read_text() == reference(), "'make docs' writes it anew"
