"""Files and folders that the documents name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("simulator", "hwmodels", "workloads", "reports", "tests")


def expanded(name: str) -> list[str]:
    """`a/{b,c}/` as both of its names."""
    found = re.fullmatch(r"(.*)\{(.+)\}(.*)", name)
    return [found[1] + part + found[3] for part in found[2].split(",")] if found else [name]


@pytest.mark.parametrize(
    "document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/concepts.md"]
)
def test_named_paths_exist(document: str) -> None:
    quoted = re.findall(r"`([^`\s]+)`", (ROOT / document).read_text())
    named = [n for n in quoted if n.split("/")[0] in FOLDERS and "/" in n and "<" not in n]
    assert len(named) > 3
    missing = [name for own in named for name in expanded(own) if not (ROOT / name).exists()]
    assert not missing
