# make setup | run | test | faults | mutants | screenshots | pictures | still | lint | lock | clean. Needs Python 3.11+ and make; everything else is installed into .venv.
SHELL := /bin/sh
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PORT ?= 8000
export PORT
export OMP_NUM_THREADS ?= 1
# Installs what a lock file lists and nothing else; a file with another hash, or without one, stops it.
INSTALL := $(PIP) install --quiet --require-hashes --no-deps --only-binary :all: --requirement

.PHONY: setup setup-dev bytecode run test faults mutants lint lock clean screenshots pictures still
.DEFAULT_GOAL := setup

setup: $(VENV)/.ready static/node_modules/.ready
setup-dev: setup $(VENV)/.ready-dev static/node_modules/.ready-dev

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "No python3 was found. Install Python 3.11 or newer, then run make again."; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11 or newer is needed. Try: make PYTHON=/path/to/python3.11"; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
		echo "The environment could not be made. On Debian and Ubuntu install python3-venv; check that the disk is not full."; exit 1; }

# cpu where pip finds the CPU build of torch, else cuda: the package index has no CPU build for Linux (ADR 49).
# `make TORCH=cuda` decides by hand.
TORCH = $(shell $(PIP) install --quiet --dry-run --no-deps $$(grep -o '^torch[^ ]*' requirements-cpu.lock) >/dev/null 2>&1 \
	&& echo cpu || echo cuda)

$(VENV)/.ready: requirements.lock requirements-cpu.lock requirements-cuda.lock | $(VENV)/bin/python
	@echo "Installing Python packages (the first time takes some minutes) ..."
	@$(INSTALL) requirements.lock --requirement requirements-$(TORCH).lock && $(PIP) check >/dev/null || { \
		echo "Installing failed. Check the network and free disk space (about 2 GB, 6 GB with CUDA), then run make again."; \
		echo "If a hash does not match, the downloaded file is not the one that was locked: do not install it by hand."; exit 1; }
	@touch $@

$(VENV)/.ready-dev: requirements-dev.lock $(VENV)/.ready
	@$(INSTALL) requirements-dev.lock
	@touch $@

# npm comes from the system when there is one, else from a wheel.
static/node_modules/.ready: static/package-lock.json $(VENV)/.ready
	@command -v npm >/dev/null 2>&1 || $(INSTALL) requirements-npm.lock
	@PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci --omit=dev --no-fund --no-audit --loglevel=error --prefix static >/dev/null || { \
		echo "Installing the browser libraries failed. Check the network, then run make again."; exit 1; }
	@touch $@

# What tests look at pages with comes on top: npm installs both sorts anew, so the first stamp is made again.
static/node_modules/.ready-dev: static/package-lock.json static/node_modules/.ready
	@PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci --no-fund --no-audit --loglevel=error --prefix static >/dev/null || { \
		echo "Installing axe-core failed. Check the network, then run make again."; exit 1; }
	@touch static/node_modules/.ready $@

# Children may not write their bytecode; without it each of them would compile the judge's modules anew.
bytecode: setup
	-@$(BIN)/python -m compileall -q adaexplore_site judge memory search

run: bytecode
	@exec $(BIN)/python manage.py up

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy --no-error-summary adaexplore_site search judge memory

test: lint bytecode
	@$(BIN)/python -m tests.run

# Kills workers, broker and web server while searches run: two minutes, or FAULTS_MINUTES on each database.
faults: setup-dev
	@$(BIN)/python -m tests.faults

# Plants bugs in a seeded sample of functions and sees whether the tests notice: an hour, or as MUTANTS says
# ("--count 40 --minutes 120", "--paths judge/bench/sandboxing"). The first time it finds out which tests reach what, unless
# "--near" is given: then the tests run that lie near the changed file.
mutants: setup-dev
	@$(BIN)/python -m tests.mutants $(MUTANTS)

# Writes the lock files from pyproject.toml. Locked versions stay as far as it allows; `make lock UPGRADE=--upgrade` takes
# the newest. requirements-cpu.lock is written by hand.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links $(UPGRADE)
FOR_CUDA = /^[a-z]/ {torch = /^(torch=|cuda-|nvidia-)/ && !/^nvidia-ml-py=/}
lock: setup-dev
	cat requirements.lock requirements-cuda.lock >all.lock
	$(COMPILE) pyproject.toml --output-file all.lock
	awk '$(FOR_CUDA) torch' all.lock >requirements-cuda.lock
	awk '$(FOR_CUDA) !torch' all.lock >requirements.lock
	rm all.lock
	$(COMPILE) --group dev --constraint requirements.lock --output-file requirements-dev.lock
	$(COMPILE) --group npm --output-file requirements-npm.lock

screenshots: setup-dev
	$(BIN)/python -m tests.screenshots screenshots

# The few pictures that README.md and docs/ show.
pictures: setup-dev
	$(BIN)/python -m tests.screenshots docs/img --chosen

still: setup-dev
	STILL_MINUTES=$${STILL_MINUTES:-5} $(BIN)/python -m pytest -q -s tests/browser/test_still_view.py

clean:
	rm -rf $(VENV) static/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache screenshots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "Kept: .data (database, logs). Remove it by hand if you want to start over."
