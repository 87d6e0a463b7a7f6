# One way in. `make help` lists it; every target may be repeated.

VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CORES  := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Tests start real hubs and agents, and wait for them: one worker more than there are cores keeps those busy. Beyond eight
# they only wait for each other.
WORKERS := $(shell [ $(CORES) -gt 7 ] && echo 8 || echo $$(($(CORES) + 1)))
SUITES :=
CODE   := src tests examples benchmarks

.DEFAULT_GOAL := help
.PHONY: help demo test lint check bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-6s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo-installed ## run the bundled example over a grid of parameters and plot it
	@scripts/demo

test: $(VENV)/.dev-installed ## install what the tests need and run all of them (or SUITES="unit faults")
	@scripts/test-deps postgres sshd namespaces slurm gridengine strace podman docker python3.9 redis torch nni
	@scripts/test-suites $(BIN)/python $(WORKERS) $(SUITES)

lint: $(VENV)/.dev-installed ## format, lint, types
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/mypy --strict

check: lint ## the same, layers, unit tests
	@scripts/test-deps python3.9
	@scripts/test-suites $(BIN)/python $(WORKERS) unit

bench: $(VENV)/.bench-installed ## print the benchmark table (against xargs, GNU parallel, HyperQueue, Snakemake …)
	@scripts/test-deps parallel
	@$(BIN)/python -m benchmarks

clean: ## remove everything these targets made
	@scripts/demo --clean
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@scripts/make-venv $(VENV)

$(VENV)/.demo-installed: pyproject.toml | $(BIN)/python
	@echo "installing turnout into $(VENV)"
	@$(PIP) -e '.[plot]'
	@touch $@

$(VENV)/.dev-installed: pyproject.toml | $(BIN)/python
	@echo "installing turnout and its development tools into $(VENV)"
	@$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.bench-installed: $(VENV)/.dev-installed
	@$(PIP) hyperqueue
	@scripts/make-venv $(VENV)/snakemake && $(VENV)/snakemake/bin/python -m pip install --quiet --disable-pip-version-check snakemake
	@touch $@
