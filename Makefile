# Everything that a fresh machine with Python 3.11 and make needs. `make` lists the targets.
PYTHON ?= python3
VENV := .venv
PEERS := $(VENV)-peers
BIN := $(VENV)/bin
ARGS ?=
INSTALL = $(BIN)/python deploy/install.py
# The CPU build's local version exists in no registry, and what CUDA takes comes with the torch that needs it.
FREEZE = .lock/bin/python -m pip freeze --all --exclude pip --exclude rl-scaling-suite | sed -E 's/\+cpu$$//; /^(nvidia|cuda|triton)\b/d'

# Where Python may not write bytecode, as in many images, each process compiles torch and Ray anew: 5 s of a core. uv leaves that to Python.
unexport PYTHONDONTWRITEBYTECODE
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: study
study: $(VENV)/study ## Install what is missing and run a study, joint unless ARGS name another; ARGS="hardware=laptop seeds=[0,1,2,3,4]"
	$(BIN)/python experiments/run.py $(if $(or $(findstring study=,$(ARGS)),$(findstring resume=,$(ARGS)),$(findstring confirm=,$(ARGS))),,study=joint) $(ARGS)

.PHONY: test
test: $(VENV)/dev ## Install what is missing and run the tests, two at a time; ARGS="-m nightly" runs those before a release
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

.PHONY: check
check: $(VENV)/dev ## Lint, format, types, import directions, dependencies, documentation, shell scripts, the wheel, the files of deploy/
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/mkdocs build
	$(BIN)/shellcheck .ci/run .ci/nightly .ci/debian deploy/slurm/study.sh
	$(BIN)/python -m pytest -q -m '' tests/deploy

.PHONY: ui
ui: $(VENV)/study ## The MLflow UI on the embedded store, on this machine alone: http://127.0.0.1:5000
	@test -f outputs/mlflow.db || { echo "error: there is no study in outputs/ yet. Run one: make study" >&2; exit 2; }
	$(BIN)/python -m experiments.tracking.ui

.PHONY: bench
bench: $(VENV)/bench ## The benchmarks: tables of ratios, also written to docs/benchmarks/; fails where one fell against the committed page
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: peers
peers: $(VENV)/study $(PEERS)/peers ## The learners against those of other libraries, which want an environment of their own: python -m benchmarks peers
	$(BIN)/python -m benchmarks peers

.PHONY: lock
lock: ## Resolve the ranges of pyproject.toml anew, and what the peers want, and write the five requirements files
	rm -rf .lock && $(PYTHON) -m venv .lock
	.lock/bin/python -m pip uninstall --quiet --yes setuptools # the environment's own, older than any that is asked for
	.lock/bin/python -m pip install --quiet torch==2.13.0 . && $(FREEZE) > .lock/core
	.lock/bin/python -m pip install --quiet '.[cluster]' && $(FREEZE) > .lock/cluster
	.lock/bin/python -m pip install --quiet '.[dev]' && $(FREEZE) > .lock/dev
	.lock/bin/python -m pip install --quiet '.[bench]' && $(FREEZE) > .lock/bench
	{ echo '# Every package of the suite, pinned. Written by `make lock`.'; cat .lock/core; } > requirements.txt
	{ echo '# For Ray clusters, on top of requirements.txt.'; grep -vxFf .lock/core .lock/cluster; } > requirements-cluster.txt
	{ echo '# Tests, lint and types, on top of requirements-cluster.txt.'; grep -vxFf .lock/cluster .lock/dev; } > requirements-dev.txt
	{ echo '# Peers of the benchmarks, on top of requirements-dev.txt.'; grep -vxFf .lock/dev .lock/bench; } > requirements-bench.txt
	rm -rf .lock && $(PYTHON) -m venv .lock
	.lock/bin/python -m pip install --quiet torch==2.13.0 gymnasium==1.2.2 stable_baselines3==2.9.2 sbx-rl rlox && $(FREEZE) > .lock/peers
	{ echo '# Peers of the benchmarks that want other packages than the suite, in an environment of their own: `make peers`.'; cat .lock/peers; } > requirements-peers.txt
	rm -rf .lock

.PHONY: docs
docs: $(VENV)/dev ## The documentation as a site, site/index.html, which reads and searches offline
	$(BIN)/mkdocs build

.PHONY: dist
dist: $(VENV)/dev ## Wheel and sdist in dist/, checked; nothing is uploaded
	rm -rf dist
	$(BIN)/python -m build --quiet .
	$(BIN)/twine check --strict dist/*

.PHONY: clean
clean: ## Remove the environments; results stay
	rm -rf $(VENV) $(PEERS)

# One stamp per set of packages: installed once, again when the pins change.
$(VENV)/study: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { echo "error: Python 3.11 to 3.13 is needed: make study PYTHON=python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: $(PYTHON) cannot make an environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
	@mkdir -p $(VENV) 2>/dev/null && test -w $(VENV) || { echo "error: $(abspath $(VENV)) cannot be written. Name folders of yours: make study VENV=$$HOME/venv ARGS=output_dir=$$HOME/outputs" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -r requirements.txt
	@# setuptools writes beside the sources what it finds out about them: where it may not, in the environment.
	@test -w . || printf '[egg_info]\negg_base = $(abspath $(VENV))\n' > $(VENV)/setup.cfg
	DIST_EXTRA_CONFIG=$(abspath $(VENV))/setup.cfg $(INSTALL) --no-deps -e .
	@touch $@

$(VENV)/dev: $(VENV)/study requirements-cluster.txt requirements-dev.txt
	$(INSTALL) -r requirements-cluster.txt -r requirements-dev.txt
	@touch $@

$(PEERS)/peers: requirements-peers.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet -r requirements-peers.txt
	@touch $@

$(VENV)/bench: $(VENV)/dev requirements-bench.txt
	$(INSTALL) -r requirements-bench.txt
	@touch $@
