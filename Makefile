# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The commands for developers. Each target sets up what it needs, and writes only to build/ (`recording` also writes its picture).

.DEFAULT_GOAL := help
.PHONY: help demo demo-down recording test test-all check unit lint sizes sanity docs docs-lint galaxy tarball sbom molecule e2e alerts page page-pictures chaos gpu bench venv lock packages promtool browser recorder clean

bin := build/venv/bin
export PATH := $(CURDIR)/$(bin):$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/build/collections
# The Python for build/venv. By default it is found automatically.
PYTHON ?=
export PYTHON
# Additional options for `make test`, such as ARGS="--only unit,ruff", and for `make unit`, such as ARGS="-k name".
ARGS ?=

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: venv packages ## A fleet of 1 manager + 3 GPU nodes on this machine, provisioned, with three GPU services on it
	@$(bin)/python -m tests.lab demo

demo-down: venv ## Remove the demo fleet and every trace of it, except packages and caches
	@$(bin)/python -m tests.lab down --all

recording: venv packages recorder ## Record a real run on a lab fleet as docs/pictures/recording.svg (as root; look at the picture)
	@$(bin)/python -m tests.recording

test: venv packages promtool browser ## All kinds of tests, as in CI; ends with "N passed, N failed"
	@$(bin)/python -m tests.run $(ARGS)

test-all: venv packages promtool browser ## The same and rare combinations, such as other versions of ansible-core and Python; needs a Python 3.8. CI does not run these
	@$(bin)/python -m tests.run --rare $(ARGS)

check: venv ## Lint, types and the short unit tests of files that changed since the branch began, or since the last commit (at most 90 s)
	@$(bin)/python -m tests.run --changed

unit: venv ## Only unit tests, on all cores (minutes on two cores, no Docker). To select some: TESTS=tests/unit/plan, ARGS="-k drain"
	@$(bin)/python -m pytest -p no:cacheprovider -q --numprocesses auto --dist worksteal $(or $(TESTS),tests/unit) $(ARGS)

lint: venv ## ruff, mypy, vermin, shellcheck, yamllint, ansible-lint, CI workflows, changelog lint
	@$(bin)/python -m tests.run --only ruff,mypy,vermin,shellcheck,yamllint,ansible-lint,workflows,changelog

sizes: venv ## List the long files, functions and parameter lists; nothing fails
	@$(bin)/python -m tests.sizes

sanity: venv ## ansible-test sanity of the files in the tarball
	@$(bin)/python -m tests.run --only sanity

docs: venv ## The documentation site in build/docs/html
	@$(bin)/python -m tests.site

docs-lint: venv ## antsibull-docs over plugins, roles and links
	@$(bin)/python -m tests.run --only docs

galaxy: venv ## Build the collection, install the tarball, run it, check it with galaxy-importer
	@$(bin)/python -m tests.run --only galaxy

tarball: venv ## Build the tarball of a release in build/, with the same bytes on every machine, and its SHA-256
	@$(bin)/python -m tests.release.tarball

sbom: venv ## Write the collection's run-time requirements as CycloneDX JSON to build/
	@$(bin)/python -m tests.release.sbom

molecule: venv packages ## Molecule scenarios on the lab fleet
	@$(bin)/python -m tests.run --rare --only images,molecule

e2e: venv packages promtool ## End-to-end tests on the lab fleet
	@$(bin)/python -m tests.run --only images,e2e

alerts: venv promtool ## Check the metrics, alert rules and dashboards with Debian's Prometheus, its promtool and node_exporter
	@$(bin)/python -m tests.run --only alerts

page: venv browser ## Open the page of the fleet in Chromium, and write pictures of it to build/page/ (look at them)
	@$(bin)/python -m tests.run --only page

page-pictures: venv browser ## Write the pictures of the page for the docs (look at them). To show another page: ARGS="--page FILE"
	@$(bin)/python -m tests.page $(ARGS)

chaos: venv packages ## Kill runs and nodes at random moments (KILLS=20, SEED=…), and check that the next run finishes the work
	@$(bin)/python -m tests.chaos

gpu: venv ## On a machine with a real NVIDIA GPU: compare the readings with nvidia-smi, and test errors of CUDA programs
	@$(bin)/python -m pytest -p no:cacheprovider tests/gpu
	@$(bin)/python -m tests.bench.nvml_read --driver

bench: venv packages browser ## Benchmarks on the lab fleet, written to build/bench.json
	@$(bin)/python -m tests.bench

venv: ## The development environment in build/venv
	@sh tests/setup.sh venv

lock: ## Write tests/requirements.lock from tests/requirements.txt: versions with hashes (ARGS=--upgrade: newer ones)
	@ARGS="$(ARGS)" sh tests/setup.sh lock

packages: ## Install the Debian packages that the lab needs (as root; otherwise it prints the command)
	@sh tests/setup.sh packages

recorder: ## Install asciinema and svg-term of PyPI and npm into build/, for the recording
	@sh tests/setup.sh recorder

promtool: ## Unpack Prometheus, its promtool and node_exporter from Debian's packages into build/, without installing the packages
	@sh tests/setup.sh promtool

browser: ## Install Chromium, and unpack nginx and Caddy from Debian's packages into build/, for the page of the fleet
	@sh tests/setup.sh browser

clean: ## Remove build/ and a running lab
	@if [ -x $(bin)/python ] && [ -d build/lab ]; then $(bin)/python -m tests.lab down --all; fi
	@rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis .ansible
