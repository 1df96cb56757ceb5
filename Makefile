# `make demo`, `make test` and `make paper` set up .venv from Python 3.11+, pip and make alone.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help demo check test test-reduced sanitize test-under-load coverage lint bench bench-network paper soak soak-cheating fuzz integrations docs dist lock clean
help:
	@echo "make demo    fit example data, by a hub and three parties as well; write out/demo.svg"
	@echo "make check   run the tests that are quick, in about a minute"
	@echo "make test    run all tests"
	@echo "make test-reduced  the numerical tests, as on a processor without vector units"
	@echo "make sanitize  the numerical tests with a kernel that checks its memory and arithmetic"
	@echo "make test-under-load  all tests, five times, next to busy processes; an hour"
	@echo "make coverage  all tests; which lines and branches they reach, into out/coverage"
	@echo "make lint    ruff and mypy"
	@echo "make bench   measure against scikit-learn and the paper, write out/*.json"
	@echo "make bench-network  the same over lines of 20 ms, and the hub; needs namespaces"
	@echo "make paper   compute the paper's figures and tables again, write out/paper/paper.html"
	@echo "make soak    kill processes and corrupt bytes at random; minutes"
	@echo "make soak-cheating  one party cheats, in thousands of ways; nobody may believe it; minutes"
	@echo "make fuzz    give hostile files and records to all that reads them; minutes"
	@echo "make integrations  install FLARE and Flower; runs with all their processes; minutes"
	@echo "make docs    build the site with Sphinx, from docs/ and the docstrings, into out/site"
	@echo "make dist    build wheel, sdist and SBOM into out/dist, twice, and check them; installs without a network"
	@echo "make lock    choose the exact versions of all dependencies again, with hashes, into locks/"
	@echo "make clean   remove .venv, caches and out/"

# The kernel is compiled here, if there is a C compiler. `make test LOCKED=1`, as the workflows do,
# takes the exact versions of locks/, each checked by its hash.
KERNEL := pyproject.toml setup.py $(wildcard src/securefedyj/kernel/*.[ch])
.venv/installed: $(KERNEL)
	@echo "Setting up .venv with securefedyj and the libraries that it needs: a minute or two."
	$(PYTHON) -m venv .venv
	$(PIP) install --editable .
	@$(BIN)/securefedyj --version
	@touch $@

.venv/ready: $(KERNEL)
	@echo "Setting up .venv with everything that tests and linters need: some minutes, and 1 GB."
	$(PYTHON) -m venv .venv
ifdef LOCKED
	$(PIP) install --require-hashes --requirement locks/build.txt --requirement locks/dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
else
	$(PIP) install --editable ".[dev]"
endif
	@$(BIN)/securefedyj --version
	@touch .venv/installed $@

demo: .venv/installed
	$(BIN)/securefedyj demo --output out

check: .venv/ready
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m "not processes and not mpyc and not slow"

test: .venv/ready
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

# The last bits of NumPy's exp and log1p differ between processors; no test may depend on them.
# Where nothing but integers is computed, there is nothing to look for.
NUMERICAL := tests/numerics tests/pooled tests/protocol tests/estimators tests/test_parameters.py \
	$(patsubst %,--ignore=tests/protocol/test_%.py,cheating forks verified_run resuming) \
	$(patsubst %,--ignore=tests/estimators/test_%.py,contract display)
test-reduced: .venv/ready
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.reduced_dispatch -m pytest -n auto --dist loadfile -m "not processes and not mpyc and not slow" $(NUMERICAL)

# Python itself is not built for sanitizers: they are loaded before it, and leaks are not looked for.
SANITIZED := out/sanitized
sanitize: .venv/ready
	rm -rf $(SANITIZED)
	SECUREFEDYJ_SANITIZE=1 $(PIP) install --no-deps --target $(SANITIZED) .
	LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(SANITIZED) OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -s tests/numerics tests/pooled

test-under-load: .venv/ready
	$(BIN)/python -m benchmarks.under_load

# That test lets a party write 2,000 bytes to each file, which is less than coverage writes.
coverage: .venv/ready
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --cov --cov-report term:skip-covered --cov-report html:out/coverage --deselect tests/network/test_faults.py::test_a_full_disk_loses_nothing_that_was_kept

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python -m benchmarks.pooled --output out/bench.json
	$(BIN)/python -m benchmarks.secure --output out/secure.json
	$(BIN)/python -m benchmarks.engines --output out/engines.json

bench-network: .venv/ready
	$(BIN)/python -m benchmarks.loopback
	$(BIN)/python -m benchmarks.network --output out/network.json
	$(BIN)/python -m benchmarks.relay --output out/relay.json

paper: .venv/ready
	$(BIN)/python -m experiments --output out/paper

soak: .venv/ready
	$(BIN)/python -m benchmarks.soak

soak-cheating: .venv/ready
	$(BIN)/python -m tests.engines.wrong_results --tries 10000
	$(BIN)/python -m tests.protocol.cheating --changes 2200 --cheats 600
	for game in box-cox standard robust quantiles mixed; do \
		$(BIN)/python -m tests.protocol.cheating --game $$game --changes 1200 || exit 1; \
	done

fuzz: .venv/ready
	$(BIN)/python -m benchmarks.fuzz.hostile --examples 2000

integrations: .venv/ready
	$(PIP) install --editable ".[flare,flower]" "flwr[simulation]"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/integrations
	$(BIN)/python -m tests.integrations.flare.poc
	$(BIN)/python -m tests.integrations.flower.deployment
	$(BIN)/python -m tests.integrations.flower.walk

docs: .venv/ready
	$(PIP) install --editable ".[docs]"
	rm -rf out/site
	$(BIN)/python docs/site/stage.py out/pages
	$(BIN)/python -m sphinx -W --keep-going -q -c docs/site -d out/doctrees out/pages out/site
	@echo "out/site/index.html"

dist:
	PYTHON=$(PYTHON) .ci/dist out/dist

# For every Python from 3.11 on and every system at once.
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header
lock: .venv/installed
	$(PIP) install uv
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' |\
		$(COMPILE) - --output-file locks/build.txt
	$(COMPILE) pyproject.toml --output-file locks/run.txt
	$(COMPILE) pyproject.toml --extra dev --output-file locks/dev.txt
	$(COMPILE) pyproject.toml --extra docs --output-file locks/docs.txt
	$(COMPILE) --group dist --output-file locks/dist.txt

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .mypy_cache .hypothesis
