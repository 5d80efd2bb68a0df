# Two commands do all the set-up: `make demo` and `make test`. Neither needs Docker, Java or root.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK   := requirements-dev.lock
# What pip says, in a few lines. pip's errors go past it; without its last line it has failed.
TOLD = { n=0; failed=1; while read -r word _; do case $$word in \
	Collecting) n=$$((n + 1)); [ $$((n % 20)) != 0 ] || echo "  $$n of about $$(grep -c == $(LOCK)) packages are here" ;; \
	Installing) echo "  all are here: installing them" ;; \
	Successfully) failed=0 ;; esac; done; [ $$failed = 0 ]; }
COMPILED := build/compiled
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --quiet
# A file's tests share what they start; the long ones come first.
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder -n
# A test that waits for ever ends the suite, which names it and prints where its threads stand.
BOUNDED := -o faulthandler_timeout=1800 -o faulthandler_exit_on_timeout=true --max-worker-restart 0
# The laws of both folds, their stages and the growth of work with size take longer than all else of tests/pure together.
QUICK := tests/pure $(addprefix --ignore=tests/pure/,laws stages test_growth.py)

# `make mine PATH=…` names transcripts. Given so, it would also be where the shell looks for programs.
ifeq ($(origin PATH),command line)
TRANSCRIPTS := $(PATH)
override PATH := /usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin
endif

# Hundreds of processes import the same modules: who starts make may have told Python to compile them anew each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo mine test check docs drawings docs-site test-web test-chart test-cluster test-clients test-frameworks test-claude-code \
	test-slow compiled test-compiled bench quality act conformance crash soak scale fuzz reference secrets lint lock venv clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: venv  ## start the whole pipeline on real Kafka and Redis, run sample sessions through it, tell what came out (KEEP=1: leave it running)
	@$(BIN)/hmx demo $(if $(KEEP),--keep)

mine: venv  ## import your coding agent's transcripts, and show up to ten useful things learnt (PATH=… or ~/.claude/projects)
	@$(BIN)/hmx mine $(TRANSCRIPTS)

test: lint  ## lint, then the default test suite on a real Kafka and Redis that it starts and stops itself
	@$(BIN)/python -m pytest $(BOUNDED) $(SIDE_BY_SIDE) 5  # most tests with servers wait more than they compute

check: lint  ## lint, types, import contracts and the quick pure tests: under two minutes on two cores
	@$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) 2 $(QUICK)

docs: venv  ## write the generated parts of the pages under docs/ anew
	@$(BIN)/python -m tests.support.documents

drawings: venv  ## draw the Mermaid blocks of the pages that changed, with npm and Chromium
	@$(BIN)/python -m tests.support.drawings

docs-site: venv  ## the documentation as a site under build/site, with search, that works offline; ends where a link leads nowhere
	@[ -d $(VENV)/site ] || $(PIP) --require-hashes --target $(VENV)/site -r tests/site/requirements.lock
	@PYTHONPATH=$(CURDIR)/$(VENV)/site $(BIN)/python -m tests.site  # which starts a program elsewhere

test-web: venv  ## the page in headless Chromium, the clients' contract from JavaScript (root installs what lacks; Debian)
	@tests/web/install
	@[ -d $(VENV)/web ] || $(PIP) --no-deps --require-hashes --target $(VENV)/web -r tests/web/requirements.lock
	@PYTHONPATH=$(VENV)/web $(BIN)/python -m pytest -m web tests/web

test-chart: venv  ## the Helm chart, as helm renders it and for several versions of Kubernetes (Go builds helm if it is lacking)
	@mkdir -p build && tests/chart/install $(CURDIR)/build/bin
	@[ -d $(VENV)/chart ] || $(PIP) --require-hashes --target $(VENV)/chart -r tests/chart/requirements.lock
	@HMX_HELM=$(CURDIR)/build/bin/helm PYTHONPATH=$(VENV)/chart $(BIN)/python -m pytest -m chart tests/chart

test-cluster: venv  ## the Helm chart in a real control plane of Kubernetes, with nodes that run nothing (Go builds it, once)
	@mkdir -p build && tests/chart/install $(CURDIR)/build/bin
	@tests/chart/install-cluster $(CURDIR)/build/bin || true  # without it the tests are skipped
	@HMX_HELM=$(CURDIR)/build/bin/helm HMX_CLUSTER=$(CURDIR)/build/bin $(BIN)/python -m pytest -m cluster tests/chart

