# One command everywhere: the README, CI and the hooks call these targets.
#   make demo      a running service with an example batch in it
#   make check     formatting, lint, types, rooms, OpenAPI drift, migrations, container and YAML lint
#   make test      the tests, with the coverage gates; the browser tests beside, in their own process
# PYTHON=python3.12 make …   uses another interpreter (3.11 or newer) for the environment.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# The tests start hundreds of processes: none is to compile the product anew.
unexport PYTHONDONTWRITEBYTECODE
# As service/__init__.py does for the program: several test processes share the cores.
export OPENBLAS_NUM_THREADS ?= 1

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_VERSION := 0.13.9

# Every line of code counts towards this; the rooms below must be covered whole.
COVERAGE_FLOOR := 85
COVERED_WHOLE := service/model/*,service/calibration/*,service/reports/*
# What covers them: their own tests, and those of the files that their columns are written to.
TRACED := tests/model tests/calibration tests/reports tests/jobs/test_exports.py

# They cover nothing that others do not (by `pytest --cov-context=test`), and would take twice as long.
UNTRACED := $(addprefix tests/model/,test_steps_by_hand.py test_pipes_by_hand.py test_piped_invariants.py \
  test_support_matrix.py test_all_sources.py test_piped_kernel.py test_kernel.py test_answer_parts.py \
  test_published_waits.py laws/test_doubling.py pipeline/test_engine.py pipeline/test_engine_invariants.py \
  pipeline/test_closed_peaks.py questions/test_solving_waiting.py recursion/test_oracle.py \
  recursion/test_similarity.py recursion/test_standing_by.py remedy/test_remedy_gains.py \
  slowest/test_points_alone.py slowest/test_sizes.py slowest/test_step_quadrature.py)
OTHERS := $(filter-out %__pycache__ tests/browser tests/model tests/calibration tests/reports,\
  $(patsubst %/,%,$(wildcard tests/*/)) $(wildcard tests/test_*.py))

RATE ?=
CURRENCY ?= EUR
PORT ?=
EXIT ?=
DATABASE_URL ?=

.PHONY: help setup check check-types check-others test test-traced test-others test-browser test-long coverage bench soak demo serve lock format openapi clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(STAMP) ## Make .venv from the hash-checked lock file

# The stamp is the last thing written: a half-made environment is made anew. Debian splits ensurepip
# off into python3-venv, and venv leaves a broken folder behind without it, hence the first checks.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Trainard needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	       "Name another one: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip; ensurepip.version()' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu:" \
	       "apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
# Of 9000 modules a fraction is ever imported, and compiled then: compiling all takes half a minute.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --require-hashes --only-binary :all: -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation -e .
	$(BIN)/python -m service.web.vega
	@touch $@

# Types take two thirds of the time: they use every core, and the rest runs beside.
check: $(STAMP) ## Everything that must be clean before a commit, without the tests
	@$(MAKE) --jobs=2 check-types check-others

check-types: $(STAMP)
	$(BIN)/mypy --num-workers $$(nproc)

check-others: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/trainard openapi --check
# What it compiles stays: each process of make test would compile all tests once more (24 s each).
	$(BIN)/pytest -qq --collect-only | tail -n 20
	$(BIN)/pytest -q tests/db/test_migrations.py
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/yamllint --strict .

# All at once: no core has nothing to do while the last tests of one of them run, or while tests wait
# for a browser or for processes that they kill, stop or start.
test: $(STAMP) ## All tests and the coverage gates
	@$(MAKE) --jobs=3 test-traced test-others test-browser

# Half of the tests wait for processes that they kill, stop or start: a process for each core, and two
# more. In the order of the files, since those with the fewest tests take longest and would come last.
PYTEST = $(BIN)/pytest -n $(shell expr $$(nproc) + 2) --maxprocesses=4 --dist loadfile --no-loadscope-reorder

# Tracing nearly doubles the time of a test (measured: 18 s become 32 s), so only the rooms whose every
# branch must be covered are traced here; `make coverage` traces all of them. They compute and wait for
# nothing, hence a process for each core.
test-traced: $(STAMP)
	$(BIN)/pytest -m "not long" -n $$(nproc) --maxprocesses=4 --dist loadfile --no-loadscope-reorder \
	  $(TRACED) $(addprefix --ignore=,$(UNTRACED)) \
	  --cov=service/model --cov=service/calibration --cov=service/reports --cov-report=
	$(BIN)/coverage report --include='$(COVERED_WHOLE)' --show-missing --skip-covered --fail-under=100

test-others: $(STAMP)
	$(PYTEST) -m "not long" $(UNTRACED) $(OTHERS) $(addprefix --ignore=,$(filter tests/jobs/%,$(TRACED)))

test-long: $(STAMP) ## What make test leaves out (tests/long_tests.py; some 20 minutes on 2 cores)
	$(PYTEST) -m long tests/api tests/calibration tests/cli tests/jobs tests/load tests/model

coverage: $(STAMP) ## All tests, traced: the gate of the other rooms (some 45 minutes on 2 cores)
	$(PYTEST) --ignore=tests/browser --cov=service --cov-report=
	$(BIN)/coverage report --skip-covered --fail-under=$(COVERAGE_FLOOR)

# Synchronous Playwright keeps an event loop running in its thread, in which no other test could
# start one: a process of its own.
test-browser: $(STAMP)
	$(BIN)/pytest tests/browser

bench: $(STAMP) ## Measure, and rewrite the results table in README.md
	$(BIN)/python -m tests.benchmarks.results_table README.md

# At the scale that the issues name: some 25 minutes, as root for the trial with a full disk.
soak: $(STAMP) ## Kill, stop and fill everything at full scale, and write .github/soak.md
	$(BIN)/python -m tests.soak .github/soak.md

demo: $(STAMP) ## Start the service, post the example batch, print its losses (EXIT=1 stops after that)
	@$(BIN)/trainard demo $(if $(RATE),--rate $(RATE) --currency $(CURRENCY)) \
	  $(if $(PORT),--port $(PORT)) $(if $(DATABASE_URL),--database-url $(DATABASE_URL)) \
	  $(if $(filter-out 0,$(EXIT)),--exit)

serve: $(STAMP) ## Start the service on loopback with data/trainard.db
	@$(BIN)/trainard serve $(if $(PORT),--port $(PORT)) \
	  $(if $(DATABASE_URL),--database-url $(DATABASE_URL))

format: $(STAMP) ## Format and apply the safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

openapi: $(STAMP) ## Write openapi/openapi.json anew
	$(BIN)/trainard openapi --write openapi/openapi.json

# uv resolves and hashes; installing needs only pip. The second file is what the image installs:
# the same pins without the development tools, ready to send traces. The third makes its wheel.
lock: ## Resolve the dependencies anew into the lock files
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	build/lock/bin/uv pip compile -q --upgrade --extra dev $(LOCK_OPTIONS) \
	  -o requirements.lock pyproject.toml
	build/lock/bin/uv pip compile -q -c requirements.lock --extra otel $(LOCK_OPTIONS) \
	  -o docker/requirements.lock pyproject.toml
	grep -o '"hatchling==[^"]*"' pyproject.toml | head -n 1 | tr -d '"' \
	  | build/lock/bin/uv pip compile -q -c requirements.lock $(LOCK_OPTIONS) -o docker/build.lock -

LOCK_OPTIONS := --generate-hashes --no-emit-index-url --no-emit-find-links \
  --python-version 3.11 --custom-compile-command "make lock"

clean: ## Remove what the targets above made, but not data/
	rm -rf $(VENV) build dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
