.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format types fuzz sparkfuzz soak takeovers tpch bench lock clean

BIN := .venv/bin
READY := .venv/.ready

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from the lock and fetch Spark's packages; needs nothing but Python 3.11 or newer
	@:

$(READY): pyproject.toml requirements.lock scripts/setup.sh
	@scripts/setup.sh $(READY)

demo: setup ## run the demonstration
	@$(BIN)/trickle demo

test: setup ## run every check: lint, format, imports, types, tests
	@scripts/check.sh lint types tests

lint: setup ## check style, format and the directions of imports
	@scripts/check.sh lint

types: setup ## check the types
	@scripts/check.sh types

format: setup ## rewrite the code in the common format
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format .

fuzz: setup ## run the laws on many more random queries, for minutes
	@$(BIN)/pytest -m long tests/laws -s

sparkfuzz: setup ## keep stream tables of random queries on Spark, 3,000 refreshes
	@$(BIN)/pytest -m long tests/fuzz -s

soak: setup ## run the scheduler for 15 minutes beside four writers, and look whether every table is right; SOAK_MINUTES=2
	@$(BIN)/pytest -m long tests/scheduler/test_soak.py -s

takeovers: setup ## kill and stop one of two schedulers 200 times; TAKEOVERS=20
	@$(BIN)/pytest -m long tests/scheduler/test_takeover.py -s

SF ?= 0.01
CYCLES ?= 5
QUERIES ?=
tpch: setup ## run the TPC-H-derived suite; SF=1 sets the scale factor, CYCLES=5 the cycles, QUERIES="q03 q18" only some
	@TPCH_SF=$(SF) TPCH_CYCLES=$(CYCLES) TPCH_QUERIES="$(QUERIES)" TPCH_DATA=artifacts/tpch \
		$(BIN)/pytest tests/tpch --log-cli-level=INFO --log-disable=py4j.clientserver

bench: setup ## measure refreshes against plain Spark: TPC-H at scale factor 1, single shapes, latency, endurance; about an hour
	@$(BIN)/trickle bench tpch --out artifacts/bench/tpch
	@$(BIN)/trickle bench ladder --out artifacts/bench/ladder
	@$(BIN)/trickle bench latency --out artifacts/bench/latency
	@$(BIN)/trickle bench endurance --out artifacts/bench/endurance

lock: ## choose the newest allowed versions and write requirements.lock
	@scripts/lock.sh

clean: ## remove the environment and all caches; tables stay
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build artifacts
