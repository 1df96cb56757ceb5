# Two commands: `make demo` and `make test`. Both set up .venv from Python 3.11+, pip and make alone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test lint bench soak clean
help:
	@echo "make demo    fit the embedded example, write out/demo.png"
	@echo "make test    run all tests"
	@echo "make lint    ruff and mypy"
	@echo "make bench   measure against scikit-learn and the paper, write out/*.json"
	@echo "make soak    kill processes and spoil bytes at random; minutes"
	@echo "make clean   remove .venv, caches and out/"

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: .venv/ready
	$(BIN)/securefedyj demo --output out

test: .venv/ready
	$(BIN)/python -m pytest -n auto

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python -m benchmarks.pooled --output out/bench.json
	$(BIN)/python -m benchmarks.secure --output out/secure.json

soak: .venv/ready
	$(BIN)/python -m benchmarks.soak

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .mypy_cache .hypothesis