test-clients: venv  ## the OpenAPI document, a client generated from it, the topics' schemas in a registry, and the producers of the pages
	@[ -d $(VENV)/clients ] || $(PIP) --require-hashes --target $(VENV)/clients -r tests/clients/requirements.lock
	@HMX_CLIENT_TOOLS=$(CURDIR)/$(VENV)/clients $(BIN)/python -m pytest -m clients tests/clients

test-frameworks: venv  ## adapters of agent frameworks with the real packages, about 1.3 GB of them (needs npm and Node 20)
	@for name in agents crewai otel; do [ -d $(VENV)/$$name ] || \
		$(PIP) --no-deps --require-hashes --target $(VENV)/$$name -r tests/frameworks/$$name.lock || exit 1; done
	@[ -d $(VENV)/vercel-ai ] || { mkdir $(VENV)/vercel-ai && cp tests/frameworks/package*.json $(VENV)/vercel-ai && \
		npm ci --silent --prefix $(VENV)/vercel-ai || { rm -r $(VENV)/vercel-ai; exit 1; }; }
	@HMX_FRAMEWORKS=$(CURDIR)/$(VENV) $(BIN)/python -m pytest -m frameworks tests/frameworks

test-claude-code: venv  ## the plugin in the real Claude Code, without the internet (npm; 250 MB, proprietary: read its licence)
	@[ -d $(VENV)/claude-code ] || npm install --silent --ignore-scripts --prefix $(VENV)/claude-code @anthropic-ai/claude-code@2.1.197
	@HMX_CLAUDE_CODE=$(CURDIR)/$(VENV)/claude-code $(BIN)/python -m pytest -m frameworks tests/frameworks/test_claude_code.py

test-slow: venv  ## the tests left out of `make test`, which take minutes, and every property with many more examples
	@HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest $(SIDE_BY_SIDE) 2 tests/pure
	@$(BIN)/python -m pytest -m slow

compiled: venv  ## the package with its hot modules compiled, under build/compiled; needs a C compiler (then: cd there, run anything)
	@now="$$(find pipeline integrations/mcp/src setup.py pyproject.toml $(LOCK) -type f ! -name '*.pyc' | sort | xargs cat | cksum)"; \
	set -e; \
	if [ "$$(cat $(COMPILED)/.sources 2>/dev/null)" != "$$now" ]; then \
		command -v cc >/dev/null || { echo "error: no C compiler was found; everything runs without one, as pure Python" >&2; exit 1; }; \
		echo "compiling into $(COMPILED): a minute or two, whenever a source has changed"; \
		rm -rf $(COMPILED) build/lib* build/temp* build/bdist*; \
		MYPYC=1 $(PIP) --no-deps --no-build-isolation --target $(COMPILED)/pipeline .; \
		ln -s $(addprefix ../../,pyproject.toml README.md docs tests topics schemas integrations) $(COMPILED); \
		echo "$$now" > $(COMPILED)/.sources; \
	fi

test-compiled: compiled  ## what is compiled does the same to the byte, and keeps the properties of what it replaces
	@$(BIN)/python -m pytest tests/pure/test_compiled.py
	@cd $(COMPILED) && ../../$(BIN)/python -m pytest $(SIDE_BY_SIDE) 2 tests/pure/intake tests/pure/ordering tests/pure/segments

bench: venv  ## what it costs, each figure beside a baseline of the same run (LINES="…" EVENTS=n ROUNDS=n)
	@$(BIN)/python -m tests.bench

quality: venv  ## whether what is compiled is any good, on held-out real sessions and planted truth (TASKS="…" HMX_DATA=dir)
	@$(BIN)/python -m tests.quality

act: venv  ## whether an agent can act on packs alone, in the worlds of HMX_ACT (SEEDS="…" FAMILIES="…" BUDGET=n OVER=mcp)
	@$(BIN)/python -m tests.act

conformance: venv  ## every requirement of the specifications, the tests that prove it, and what is still open
	@$(BIN)/python -m tests.support.conformance

crash: venv  ## kill, freeze and restart everything under load, then verify every record (SEED=n EVENTS=n FAULTS=n)
	@$(BIN)/python -m tests.harness

