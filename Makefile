# Works on a machine that has Python >= 3.11 with venv, and make. Everything else goes into .venv.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON = $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
  $(shell command -v $(name) >/dev/null 2>&1 && \
    $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))

# Containers often forbid bytecode. Here hundreds of processes import the same modules, and each would compile them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install console console-test collected tools archive demo lint check test flaky bench soak clean

# How many processes share the tests: most of them wait for something.
PROCESSES ?= 4
PYTEST = $(BIN)/pytest -n $(PROCESSES) --no-loadscope-reorder
# The rings whose tests need nothing but Python: they come first, see tests/conftest.py.
QUICK_RINGS := tests/sim tests/unit tests/scripts

help: ## Show this list.
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

install: $(STAMP) ## Install Penstock and what its tests need into .venv.

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: Penstock needs Python 3.11 or newer, and none was found" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "make: $(PYTHON) has no working venv module (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

console: install ## Build the web console, if its sources have changed. Brings Node.js when it has to.
	$(BIN)/python scripts/console.py build

demo: install console archive ## A cluster, cars, the live heat map on Spark and the console; Ctrl-C ends it.
	$(BIN)/penstock demo

lint: install ## Style, types and architecture rules.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: install ## Lint, types, and the tests that need nothing but Python: under two minutes.
	$(MAKE) lint
	PENSTOCK_SIM_SECONDS=20 $(PYTEST) $(QUICK_RINGS)

ifdef T
test: install $(if $(filter-out $(QUICK_RINGS:=/%),$(T)),console tools) ## All tests, or those in T=tests/…
	$(BIN)/pytest $(T)
else
test: install
	$(MAKE) --jobs=4 lint console-test tools collected
	$(PYTEST) tests
endif

# A test file that cannot be imported is told first; and each file is compiled once, not by every process.
collected: install
	@mkdir -p build
	@$(BIN)/pytest --collect-only --quiet tests > build/collected || { cat build/collected; exit 1; }

flaky: install console tools ## All tests or T=tests/… N times under disturbance; lists what failed how often.
	$(BIN)/python -m tests.support.flaky --rounds $(or $(N),20) --processes $(PROCESSES) $(T)

console-test: console
	$(BIN)/python scripts/console.py test

tools: install archive
	scripts/ensure-kcat
	scripts/ensure-chromium $(BIN)/python

# Spark starts faster with an archive of its classes, and does without one where none can be made.
archive: install
	@$(BIN)/python -m penstock.pipelines.sample_run --now || echo "no archive of Spark's classes: Spark starts slower"

bench: install ## Side-by-side benchmarks; the table goes to docs/benchmarks.md.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement bench/requirements.txt
	$(BIN)/python -m bench

soak: install console archive ## The long form of the fault tests and simulations.
	scripts/ensure-kcat
	PENSTOCK_CRASHES=500 PENSTOCK_FAULT_SECONDS=600 PENSTOCK_LOAD_SECONDS=600 PENSTOCK_QUEUE_SECONDS=60 \
	  PENSTOCK_CONSUMED_KILLS=200 PENSTOCK_PUBSUB_KILLS=300 PENSTOCK_SCHEMA_EXAMPLES=100 PENSTOCK_LIVES=100 $(BIN)/pytest --timeout 0 tests/e2e
	PENSTOCK_SIM_SEEDS=100000 $(BIN)/pytest -n 2 --timeout 0 tests/sim -k "not mutations"
	PENSTOCK_EXAMPLES=2000 $(BIN)/pytest -n 2 --timeout 0 tests/unit -m hypothesis
	PENSTOCK_STREAM_KILLS=50 PENSTOCK_HEATMAP_KILLS=20 PENSTOCK_SINK_KILLS=100 PENSTOCK_FLIGHTS_ROWS=10000000 \
	  PENSTOCK_FLIGHTS_KILLS=100 \
	  $(BIN)/pytest --timeout 0 tests/pipelines

clean: ## Remove .venv and what tools left behind.
	rm -rf console/node_modules src/penstock/gateway/console/assets
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
