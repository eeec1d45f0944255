# Every target does its own set-up: in a new clone `make demo` or `make test` is all it takes.
#   make demo     run examples/demo.py and say where its report is
#   make test     lint, format check, types, tests
#   make lint     the same without the tests
#   make format   let ruff rewrite what it can
#   make docs     build the documentation and say where it is
#   make notebook run docs/tutorial.ipynb again and store what it shows
#   make bench-X  run benchmarks/X.py          (arguments: make bench-X ARGS="...")
#   make venv     only the environment
#   make clean    remove the environment, caches and outputs

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PIP_FLAGS := -qq --disable-pip-version-check --no-input --progress-bar off
DEMO_REPORT := out/demo/report.html
ARGS ?=

# The first of these that really starts and is new enough (a version manager's shim may exist
# without a Python behind it). Override with: make PYTHON=/path/to/python test
CANDIDATES := python3.11 python3
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach p,$(CANDIDATES),$(shell $(p) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && echo $(p))))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo lint format test docs notebook clean FORCE

help:
	@sed -n 's/^#   make/make/p' Makefile

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt peers.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; tried: $(CANDIDATES)." \
	    "Install one, or name it: make PYTHON=... $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "[set-up 1/2] creating $(VENV) with $(PYTHON)"; \
	    $(PYTHON) -m venv --clear $(VENV); }
	@echo "[set-up 2/2] installing pwcf, its tools and its peers into $(VENV) (a minute or more)"
	@$(PY) -m pip install $(PIP_FLAGS) -c constraints.txt -e '.[dev,plots,progress]' || { \
	    echo "the installation failed; for all of pip's words: make PIP_FLAGS=-v venv" >&2; exit 1; }
	@$(PY) -m pip install $(PIP_FLAGS) --no-deps -r peers.txt || \
	    echo "the peers could not be installed: their attacks are not to be had, and the tests of them are skipped" >&2
	@touch $@
	@echo "[set-up] ready: $$($(PY) --version), torch $$($(PY) -c 'import torch; print(torch.__version__)')"

demo: $(STAMP)
	@rm -f $(DEMO_REPORT)
	$(PY) examples/demo.py $(ARGS)
	@test -f $(DEMO_REPORT) || { echo "the demo ended without writing $(DEMO_REPORT)" >&2; exit 1; }
	@echo "Report: $(CURDIR)/$(DEMO_REPORT)"

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

test: lint
	$(PY) -m pytest $(ARGS)

docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@echo "Documentation: $(CURDIR)/out/docs/index.html"

notebook: $(STAMP)
	$(PY) docs/notebook.py docs/tutorial.ipynb

bench-%: $(STAMP) FORCE
	@test -f benchmarks/$*.py || { echo "no benchmarks/$*.py; there are:" \
	    $(patsubst benchmarks/%.py,bench-%,$(wildcard benchmarks/[a-z]*.py)) >&2; exit 1; }
	$(PY) benchmarks/$*.py $(ARGS)

FORCE:

clean:
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(wildcard src tests examples benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
