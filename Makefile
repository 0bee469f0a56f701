# Two commands set everything up on a fresh machine: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all docs fuzz laws validation bench clean

demo: .venv/installed
	$(BIN)/v4sim demo --out out/demo

test: .venv/tests-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

# Everything of which `make test` runs a seeded tenth, too.
test-all: export V4SIM_WHOLE = 1
test-all: test

# Runs every command of the README and docs/ and fails where one prints something else, which it then
# has put in; makes the reference from the code, and the site under out/site.
docs: .venv/docs-installed
	$(BIN)/python -m tests.documents.reference
	$(BIN)/mkdocs build --quiet --strict --site-dir out/site
	$(BIN)/python -m tests.documents.console --check

# Mutated files and options of every command; each new fault is kept under tests/fuzz/found.
N ?= 1000
SEED ?= 1
fuzz: .venv/tests-installed
	$(BIN)/python -m tests.fuzz.run $(N) --seed $(SEED) --keep

# What moves demand moves time, for every field, engine and chip.
laws: .venv/tests-installed
	V4SIM_WHOLE=1 $(BIN)/python -m pytest -n 2 tests/laws

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

.venv/docs-installed: .venv/tests-installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

clean:
	rm -rf .venv out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
