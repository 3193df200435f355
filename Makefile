# Every task of the project. The real work is in the commands that the recipes call; each of them
# can be run by hand from .venv/bin. CONTRIBUTING.md explains the layers of tests.

MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# With byte code a process starts in half the time; some images of Python say not to write it.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The interpreters to try, in order, where PYTHON names none: 3.11 is the one that CI runs.
PYTHON ?=
PYTHONS := $(if $(PYTHON),$(PYTHON),python3.11 python3.12 python3.13 python3)

# A user's pip settings (index, mirror, proxy, certificates, wheels at hand) are honoured, save
# those that would install elsewhere than into the virtual environment, or not at all.
PIP := env -u PIP_TARGET -u PIP_PREFIX -u PIP_ROOT PIP_USER=0 PIP_REQUIRE_HASHES=0 PIP_DRY_RUN=0 \
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip

# Arguments for the command of a target, such as: make test ARGS='-k fingerprint'
ARGS ?=

.PHONY: help
help: ## List these targets
	@echo "make TARGET [ARGS='…']"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---------------------------------------------------------------- set-up

.PHONY: install
install: $(STAMP) ## Make .venv with the pinned versions of everything (Python 3.11 or newer)

$(BIN)/python:
	@for candidate in $(PYTHONS); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found="$$candidate"; break; \
	  fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo "make install: no Python 3.11 or newer among: $(PYTHONS)." >&2; \
	  echo "Install one, or name it: make install PYTHON=/path/to/python3.12" >&2; \
	  exit 1; \
	fi; \
	rm -rf $(VENV); \
	if ! "$$found" -m venv $(VENV); then \
	  rm -rf $(VENV); \
	  echo "make install: $$found has no venv module (Debian, Ubuntu: apt-get install python3-venv)." >&2; \
	  exit 1; \
	fi

# Byte code is left to be made at the first import: it would double the time of the installation.
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) install --quiet --no-compile --requirement constraints.txt
	@$(PIP) install --quiet --no-compile --no-deps --no-build-isolation --editable .
	@$(PIP) check
	@touch $@

.PHONY: kafka
kafka: ## Fetch Apache Kafka into .kafka/ for the tests that need a real broker (Java 17, Maven)
	@deploy/kafka/fetch.sh

.PHONY: kafka-run
kafka-run: install kafka ## Start that Kafka on localhost:9092 for trying things; its data stays in .kafka/run
	@$(BIN)/python -m tests.rigs.brokers.run_kafka start

.PHONY: kafka-stop
kafka-stop: ## End what make kafka-run has started
	@$(BIN)/python -m tests.rigs.brokers.run_kafka stop

TOOLS := .venv-tools

.PHONY: tools
tools: $(TOOLS)/.installed ## Make .venv-tools: what checks deploy/, audits, and lists the parts

$(TOOLS)/.installed: deploy/tools/requirements.txt | $(BIN)/python
	@rm -rf $(TOOLS) && $(BIN)/python -m venv $(TOOLS)
	@$(subst $(BIN)/,$(TOOLS)/bin/,$(PIP)) install --quiet --no-compile --requirement $<
	@touch $@

HELM := helm.sh/helm/v3/cmd/helm@v3.20.2

.PHONY: helm
helm: $(TOOLS)/bin/helm ## Build Helm into .venv-tools, for the tests of the chart (Go 1.25 or newer)

$(TOOLS)/bin/helm: | $(TOOLS)/.installed
	@command -v go >/dev/null || { echo "make helm: no go on PATH: install Go 1.25 or newer" >&2; exit 1; }
	@CGO_ENABLED=0 GOBIN=$(abspath $(TOOLS)/bin) go install -trimpath -ldflags '-s -w' $(HELM)

.PHONY: manifests
manifests: install ## Write the files of deploy/kubernetes that follow from topics and rules
	@$(BIN)/python deploy/kubernetes/generate.py

.PHONY: picture
picture: install ## Print which folder of the packages imports which, for Graphviz
	@for package in simhash_core streams; do $(BIN)/import-linter drawgraph $$package --show-import-totals; done

.PHONY: lock
lock: ## Write constraints.txt again: the newest versions that pyproject.toml allows
	@rm -rf .venv-lock && python3 -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --no-compile '.[dev]'
	@{ sed -n '/^#/p' constraints.txt; .venv-lock/bin/python -m pip freeze --exclude firstseen; } > constraints.new
	@mv constraints.new constraints.txt && rm -rf .venv-lock
	@python3 -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --no-compile --requirement deploy/tools/requirements.in
	@{ sed -n '/^#/p' deploy/tools/requirements.txt; .venv-lock/bin/python -m pip freeze; } > constraints.new
	@mv constraints.new deploy/tools/requirements.txt && rm -rf .venv-lock

.PHONY: clean
clean: ## Remove what these targets made, except the fetched Kafka
	@rm -rf $(VENV) $(TOOLS) .venv-lock .venv-peers build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -path ./.git -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf

# ---------------------------------------------------------------- run

.PHONY: demo
demo: install ## Watch a stream being deduplicated on an in-process broker: nothing else to install
	@$(BIN)/firstseen demo $(ARGS)

.PHONY: bench
bench: install ## Measure throughput, recall and precision
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: bench-quality
bench-quality: install ## Measure detection beside other libraries: DATA=directory of labelled sets
	@$(BIN)/python -m benchmarks.quality $(if $(DATA),--data '$(DATA)') --update docs/quality.md $(ARGS)

# ---------------------------------------------------------------- check

.PHONY: test
test: install ## Run the tests; those on a real broker run after make kafka
	@$(BIN)/python -m pytest $(ARGS)

.PHONY: check
check: install ## Lint, imports, format, types, links of the documentation, files of deploy/
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --diff .; exit 1; }
	@$(BIN)/mypy $(wildcard firstseen simhash_core streams examples tests benchmarks) $(wildcard docs/*.py deploy/*/*.py)
	@$(MAKE) --no-print-directory tools $(if $(FIRSTSEEN_REQUIRE_TOOLS),,>/dev/null 2>&1) || rm -rf $(TOOLS)
	@deploy/tools/check.sh
	@deploy/prometheus/check.sh

.PHONY: image
image: ## Build the container image with docker or podman; ARGS=its name
	@deploy/image/build.sh $(ARGS)

.PHONY: image-test
image-test: install kafka ## Build the image and run it on a real Kafka (root, podman, runc)
	@$(BIN)/python -m tests.image $(ARGS)

.PHONY: audit
audit: install tools ## Look the pinned dependencies up in databases of vulnerabilities (network)
	@$(BIN)/python deploy/tools/audit.py

# The schema of CycloneDX is checked before it is written.
.PHONY: sbom
sbom: install tools ## Write build/sbom.cdx.json: every part of .venv, with licences, as CycloneDX
	@mkdir -p build
	@$(TOOLS)/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml \
	  --mc-type application --output-reproducible --output-format JSON --output-file build/sbom.cdx.json $(ARGS)
	@echo "build/sbom.cdx.json written"

.PHONY: simulate
simulate: install ## Check protocol and whole workers under random faults: [WORKER_]SEEDS=how many, [WORKER_]SEED=one
	@$(BIN)/python -m tests.simulate $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
	  $(if $(WORKER_SEED),--worker-seed $(WORKER_SEED)) $(if $(WORKER_SEEDS),--worker-seeds $(WORKER_SEEDS)) $(ARGS)

.PHONY: torture
torture: install ## Hurt a real cluster at random for 15 minutes; nothing may be lost, twice or out of order
	@$(BIN)/python -m tests.torture $(ARGS)
