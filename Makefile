# Mnemolog: what people need, each with one line of help. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODEL := $(VENV)/.model
SUITE := .cache/conformance/installed.json

.DEFAULT_GOAL := help
.PHONY: help setup serve kafka test check test-faults bench lock clean

help: ## list these targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) $(MODEL) ## environment in .venv from the hash lock, and the default model

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Mnemolog needs Python 3.11 or newer; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(MODEL): $(STAMP)
	@$(BIN)/mnemolog models pull bge-small-en-v1.5 && touch $@ || echo "No model: search goes by words alone (bm25_only) until 'mnemolog models pull' succeeds" >&2

$(SUITE): $(STAMP) tests/conformance/package-lock.json
	$(BIN)/python -m tests.conformance.install

serve: setup ## MCP over HTTP on http://127.0.0.1:3000/mcp
	$(BIN)/mnemolog serve

kafka: $(STAMP) ## a real Kafka broker on 127.0.0.1:9092, in the foreground (needs Java 17 and Maven)
	$(BIN)/python -m mnemolog.infra.kafka.broker --with-parent

check: $(STAMP) ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: setup $(SUITE) check ## everything that has to hold before a change lands
	$(BIN)/python -m pytest -m "not faults" -n auto --maxprocesses=4 --dist=loadfile

test-faults: setup ## the long fault tests
	$(BIN)/python -m pytest -m faults

bench: setup ## measure side by side with what a user would pick instead
	$(BIN)/python -m benchmarks.run

lock: ## resolve pyproject.toml into requirements.lock (hashes, no index addresses)
	$(PYTHON) -m venv .cache/lock
	.cache/lock/bin/pip install --quiet uv
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra dev pyproject.toml -o requirements.lock

clean: ## remove the environment and caches of this checkout
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache
