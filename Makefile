# The study in one command. Needs Python 3.11 or newer, make and a C compiler; the rest comes from a hashed lock.
#
#   make study                 the environment, then the whole study
#   make study ARGS="..."      with arguments for snakemake: ARGS=-n, ARGS="--configfile config/smoke.yaml"
#   make study EXTRAS=slurm    with the packages of an extra in pyproject.toml: ctk, slurm, peers, ledger, witness
#   make test                  the environment and the test tools, then pytest; ARGS="-k loop" goes to pytest
#   make lint                  ruff, snakefmt, mypy, hadolint, snakemake --lint
#   make reference             every committed table and figure drawn again from the committed records
#   make lock                  requirements/*.txt from pyproject.toml; ARGS=--upgrade takes the newest releases
#   make wheels                the locked packages in wheels/, for a machine without a network
#   make clean                 removes the environment, the caches and Snakemake's notes; keeps results and wheels

PYTHON ?= python3
ARGS ?=
EXTRAS ?=
# Of `make wheels`: which lock, and the Python and platform of the machine without a network.
LOCK ?= slurm
PYTHON_VERSION ?= $(shell $(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
PLATFORM ?= manylinux_2_28_$(shell uname -m)

BIN := .venv/bin
# Each lock holds the default dependencies too, in the same versions: one installs over another without a change.
LOCKS = run $(EXTRAS)

export PYTHON
# A Python asked for by name remakes an environment of another version; the default never does.
export PYTHON_ASKED := $(filter-out file,$(origin PYTHON))
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := study
.NOTPARALLEL:
.PHONY: study test lint reference environment lock wheels clean

# What a killed run left half done is done again, without a further argument. A profile in ARGS takes the default's place.
study: environment
	$(BIN)/snakemake --cores 1 --rerun-incomplete \
	  $(if $(findstring profile,$(ARGS)),,--workflow-profile workflow/profiles/default) $(ARGS)

reference: environment
	$(BIN)/snakemake --cores 1 --rerun-incomplete reference $(ARGS)

test: LOCKS += test
test: environment
	$(BIN)/python -m pytest $(ARGS)

lint: LOCKS += test
lint: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile
	$(BIN)/snakemake --lint

environment:
	@sh scripts/environment.sh $(LOCKS)

# run comes first, and the others hold to its versions. --no-config: nothing of the maintainer's machine enters a lock.
lock: LOCKS += test
lock: environment
	@set -e; for extra in '' ctk ledger peers slurm test witness; do \
	  echo "requirements/$${extra:-run}.txt"; \
	  $(BIN)/uv --no-config pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	    --fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links \
	    --custom-compile-command "make lock" $(ARGS) \
	    $${extra:+--extra $$extra --constraint requirements/run.txt} -o "requirements/$${extra:-run}.txt"; \
	done

wheels: environment
	@$(BIN)/python scripts/collect_wheels.py requirements/$(LOCK).txt wheels \
	  --python-version $(PYTHON_VERSION) --platform $(PLATFORM)

clean:
	rm -rf .venv .snakemake .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find scripts tests workflow -name __pycache__ -type d -prune -exec rm -rf {} +