soak: venv  ## traffic that grows in every dimension against fixed limits of memory; fails where something still grows (MINUTES=n)
	@$(BIN)/python -m tests.soak

scale: venv  ## bytes and CPU an event and a memory, of many tenants, from samples, and what that costs (TENANTS=n MEMORIES=n EVENTS=n)
	@$(BIN)/python -m tests.scale

fuzz: venv  ## 100,000 coverage-guided inputs to intake (the fuzzer's package is for Linux on x86_64)
	@[ -d $(VENV)/fuzz ] || $(PIP) --require-hashes --target $(VENV)/fuzz -r tests/fuzz/requirements.lock
	@PYTHONPATH=$(VENV)/fuzz $(BIN)/python -m tests.fuzz.fuzz_decode $(FUZZ)

reference: venv  ## 200,000 events on the real broker, the worker killed meanwhile: every outcome as a plain reference says
	@$(BIN)/python -m pytest -s -m slow tests/journey/test_reference_broker.py

secrets: venv  ## how many secrets intake finds and how often it errs, beside detect-secrets and credsweeper
	@[ -d $(VENV)/secrets ] || $(PIP) --no-deps --require-hashes --target $(VENV)/secrets -r tests/secrets/requirements.lock
	@$(BIN)/python -m tests.secrets $(VENV)/secrets

lint: venv  ## ruff, mypy, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

lock: venv  ## pin every dependency anew, with hashes (add UPGRADE=--upgrade for newer versions)
	@$(COMPILE) $(UPGRADE) pyproject.toml --extra dev --output-file requirements-dev.lock
	@$(COMPILE) pyproject.toml --extra archive --extra mcp --extra nats --constraint requirements-dev.lock --output-file requirements.lock
	@$(COMPILE) $(UPGRADE) tests/chart/requirements.in --constraint requirements-dev.lock --output-file tests/chart/requirements.lock
	@$(COMPILE) $(UPGRADE) tests/clients/requirements.in --output-file tests/clients/requirements.lock
	@for name in agents crewai otel; do $(COMPILE) $(UPGRADE) tests/frameworks/$$name.in --output-file tests/frameworks/$$name.lock; done
	@$(COMPILE) $(UPGRADE) tests/fuzz/requirements.in --output-file tests/fuzz/requirements.lock
	@$(COMPILE) $(UPGRADE) --no-emit-package pyxlsb --no-emit-package pysquashfsimage \
		tests/secrets/requirements.in --output-file tests/secrets/requirements.lock
	@$(COMPILE) $(UPGRADE) tests/site/requirements.in --constraint requirements-dev.lock --output-file tests/site/requirements.lock
	@$(COMPILE) $(UPGRADE) --no-deps tests/web/requirements.in --output-file tests/web/requirements.lock
	@$(BIN)/python -m hmx_pipeline.local.jars

clean:  ## remove the virtual environment, caches and the local stack's data
	@if [ -x $(BIN)/python ] && [ -d .hmx ]; then \
		$(BIN)/python -c 'import pathlib, hmx_pipeline.local.stack as stack; stack.down(pathlib.Path(".hmx"))'; \
	fi
	@rm -rf $(VENV) .hmx .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info build
	@find pipeline tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made once, and again only when the content of the lock or the place of the checkout has changed.
venv:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "error: '$(PYTHON)' was not found; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V 2>&1); name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@lock="$$(cksum < $(LOCK)) $(CURDIR)"; project="$$(cksum < pyproject.toml)"; \
	set -e; \
	if [ "$$(cat $(VENV)/.lock 2>/dev/null)" != "$$lock" ]; then \
		echo "making $(VENV) from $(LOCK), this once: a minute where nothing else runs and the line is fast"; \
		rm -rf $(VENV); \
		$(PYTHON) -m venv $(VENV); \
		$(subst --quiet,--progress-bar off,$(PIP)) --require-hashes -r $(LOCK) | $(TOLD); \
		echo "$$lock" > $(VENV)/.lock; \
	fi; \
	if [ "$$(cat $(VENV)/.project 2>/dev/null)" != "$$project" ]; then \
		echo "  installing hmx-pipeline itself"; \
		$(PIP) --no-deps --no-build-isolation --editable .; \
		echo "$$project" > $(VENV)/.project; \
	fi
