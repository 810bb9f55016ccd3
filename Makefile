# `make demo` and `make test` are all a newcomer needs. The first command makes a virtual environment
# in .venv and installs into it; after that, commands start at once until pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST_PYTHON ?= python3.11
OLDEST := $(VENV)-oldest
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test slow covered mutants oldest lint bench docs dist clean

help:
	@echo "make demo    theory against networks for five learning rules, pictures in demo/"
	@echo "make test    style, types and tests"
	@echo "make slow    the long statistical tests"
	@echo "make covered  which tests run which line, for make mutants (10 minutes)"
	@echo "make mutants SAMPLE=60  random breaks of the code, and which of them the fast tests notice"
	@echo "make oldest  the tests with the oldest Python and the oldest packages that pyproject.toml allows, in $(OLDEST)"
	@echo "make lint    style and types only"
	@echo "make bench   the benchmarks, one after another"
	@echo "make docs    the documentation site in site/, its tutorials run on the way"
	@echo "make dist    wheel and source archive in dist/, tried in a clean environment"
	@echo "make clean   remove what these commands made, except $(VENV) and $(OLDEST)"

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "widefield needs Python 3.11 or newer; say which: make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "installing into $(VENV) (once) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/widefield demo

test: lint
	@$(BIN)/python -m pytest -m "not slow" -n 2

slow: $(INSTALLED)
	@$(BIN)/python -m pytest -m slow -n 2

# Tests that start processes of their own say nothing about lines and are left out. Two processes, since JAX dies after
# some hundred compilations in one.
COVERED := $(VENV)/covered
APART := site docs explore notebook examples sweep_killed faults imports
covered: $(INSTALLED)
	@mkdir -p $(COVERED)
	@COVERAGE_FILE=$(COVERED)/coverage $(BIN)/python -m pytest -m "not slow" -n 2 --junitxml=$(COVERED)/tests.xml \
		--cov=src/widefield --cov-context=test --cov-report= $(APART:%=--ignore=tests/test_%.py)

SAMPLE ?= 60
SEED ?= 0
mutants: $(INSTALLED)
	@$(BIN)/python .ci/mutants.py --sample $(SAMPLE) --seed $(SEED)

# A folder of its own, made anew each time: an upgrade of a package must not hide that its bound is too low.
oldest:
	@$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	@$(OLDEST)/bin/python .ci/oldest.py > $(OLDEST)/constraints.txt
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/constraints.txt \
		--editable '.[test]'
	@$(OLDEST)/bin/python -m pytest -m "not slow" -n 2

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

bench: $(INSTALLED)
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # with --quiet it would not see warnings
	@echo "written to site/index.html"

$(VENV)/.docs: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

dist: $(INSTALLED)
	@.ci/dist "$(BIN)/python"

clean:
	rm -rf demo dist site .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
