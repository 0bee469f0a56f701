# Two commands set everything up on a fresh machine: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test validation bench clean

demo: .venv/installed
	$(BIN)/v4sim demo --out out/demo

test: .venv/tests-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

# Cross-validates all constants and writes tests/validation/REPORT.md.
validation: .venv/tests-installed
	$(BIN)/python -m tests.validation.report

# Prints speeds: pairs and ratios, wall times, peak memory.
bench: .venv/tests-installed
	$(BIN)/python -m tests.bench.run

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/tests-installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch .venv/installed $@

clean:
	rm -rf .venv out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
