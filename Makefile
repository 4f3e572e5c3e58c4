# Everything runs in .venv, which `make setup` builds. `make demo` and `make test` call it themselves.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One test process per core, each with one thread of its own.
WORKERS ?= 2

.PHONY: help setup demo test check lint exactness bench drafters monitoring clean

help:
	@echo "make setup      build .venv and bring the built-in model"
	@echo "make demo       answer a few prompts plainly and speculatively"
	@echo "make test       run all tests"
	@echo "make check      formatting, lint, types, architecture and unit tests"
	@echo "make exactness  the full matrix: every drafter, gamma, order and number of rows; goes on in out/ after a stop"
	@echo "make bench      measure speculative against plain decoding, with a report in out/"
	@echo "make drafters GSM8K=gsm8k_train.jsonl"
	@echo "                train the drafters that ship, in out/drafters; goes on after a stop, sizes are variables"
	@echo "make monitoring check dashboard and alerts with promtool and a real Prometheus, which have to be installed"
	@echo "make clean      remove .venv and caches"

setup: $(STAMP)
	@$(BIN)/paradraft models pull smollm2-135m
	@$(BIN)/paradraft models pull mt-bench

$(STAMP): pyproject.toml constraints.txt $(wildcard native/*.txt native/include/* native/src/* native/src/*/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/paradraft demo

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

check: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal tests/architecture tests/unit

lint: $(STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

exactness: setup
	$(BIN)/paradraft exactness --json out/exactness.json

bench: setup
	@mkdir -p out
	$(BIN)/paradraft bench --arms plain,fixed,adaptive --json out/bench.json --html out/bench.html

drafters: setup
	@PARADRAFT=$(BIN)/paradraft GSM8K=$(GSM8K) recipes/smollm2-135m.sh

monitoring: $(STAMP)
	$(BIN)/python deploy/grafana/build.py --check
	$(BIN)/python deploy/check.py rules
	$(BIN)/python deploy/check.py dashboard

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache
