# All commands for people and CI: `make help`. Overridable: VENV, PYTHON, MINUTES, UPGRADE, ATTACKS,
# VIEWS, BASES, ENGINE, QUERYABLE_CACHE.

VENV ?= .venv
PYTHON ?= python3
MINUTES ?= 10
# an absolute path, because the interpreter starts processes in other folders
override BIN := $(abspath $(VENV))/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.installed-docs
FUZZ_INSTALLED := $(VENV)/.installed-fuzz
SPARK_ARCHIVE := $(VENV)/spark.jsa
KAFKA_ARCHIVE := $(VENV)/kafka.jsa
TOOLS := $(VENV)/tools
override TOOLS_BIN := $(abspath $(TOOLS))/bin
TOOLS_INSTALLED := $(TOOLS)/.installed

ifdef QUERYABLE_CACHE
export QUERYABLE_CACHE
endif

.DEFAULT_GOAL := help
.PHONY: help setup setup-run promtool packages packages-test packages-bench jars demo test tests lint types unit up down bench faults soak pipelines attacks images compose-test producers-test brokers-test clients-test cdc-test chart-test fuzz docs lock sbom format clean
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: packages-test $(INSTALLED) promtool $(SPARK_ARCHIVE) jars $(KAFKA_ARCHIVE) ## install missing Debian packages, Python packages and jars

setup-run: packages $(INSTALLED) $(SPARK_ARCHIVE)

promtool: $(INSTALLED)
	@test -x $(BIN)/promtool || tests/support/prometheus/unpack-promtool $(BIN)

packages:
	@PYTHON=$(PYTHON) local/install-packages run

packages-test:
	@PYTHON=$(PYTHON) local/install-packages test

# Packages come from the lock files alone, and pip checks the hash of each. Without isolation, a
# build uses the setuptools of the lock; with it, pip would fetch one without a hash.
# With --quiet, Debian's pip shows no progress on a terminal.
$(INSTALLED): pyproject.toml requirements/build.lock requirements/dev.lock | packages
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo 'installing Python packages into $(VENV) (some minutes the first time)' >&2
	@if [ -t 1 ]; then quiet=; else quiet=--quiet; fi; \
	pip="$(BIN)/python -m pip --disable-pip-version-check install $$quiet --no-build-isolation"; \
	$$pip --require-hashes -r requirements/build.lock && \
	$$pip --require-hashes -r requirements/dev.lock && \
	$$pip --no-deps -e .
	@touch $@

# Optional: without it, or with an empty one, Spark starts more slowly.
$(SPARK_ARCHIVE): $(INSTALLED)
	@echo "creating an archive of Spark's classes (half a minute)" >&2
	@$(BIN)/python -m spark.archive 2>/dev/null || touch $@

# Optional, too: the tests start many brokers.
$(KAFKA_ARCHIVE): $(INSTALLED)
	@echo "creating an archive of Kafka's classes (a quarter of a minute)" >&2
	@$(BIN)/python -m local.kafka.archive 2>/dev/null || touch $@

jars: $(INSTALLED)
	@$(BIN)/python -m local.kafka.jars

demo: setup-run ## run everything on http://127.0.0.1:8080 until Ctrl-C; DEMO_ONCE=1: verify and exit
	@$(BIN)/python -m local demo

test: ## run all checks and tests, and print how long each phase took
	@for phase in setup lint types tests; do \
		began=$$(date +%s); \
		$(MAKE) --no-print-directory $$phase || exit; \
		echo "make $$phase: $$(($$(date +%s) - began)) s"; \
	done

# More processes than cores, because many tests wait; two of them run those with Spark.
tests: $(INSTALLED)
	@$(BIN)/python -m pytest -n 4 --dist loadfile --durations 10

lint: $(INSTALLED) ## check formatting, style and the direction of imports
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@luacheck --quiet --config proxy/.luacheckrc proxy tests/unit/proxy tests/support/lua
	@$(BIN)/lint-imports --no-logo

types: $(INSTALLED) ## check types
	@$(BIN)/mypy

# Installs nothing but Python packages.
unit: $(INSTALLED) ## run lint, types, and the tests of tests/unit, in a minute
	@$(MAKE) --no-print-directory lint types & checks=$$!; \
	$(BIN)/python -m pytest tests/unit -n 3 --dist loadfile -m 'not slow' --hypothesis-profile quick -p no:schemathesis -q; \
	tests=$$?; wait $$checks && exit $$tests

up: setup-run ## start everything in the background; ready when the command returns
	@$(BIN)/python -m local up

down: $(INSTALLED) ## stop the stack of `make up`
	@$(BIN)/python -m local down

packages-bench:
	@PYTHON=$(PYTHON) local/install-packages bench

bench: packages-bench setup-run ## measure reads, ingest and launch with references, in half an hour
	@$(BIN)/python -m bench

faults: setup ## inject faults into processes, networks, disks and clocks under load; check every answer
	@$(BIN)/python -m tests.faults

