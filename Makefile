# Targets that need .venv create it first, with python3, make and a package registry.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.run
DEV    := $(VENV)/.dev

# Tests start hundreds of processes; without bytecode files each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test test-core test-browser coverage test-agents test-agents-all test-servers test-litellm test-proxy test-transformers test-frameworks test-install test-pythons test-lower-bounds test-lower-bounds-short dist check fix bench bench-check bench-peers audit fuzz fuzz-short fuzz-properties load soak node-sdks lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(DEV)  ## create .venv with the locked dependencies

$(RUN): requirements/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "dragoman needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) tools/setup_venv.py run
	@touch $@

$(DEV): $(RUN) requirements/dev.txt
	@$(PYTHON) tools/setup_venv.py dev
	@touch $@

run: $(RUN)  ## start the gateway on 127.0.0.1:8484; without settings the simulator answers
	@$(BIN)/dragoman serve

test: $(DEV)  ## run all tests
	$(BIN)/python -m pytest -n auto --dist worksteal

# The pure core: these tests open no sockets and start no processes.  The profile has fewer examples and cuts.
CORE_TESTS := $(addprefix tests/unit/,turn wire dialects checker toolcalls profiles) $(wildcard tests/unit/test_*.py)
test-core: $(DEV)  ## run the tests of the pure core alone, without sockets
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n auto $(CORE_TESTS)

test-browser: $(DEV)  ## run the tests of the inspector's page in Chromium (installs Debian's if it has the rights)
	$(BIN)/python -m tools.browser

# Each line has to run only once, hence the quick profile.  A tracer makes everything slower, so tests that
# measure time may fail here; `make test` is their judge, and the report appears all the same.
TESTS ?= tests
coverage: export COVERAGE_FILE = $(CURDIR)/$(VENV)/coverage
coverage: export HYPOTHESIS_PROFILE = quick
coverage: $(DEV)  ## run the tests and list uncovered lines (narrow it: TESTS=tests/unit)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal --timeout 600 $(TESTS) \
	  || echo "some tests failed; run them without coverage"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# pyright checks the installed package, so it needs the interpreter of $(VENV) first in PATH.
check: $(DEV)  ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright --verifytypes dragoman --ignoreexternal > $(VENV)/pyright.txt \
	  || { cat $(VENV)/pyright.txt; exit 1; }
	$(BIN)/lint-imports

fix: $(DEV)  ## format, and apply the linter's automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV)  ## measure the performance budgets, as ratios within one run (about 11 minutes)
	$(BIN)/python -m tools.bench

bench-check: $(DEV)  ## fail if a ratio is more than 25% worse than the stored one (about 6 minutes)
	$(BIN)/python -m tools.bench --quick --check

bench-peers: $(DEV)  ## measure the gateway beside others, and write docs/benchmarks.md (15 minutes; downloads them once)
	$(BIN)/python -m tools.bench.compare --install
	$(BIN)/python -m tools.bench.compare

SECONDS ?= 600
fuzz: $(DEV)  ## fuzz every parser of a peer's bytes, guided by coverage (SECONDS=600)
	$(BIN)/python -m tools.fuzz --seconds $(SECONDS)

fuzz-short: $(DEV)  ## the same for a few thousand inputs, the same ones each time
	$(BIN)/python -m tools.fuzz --runs 4000

load: $(DEV)  ## keep 1,000 verified streams open for five minutes, with faults and clients that leave; then an overload
	$(BIN)/python -m tools.load
	$(BIN)/python -m tools.load --overload

soak: $(DEV)  ## the same streams for half an hour; docs/images/soak.svg shows memory and descriptors
	$(BIN)/python -m tools.load --soak --streams 300

fuzz-properties: $(DEV)  ## run property tests with many more examples, corpus cases cut at every byte, all hostile requests (about ten minutes)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n auto tests/properties tests/test_corpus.py tests/test_half_calls.py tests/unit/toolcalls/test_parser_corpus.py tests/gateway/test_hostile_input.py --timeout 1200

NODE_SDKS := $(or $(DRAGOMAN_NODE_MODULES),$(HOME)/.cache/dragoman/node)
node-sdks:  ## download the npm SDKs, for one more test of the gateway
	@mkdir -p $(NODE_SDKS)
	npm install --no-audit --no-fund --silent --prefix $(NODE_SDKS) openai @anthropic-ai/sdk

test-agents: $(DEV)  ## run real coding agents with the gateway (downloads them once; needs Node)
	$(BIN)/python -m tools.agents

test-agents-all: $(DEV)  ## the same with the whole table of hard situations, also without the gateway (about an hour)
	$(BIN)/python -m tools.agents --all

test-servers: $(DEV)  ## run the gateway with llama.cpp's server (downloads it once)
	$(BIN)/python -m tools.servers llama_cpp

test-litellm: $(DEV)  ## run the gateway with LiteLLM's proxy (downloads it once: 750 MB)
	$(BIN)/python -m tools.servers litellm

test-proxy: $(DEV)  ## run the gateway behind proxy.py, a forward proxy (downloads it once: 1 MB)
	$(BIN)/python -m tools.servers proxy_py

test-transformers: $(DEV)  ## run the gateway with transformers' server (downloads it once: 1.2 GB; see docs/upstreams.md)
	$(BIN)/python -m tools.servers transformers

test-frameworks: $(DEV)  ## run Python frameworks with the gateway (downloads them once)
	$(BIN)/python -m tools.frameworks

dist: $(DEV)  ## build sdist and wheel into dist, and check what a package index would show
	$(BIN)/python -m tools.dist

test-install: $(DEV)  ## install the wheel into an empty environment and run every command
	$(BIN)/python -m tools.installation

test-pythons: $(DEV)  ## run the tests of core and gateway with every Python from 3.11 that this machine has
	$(BIN)/python -m tools.pythons $(CORE_TESTS) tests/unit/gateway tests/gateway

test-lower-bounds: $(DEV)  ## the same with the oldest dependencies that pyproject.toml allows
	$(BIN)/python -m tools.lower_bounds $(CORE_TESTS) tests/unit/gateway tests/gateway

# What CI runs: readers, writers and a gateway process, without the vendors' SDKs.
test-lower-bounds-short: $(DEV)  ## a part of them, in less than a minute
	$(BIN)/python -m tools.lower_bounds --short tests/unit/wire tests/unit/turn tests/faults/test_crashes.py --ignore tests/unit/turn/test_continuation.py

audit: $(DEV)  ## look for known vulnerabilities in the lock files, if the data can be downloaded
	$(BIN)/python -m tools.audit

LOCK := uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11
lock:  ## update the lock files in requirements (needs uv)
	$(LOCK) pyproject.toml requirements/run.in -o requirements/run.txt
	$(LOCK) --extra mcp --extra import --extra otel --extra redis -c requirements/run.txt pyproject.toml requirements/dev.in -o requirements/dev.txt
	$(LOCK) -c requirements/run.txt requirements/dist.in -o requirements/dist.txt
	$(LOCK) -c requirements/run.txt pyproject.toml requirements/fuzz.in -o requirements/fuzz.txt
	$(LOCK) -c requirements/run.txt requirements/audit.in -o requirements/audit.txt

clean:  ## remove what the targets created
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
