"""The lowest versions that pyproject.toml allows are those that were tested, and a lock is kept."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent


def _locked(name: str) -> dict[str, str]:
    lines = (HERE / name).read_text().splitlines()
    return {
        _plain(package): version
        for package, _, version in (line.partition("==") for line in lines if "==" in line)
    }


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _floors() -> dict[str, str]:
    data = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())
    pairs = (wanted.split(">=") for wanted in data["project"]["dependencies"])
    return {_plain(package): floor for package, floor in pairs}


def test_every_floor_was_tested() -> None:
    lowest = _locked("lowest.txt")
    for package, floor in _floors().items():
        assert _numbers(lowest[package])[: len(_numbers(floor))] == _numbers(floor), package


def test_every_dependency_is_locked() -> None:
    newest = _locked("newest.txt")
    for package, floor in _floors().items():
        assert _numbers(newest[package]) >= _numbers(floor), package
