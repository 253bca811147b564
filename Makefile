# make run | explore | test | fuzz | lint | docs | bench | kernels | lock | clean; everything happens inside .venv, which `make install` builds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

# One BLAS thread a process: the work is spread over problems and processes, and results do not depend on the machine.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.PHONY: install run explore test fuzz lint format docs bench kernels lock clean

install: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@echo "Installing into $(VENV), once: a minute or so."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -qq --no-deps --no-build-isolation -e .
	touch $(STAMP)

run: install
	$(BIN)/privfunnel curve heart-failure --out out/heart-failure
	@if [ -t 0 ] && [ -t 1 ]; then echo; $(BIN)/privfunnel explore heart-failure; \
	else echo "Next: make explore opens a local page to choose a point and download the release."; fi

explore: install
	$(BIN)/privfunnel explore

# Without the slow ones, which .ci/run does not leave out: make test TESTS="-m ''" for all. Other options for pytest:
# TESTS="--cov --cov-report=term", which wants all that .ci/run installs, or TESTS="-k ledger".
TESTS ?=
test: install
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" --durations=10 $(TESTS)

# Damaged files and odd options, for longer than the tests do: make fuzz CASES=20000 SEED=7
CASES ?= 5000
SEED ?= 1
fuzz: install
	$(BIN)/python tests/fuzzing.py --cases $(CASES) --seed $(SEED)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, readable from the file system: site/index.html. A broken link or an unknown name is an error.
DOCS_STAMP := $(VENV)/.docs-installed
$(DOCS_STAMP): requirements/docs.txt $(STAMP)
	$(BIN)/python -m pip install -qq --require-hashes -r requirements/docs.txt
	touch $(DOCS_STAMP)

docs: $(DOCS_STAMP)
	rm -rf site
	$(BIN)/zensical build --strict --clean

bench: install
	$(BIN)/python -m benchmarks

# Forget all compiled kernels; the next run compiles those it needs (no edit makes this necessary, see src/privfunnel/infra/jit.py).
kernels:
	find src -name '*.nb[ic]' -delete

# The lock files hold exact versions and hashes for every supported Python, and no registry addresses. Extras stay in them: the
# pip of Python 3.11 takes `coverage[toml]` for another package than `coverage`, and would want the newest one.
LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-strip-extras --quiet
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) pyproject.toml --group dev --extra fast --extra tables --extra plots --extra explorer --extra audit \
	  --extra compare --extra ipopt --extra sdp --extra cluster -o requirements/dev.txt
	$(LOCK) pyproject.toml --extra spark --constraint requirements/dev.txt -o requirements/spark.txt
	$(LOCK) --group docs --constraint requirements/dev.txt -o requirements/docs.txt
	$(LOCK) requirements/torch.in --constraint requirements/dev.txt -o requirements/torch.txt

clean:
	rm -rf out build dist site .cache htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
	  .hypothesis spark-warehouse $(VENV)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
