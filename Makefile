# Evenhand: every task of the project, from a machine with Python 3.11, pip and make. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
LABEL_STUDIO_VENV := .label-studio/venv
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
LABEL_STUDIO_STAMP := $(LABEL_STUDIO_VENV)/.installed

# The first interpreter that is new enough; the lock files are made for 3.11. Override with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python; do \
	if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo "$$p"; break; fi; done)

# One BLAS thread: tests run side by side, and sums then come out the same on every machine.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
INSTALL = -m pip install --quiet --disable-pip-version-check --no-deps

define new-venv
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python 3.11 or newer with venv and pip found. Install it (Debian, Ubuntu: python3.11 python3.11-venv)" >&2; \
		echo "or name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; fi
	@test -x $(1)/bin/python || "$(PYTHON)" -m venv $(1)
endef

##@ Use
.PHONY: run
run: $(RUN_STAMP) ## set up in this folder and serve on 127.0.0.1:9090
	$(BIN)/evenhand serve

.PHONY: demo
demo: $(RUN_STAMP) $(LABEL_STUDIO_STAMP) ## a real Label Studio with 40 simulated annotators (DEMO_ARGS="--port 9091 --label-studio-port 8081")
	$(BIN)/python scripts/demo.py $(DEMO_ARGS)

##@ Develop
.PHONY: check
check: $(DEV_STAMP) ## the fast loop: format, lint, types, fast tests
	$(ONE_THREAD) $(BIN)/python scripts/run_tests.py static unit

.PHONY: format
format: $(DEV_STAMP) ## rewrite the source in the project's format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: test
test: $(DEV_STAMP) $(LABEL_STUDIO_STAMP) components ## everything, as CI runs it; PARTS="unit browser" runs some
	$(ONE_THREAD) $(BIN)/python scripts/run_tests.py $(PARTS)

.PHONY: components
components: $(DEV_STAMP) ## PostgreSQL, Chromium and Java for the tests (installed when run as root)
	@scripts/components.sh

.PHONY: bench
bench: $(DEV_STAMP) ## every benchmark in benchmarks/; BENCH_ARGS=--quick for the short ones
	for module in $$(grep -l '^if __name__' benchmarks/*.py | sed 's/[.]py$$//; s#/#.#g'); do \
		$(ONE_THREAD) $(BIN)/python -m "$$module" $(BENCH_ARGS); done

.PHONY: trials
trials: $(DEV_STAMP) $(LABEL_STUDIO_STAMP) components ## what is long and rare, for hours; TRIALS="fuzz --inputs 1000000" runs one
	$(ONE_THREAD) $(BIN)/python scripts/trials.py $(TRIALS)

.PHONY: results
results: $(DEV_STAMP) ## renew docs/results.md and its appendix; two hours at most, a restart resumes
	$(ONE_THREAD) $(BIN)/python -m benchmarks.results $(RESULTS_ARGS)

.PHONY: results-quick
results-quick: $(DEV_STAMP) ## renew docs/results.md alone, in less than eight minutes
	$(ONE_THREAD) $(BIN)/python -m benchmarks.results --quick $(RESULTS_ARGS)

.PHONY: docs
docs: $(DEV_STAMP) ## the documentation site, into site/; every warning is an error
	$(BIN)/mkdocs build --strict --quiet

##@ Release
.PHONY: lock
lock: ## renew the three lock files from pyproject.toml and requirements/
	@command -v "$${UV:-uv}" >/dev/null || { echo "make lock needs uv: pip install uv (or UV=/path/to/uv)" >&2; exit 1; }
	scripts/lock.sh

.PHONY: images
images: ## renew the digests of the images in docker/
	scripts/images.sh

.PHONY: release-check
release-check: $(DEV_STAMP) ## pins against known holes, and whether the list of holes is recent enough to release
	$(BIN)/python scripts/check_advisories.py --release

.PHONY: dist
dist: $(DEV_STAMP) ## source archive and wheel in dist/
	rm -rf build dist
	$(BIN)/python -m build --no-isolation --outdir dist .

.PHONY: clean
clean: ## remove caches and build results; environments and data stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './.venv/*' -not -path './.label-studio/*' -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## clean, and remove both virtual environments and Label Studio's cached data
	rm -rf $(VENV) .label-studio

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Environments. A stamp is newer than the lock file it was installed from, so a second run does nothing.
# The development lock holds the runtime lock, so it satisfies `make run` too.
$(RUN_STAMP): requirements.lock pyproject.toml
	$(call new-venv,$(VENV))
	@echo "Installing Evenhand into $(VENV) (a few minutes the first time)"
	$(BIN)/python $(INSTALL) --require-hashes -r requirements.lock
	$(BIN)/python $(INSTALL) --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): requirements-dev.lock pyproject.toml
	$(call new-venv,$(VENV))
	@echo "Installing Evenhand and its development tools into $(VENV) (a few minutes the first time)"
	$(BIN)/python $(INSTALL) --require-hashes -r requirements-dev.lock
	$(BIN)/python $(INSTALL) --no-build-isolation -e .
	@touch $@ $(RUN_STAMP)

$(LABEL_STUDIO_STAMP): requirements-label-studio.lock
	$(call new-venv,$(LABEL_STUDIO_VENV))
	@echo "Installing Label Studio into $(LABEL_STUDIO_VENV) (about 1 GB, some minutes the first time)"
	$(LABEL_STUDIO_VENV)/bin/python $(INSTALL) --require-hashes -r requirements-label-studio.lock
	@touch $@
