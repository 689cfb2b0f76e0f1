# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
READY := .venv/.ready

.PHONY: help setup test soak lint format demo bench bench-linear bench-quality bench-torch bench-surrogates bench-reading browser audit hashes clean
help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(READY)  ## make .venv and install everything, at the pinned versions

$(READY): pyproject.toml constraints.txt
	@echo "apmax: setting up .venv (once, a few minutes) …"
	@$(PYTHON) -c 'import sys; sys.exit("apmax needs Python 3.11 or newer; try make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) install --constraint constraints.txt --upgrade pip
	@$(PIP) install --constraint constraints.txt --group dev
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[all]'
	@touch $@

test: setup  ## run all tests, on every core
	@$(BIN)/python -m pytest -q -n auto

soak: setup  ## the long tests of reliability, with figures (2 hours; APMAX_SOAK_MINUTES=5 for less)
	@$(BIN)/python -m pytest -q -s tests/reliability -m soak

lint: setup  ## style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup  ## rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

demo: setup  ## train on real data, print the comparison, write demo-report/
	@$(BIN)/apmax demo

bench: setup  ## side-by-side ratios; exits with 1 if a bar is missed
	@$(BIN)/python -m benchmarks

bench-linear: setup  ## linear solvers beside PyTorch and LogisticRegression
	@$(BIN)/python -m benchmarks.linear

bench-quality: setup  ## test AP beside LogisticRegressionCV and boosted trees, on real data
	@$(BIN)/python -m benchmarks.quality

bench-torch: setup  ## a step of APLoss and ADAP beside cross-entropy and Adam
	@$(BIN)/python -m benchmarks.torch

bench-surrogates: setup  ## held-out AP of networks trained by either surrogate
	@$(BIN)/python -m benchmarks.surrogates

bench-reading: setup  ## reading LIBSVM and CSV beside scikit-learn and pandas
	@$(BIN)/python -m benchmarks.reading

browser:  ## install Chromium for the report's tests, where that is possible
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } \
	  >/dev/null 2>&1 || echo "apmax: no Chromium, so the report's browser tests are skipped"

audit: setup  ## compare what pip would install here with hashes.txt; downloads all of it
	@$(BIN)/python .ci/hashes.py check

hashes:  ## write hashes.txt for the versions of constraints.txt, from the package index
	@$(PYTHON) .ci/hashes.py write

clean:  ## remove .venv and everything generated
	rm -rf .venv dist demo-report .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