soak: setup ## inject random faults for MINUTES (10); check that memory, handles and threads stay flat
	@$(BIN)/python -m tests.faults.soak --minutes $(MINUTES)

pipelines: setup ## kill Spark's job at random points, compare its views with a batch job's; VIEWS='a b': only these
	@$(BIN)/python -m tests.pipelines $(VIEWS)

attacks: setup ## run hostile clients next to honest readers; ATTACKS=name,…: only these
	@$(BIN)/python -m tests.attacks $(ATTACKS)

images: ## build the container images; BASES=debian: from base images made of Debian's packages
	@docker/images

# An engine of its own; ENGINE keeps its programs and images.
ENGINE ?= .run/engine
compose-test: setup ## run docker-compose.yml in a Docker engine of its own, and check it; needs root
	@PYTHON=$(BIN)/python tests/containers/run $(ENGINE) $(TESTS)

# Producers and brokers are fetched: Go modules, a package of Node.js, and jars.
producers-test: setup ## find every key that other producers have written: Java, librdkafka, Sarama, KafkaJS, …
	@$(BIN)/python -m pytest -rs tests/others/producers $(TESTS)

brokers-test: setup ## run a deployment with Kafka's brokers from 2.8 on
	@$(BIN)/python -m pytest -rs tests/others/brokers $(TESTS)

clients-test: setup ## generate clients from /openapi.json, compile them and read with them; needs npm, Go and a JDK
	@$(BIN)/python -m pytest -rs tests/generated_clients $(TESTS)

chart-test: $(INSTALLED) ## check the Helm chart with Helm and a Kubernetes API server, which Go builds
	@PYTHON=$(BIN)/python tests/kubernetes/run $(TESTS)

cdc-test: setup ## compare views with tables: PostgreSQL, Debezium in Kafka Connect, a schema registry
	@$(BIN)/python -m pytest -rs tests/change_data $(TESTS)

# Only `fuzz` needs Atheris, so the other targets do not install it.
$(FUZZ_INSTALLED): requirements/fuzz.lock | $(INSTALLED)
	@echo 'installing Atheris into $(VENV)' >&2
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet \
		--require-hashes -r requirements/fuzz.lock
	@touch $@

fuzz: setup $(FUZZ_INSTALLED) ## look for inputs that break a decoder for MINUTES (10), and for mixed-up answers
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

# Only `docs` needs MkDocs, so the other targets do not install it.
$(DOCS_INSTALLED): requirements/docs.lock | $(INSTALLED)
	@echo 'installing MkDocs into $(VENV)' >&2
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet \
		--require-hashes -r requirements/docs.lock
	@touch $@

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(INSTALLED) $(DOCS_INSTALLED) ## build the documentation as a site with search, in site/
	@$(BIN)/python -m mkdocs build --strict  # not --quiet, which does not count warnings
	@$(BIN)/python -m pytest -q tests/system/docs/test_site.py
	@echo 'To read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site'

# uv and CycloneDX have an environment of their own: nothing else needs them.
$(TOOLS_INSTALLED): requirements/tools.lock | $(INSTALLED)
	@test -x $(TOOLS_BIN)/python || $(PYTHON) -m venv $(TOOLS)
	@$(TOOLS_BIN)/python -m pip --disable-pip-version-check install --quiet \
		--require-hashes -r requirements/tools.lock
	@touch $@

# One lock file for all supported versions of Python, operating systems and processors.
LOCK = $(TOOLS_BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)
SAME = --constraints requirements/dev.lock

lock: $(TOOLS_INSTALLED) ## write requirements/*.lock from pyproject.toml; UPGRADE=1: with newer versions
	@$(LOCK) --extra dev -o requirements/dev.lock pyproject.toml
	@$(LOCK) $(SAME) -o requirements/build.lock requirements/build.in
	@$(LOCK) $(SAME) --extra docs -o requirements/docs.lock pyproject.toml
	@$(LOCK) $(SAME) --extra fuzz -o requirements/fuzz.lock pyproject.toml
	@$(LOCK) $(SAME) --extra server -o requirements/server.lock pyproject.toml
	@$(LOCK) $(SAME) --extra server --extra spark --extra local -o requirements/spark.lock pyproject.toml
	@$(LOCK) -o requirements/tools.lock requirements/tools.in

sbom: $(TOOLS_INSTALLED) ## list all Python packages and jars in .run/sbom.json (CycloneDX)
	@mkdir -p .run
	@$(TOOLS_BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		-o .run/packages.json $(BIN)/python
	@$(TOOLS_BIN)/python local/sbom.py .run/sbom.json < .run/packages.json
	@rm .run/packages.json

format: $(INSTALLED) ## format the Python files
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

clean: ## delete files of the stack, tests and tools; keep the environment and the jars
	@if [ -x $(BIN)/python ] && [ -d .run ]; then QUERYABLE_RUN_DIR=.run $(BIN)/python -m local down; fi
	@rm -rf .run site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
