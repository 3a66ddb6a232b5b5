# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The front door. Each target sets up what it needs; everything it makes lies under build/.

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-all check unit lint sizes sanity docs docs-lint galaxy tarball sbom molecule e2e alerts chaos gpu bench venv lock packages promtool clean

bin := build/venv/bin
export PATH := $(CURDIR)/$(bin):$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/build/collections
# The Python to make build/venv with; found by itself when not given.
PYTHON ?=
export PYTHON
# More options for `make test`, e.g. ARGS="--only unit,ruff", and for `make unit`, e.g. ARGS="-k name".
ARGS ?=

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: venv packages ## A fleet of 1 manager + 3 GPU nodes on this machine, provisioned, with a GPU service on it
	@$(bin)/python -m tests.lab demo

demo-down: venv ## Remove the demo fleet and every trace of it but packages and caches
	@$(bin)/python -m tests.lab down --all

test: venv packages promtool ## Each kind of test, as CI runs it; ends with "N passed, N failed"
	@$(bin)/python -m tests.run $(ARGS)

test-all: venv packages promtool ## All of that, and the rare combinations: other versions of ansible-core and Python, and more; needs a Python 3.8. CI does not run these
	@$(bin)/python -m tests.run --rare $(ARGS)

check: venv ## Lint, types and the unit tests of what changed since the branch began, or since the last commit, but for long ones (at most 90 s)
	@$(bin)/python -m tests.run --changed

unit: venv ## Unit tests only, on each core (some minutes on two of them, no Docker); some of them: TESTS=tests/unit/plan, ARGS="-k drain"
	@$(bin)/python -m pytest -p no:cacheprovider -q --numprocesses auto --dist worksteal $(or $(TESTS),tests/unit) $(ARGS)

lint: venv ## ruff, mypy, vermin, shellcheck, yamllint, ansible-lint, changelog lint
	@$(bin)/python -m tests.run --only ruff,mypy,vermin,shellcheck,yamllint,ansible-lint,changelog

sizes: venv ## Lists the long files, functions and parameter lists; nothing fails
	@$(bin)/python -m tests.sizes

sanity: venv ## ansible-test sanity of what the tarball has
	@$(bin)/python -m tests.run --only sanity

docs: venv ## The documentation site in build/docs/html
	@$(bin)/python -m tests.site

docs-lint: venv ## antsibull-docs over plugins, roles and links
	@$(bin)/python -m tests.run --only docs

galaxy: venv ## Build the collection, install the tarball, run it, check it with galaxy-importer
	@$(bin)/python -m tests.run --only galaxy

tarball: venv ## The tarball of a release in build/, the same bytes wherever it is built, and its SHA-256
	@$(bin)/python -m tests.release.tarball

sbom: venv ## What the collection needs at run time, as CycloneDX JSON in build/
	@$(bin)/python -m tests.release.sbom

molecule: venv packages ## Molecule scenarios on the lab fleet
	@$(bin)/python -m tests.run --rare --only images,molecule

e2e: venv packages promtool ## End-to-end tests on the lab fleet
	@$(bin)/python -m tests.run --only images,e2e

alerts: venv promtool ## The metrics, alert rules and dashboard, with Prometheus' promtool
	@$(bin)/python -m tests.run --only alerts

chaos: venv packages ## Kill runs and nodes at random moments (KILLS=20, SEED=…), and see that the next run finishes the work
	@$(bin)/python -m tests.chaos

gpu: venv ## On a machine with a real NVIDIA GPU: what is read there, beside nvidia-smi, and the errors of CUDA programs
	@$(bin)/python -m pytest -p no:cacheprovider tests/gpu
	@$(bin)/python -m tests.bench.nvml_read --driver

bench: venv packages ## Benchmarks on the lab fleet, written to build/bench.json
	@$(bin)/python -m tests.bench

venv: ## The development environment in build/venv
	@sh tests/setup.sh venv

lock: ## tests/requirements.lock from tests/requirements.txt: versions with hashes (ARGS=--upgrade: newer ones)
	@ARGS="$(ARGS)" sh tests/setup.sh lock

packages: ## The Debian packages that the lab needs (as root; else says what to type)
	@sh tests/setup.sh packages

promtool: ## Prometheus' promtool in build/, of Debian's package, which is not installed
	@sh tests/setup.sh promtool

clean: ## Remove build/, and a lab that still runs
	@if [ -x $(bin)/python ] && [ -d build/lab ]; then $(bin)/python -m tests.lab down --all; fi
	@rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis .ansible
