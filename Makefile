# Guessable words; each target does all of its own set-up. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
PYTEST := $(BIN)/python -m pytest
NODE := web/node_modules/.installed
# What tests start would otherwise compile the whole program each time.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help run setup test test-all check bench bench-full bench-growth torture lake-spark fuzz oracle sample prices docs lock web web-check dist clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(CORE)  ## overview of this machine's Claude homes (or the built-in sample)
	@$(BIN)/recollect

setup: $(DEV)  ## virtual environment with every extra and the tools

test: $(DEV)  ## what any machine can run, in about four minutes; the last lines say what was left out
	$(PYTEST) -n auto --dist loadfile tests

# Browser tests run alone: while other tests run, a slow machine draws their frames too late.
test-all: $(DEV)  ## also PostgreSQL, killed programs, browser, and real clients and transcripts where variables name them
	$(PYTEST) -n auto --dist loadfile --all --ignore tests/browser tests
	$(PYTEST) -n 0 --all tests/browser

check: $(DEV)  ## ruff, mypy --strict, import-linter layers, generated docs up to date, size of the house
	$(BIN)/ruff check src tests tools bench docs/examples
	$(BIN)/ruff format --check src tests tools bench docs/examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/build_cli_reference.py --check
	$(BIN)/python tools/build_check_reference.py --check
	$(BIN)/python tools/build_aio_stub.py --check
	$(BIN)/python tools/build_api_reference.py --check
	$(BIN)/python tools/build_page_types.py --check
	$(BIN)/python tools/build_terminal_screens.py --check
	$(BIN)/python tools/build_price_table.py --check
	$(BIN)/python tools/size.py --check

bench: $(DEV)  ## the budgets of the design, measured as ratios on this machine
	$(BIN)/python -m bench --write

bench-full: $(DEV)  ## the same over a gigabyte of logs (about 20 minutes on two quiet cores)
	$(BIN)/python -m bench --full --write

bench-growth: $(DEV)  ## index and questions over homes of 100 MB to 5 GB (makes 6 GB of logs; half an hour)
	$(BIN)/python -m bench --growth --write

torture: $(DEV)  ## all of the kill, race and fault runs (minutes)
	RECOLLECT_TORTURE=1 $(PYTEST) -n 0 -s -p no:randomly --all --ignore tests/oracle tests

lake-spark: $(DEV)  ## sum the lake in Spark, a master and two workers on this machine (fetches PySpark; needs Java)
	test -d $(VENV)/spark/pyspark || $(PIP) install --target $(VENV)/spark 'pyspark>=4,<5'
	PYTHONPATH=$(VENV)/spark:. $(BIN)/python tools/lake_spark.py

fuzz: $(DEV)  ## coverage-guided fuzzing of reader and codec (needs atheris; FUZZ_SECONDS=60)
	$(PIP) install --require-hashes -r requirements/fuzz.lock
	$(BIN)/python tools/fuzz_codec.py

oracle: $(DEV)  ## our files against all real clients, and how often we agree (RECOLLECT_CLIENTS, RECOLLECT_AGENTS: directories of client programs)
	RECOLLECT_TORTURE=1 $(PYTEST) -n 0 --all tests/oracle
	$(BIN)/python -m tests.oracle.rates

sample: $(DEV)  ## regenerate the built-in sample home
	$(BIN)/python tools/build_sample_home.py

prices: $(DEV)  ## regenerate the price table from the installed genai-prices
	$(BIN)/python tools/build_price_table.py

docs: $(DEV)  ## regenerate the reference pages and the types of the page
	$(BIN)/python tools/build_cli_reference.py
	$(BIN)/python tools/build_check_reference.py
	$(BIN)/python tools/build_lake_reference.py
	$(BIN)/python tools/build_aio_stub.py
	$(BIN)/python tools/build_api_reference.py
	$(BIN)/python tools/build_page_types.py
	$(BIN)/python tools/build_terminal_screens.py

lock: $(DEV)  ## pin the dependencies again, with hashes and without addresses
	$(PIP) install uv
	tools/lock.sh $(BIN)/uv

web: $(NODE)  ## build the page into src/recollect/web/static (needs Node.js and npm)
	cd web && npm run --silent check && npm run --silent test && npm run --silent build

web-check: $(NODE)  ## types and component tests of the page, and that the built files match the source
	cd web && npm run --silent check && npm run --silent test
	@place=$$(mktemp -d) && (cd web && RECOLLECT_WEB_OUT=$$place/static RECOLLECT_FRAME_OUT=$$place/frame npm run --silent build) && \
	diff -r $$place/static src/recollect/web/static && diff -r $$place/frame src/recollect/share/export/frame && rm -r $$place && echo "the built page matches its source"

dist: $(DEV)  ## wheel and source distribution in dist/
	$(BIN)/python -m hatchling build --clean

clean:  ## remove everything the other targets created
	rm -rf $(VENV) web/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist

$(CORE): requirements/core.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements/core.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(DEV): requirements/dev.lock $(CORE)
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@

$(NODE): web/package-lock.json
	@cd web && npm install --no-save --no-audit --no-fund --silent
	@touch $@
