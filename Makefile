# Works on a machine that has Python >= 3.11 with venv, and make. Everything else goes into .venv.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON = $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
  $(shell command -v $(name) >/dev/null 2>&1 && \
    $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))

.DEFAULT_GOAL := help
.PHONY: help install console console-test tools demo lint test bench soak clean

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

demo: install console ## A cluster, cars, the live heat map on Spark and the console; Ctrl-C ends it.
	$(BIN)/penstock demo

lint: install ## Style, types and architecture rules.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: install ## Lint, then all tests. Brings kcat and Chromium when it can.
	$(MAKE) --jobs=3 lint console-test tools
	$(BIN)/pytest -n 3 --no-loadscope-reorder

console-test: console
	$(BIN)/python scripts/console.py test

tools: install
	scripts/ensure-kcat
	scripts/ensure-chromium $(BIN)/python
	$(BIN)/python -m penstock.pipelines.sample_run --now

bench: install ## Side-by-side benchmarks; the table goes to docs/benchmarks.md.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement bench/requirements.txt
	$(BIN)/python -m bench

soak: install console ## The long form of the fault tests and simulations.
	scripts/ensure-kcat
	PENSTOCK_CRASHES=500 PENSTOCK_FAULT_SECONDS=600 PENSTOCK_LOAD_SECONDS=600 PENSTOCK_QUEUE_SECONDS=60 \
	  PENSTOCK_CONSUMED_KILLS=200 PENSTOCK_SDLE_KILLS=300 $(BIN)/pytest --timeout 0 tests/e2e
	PENSTOCK_SIM_SEEDS=100000 $(BIN)/pytest -n 2 --timeout 0 tests/sim -k "not mutations"
	PENSTOCK_STREAM_KILLS=50 PENSTOCK_HEATMAP_KILLS=20 PENSTOCK_SINK_KILLS=100 PENSTOCK_FLIGHTS_ROWS=10000000 \
	  PENSTOCK_FLIGHTS_KILLS=100 \
	  $(BIN)/pytest --timeout 0 tests/pipelines

clean: ## Remove .venv and what tools left behind.
	rm -rf console/node_modules src/penstock/gateway/console/assets
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
