.DEFAULT_GOAL := help
.PHONY: help demo test check bench sabotage schema docs clean

WORKERS ?= 2
ARGS ?=
VENV := $(or $(UV_PROJECT_ENVIRONMENT),.venv)
BIN := $(VENV)/bin
STAMP := $(VENV)/.synced
export UV_PROJECT_ENVIRONMENT := $(VENV)

# The uv on PATH if it runs, else one of our own in .tools.
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv)
ifeq ($(UV),)
UV := .tools/bin/uv
endif

# Without a usable HOME, uv keeps its cache here.
ifeq ($(UV_CACHE_DIR)$(shell test -n "$$HOME" && test -w "$$HOME" && echo usable),)
export UV_CACHE_DIR := $(CURDIR)/.cache/uv
endif

# What the machine trusts is trusted: a company's proxy may sign with a certificate of its own.
ifneq ($(wildcard /etc/ssl/cert.pem /etc/ssl/certs/ca-*.crt /etc/pki/tls/cert.pem),)
export UV_SYSTEM_CERTS ?= 1
endif

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14

demo: $(STAMP) ## see a model on this machine answer in spite of a crash, and write a report (ARGS="Why is the sky blue?")
	@$(BIN)/retinue demo $(ARGS)
	@printf '\nA graph of agents: plan, search side by side, write, review (examples/report)\n\n'
	@cd examples/report && "$(abspath $(BIN))/retinue" run graph:report --input-json '{"topic": "how a lighthouse works"}'

test: $(STAMP) ## run the tests (ARGS="-k name", WORKERS=4)
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -q $(ARGS)

check: $(STAMP) ## check format, lint, types, layers and generated docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@if [ -f tools/reference.py ]; then $(BIN)/python tools/reference.py --check; fi

bench: $(STAMP) ## run the benchmarks
	@$(BIN)/python -m bench $(ARGS)

sabotage: $(STAMP) ## break the code on purpose and see that the tests notice
	@$(BIN)/python tools/sabotage.py $(ARGS)

schema: $(STAMP) ## regenerate the written-out database schema
	@$(BIN)/python tools/schema.py $(ARGS)

docs: $(STAMP) ## regenerate the reference from the code
	@$(BIN)/python tools/reference.py $(ARGS)

clean: ## remove the environment, caches and build output
	rm -rf .venv .tools .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist uv.lock
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml | $(UV)
	@echo "setting up $(VENV); the first time this takes a minute or less" >&2
	@$(UV) sync -q --group dev --all-extras
	@touch $@

.tools/bin/uv:
	@python3 -m venv .tools
	@.tools/bin/pip install -q --disable-pip-version-check uv
