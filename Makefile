# Everything there is to do with a clone of morphspark; `make help` lists it.
#
# Two commands are enough on a fresh machine with python3 (3.11 or later) and a C++20 compiler: `make run` and
# `make test`. Each first does what `make build` does: a private .venv with exact versions (constraints.txt), and
# the native module. Repeated calls cost nothing, as stamp files in .venv remember what is done.

PYTHON ?= python3
CXX    ?= g++
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# --- build -----------------------------------------------------------------------------------------------------

CORE_INPUTS := setup.py $(wildcard morphspark/*.pyx morphspark/*.pxd) \
               $(shell find csrc -name '*.cc' -o -name '*.h' 2>/dev/null | sort)

.PHONY: build
build: $(VENV)/.built ## create .venv, install everything, compile the native module

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is missing or older than 3.11. Install Python 3.11 or later, or name one: make PYTHON=python3.12 …" >&2; \
	  exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "$(PYTHON) cannot create virtual environments. On Debian and Ubuntu: apt install python3-venv;" >&2; \
	  echo "without root: $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV), then make again." >&2; \
	  exit 1; }
	@touch $@

# The build requirements come first and isolation is off, so that the headers we compile against are those of the
# pinned pyarrow, and nothing is downloaded twice. editable_mode=compat puts this folder itself on Python's path: Spark
# looks there for modules called pyspark_*, and does not see what an import hook would find. (Its short name, -C, is not
# known to the pip that comes with Python 3.11 on Debian.)
$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	@command -v $(CXX) >/dev/null || { echo "No C++ compiler '$(CXX)': install g++ 12 or later, or name one: make CXX=…" >&2; exit 1; }
	@echo "installing into $(VENV) (the first time this downloads several hundred MB)"
	@$(PIP) install -c constraints.txt setuptools cython pyarrow numpy
	@$(PIP) install -c constraints.txt --no-build-isolation --config-settings editable_mode=compat -e '.[all]'
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(CORE_INPUTS) morphspark/java.py
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@$(BIN)/python -m morphspark.java
	@touch $@

# --- run and test ----------------------------------------------------------------------------------------------

.PHONY: run test pytest fuzz crash faults soak bench notebooks
run: build ## stream a generated ledger through Spark for about 30 s, with live progress and a summary
	@$(BIN)/morphspark run conf/ledger.toml

test: native-test pytest ## every test: native, then Python (under 10 minutes on 2 cores)

pytest: build ## the Python tests; choose some with ARGS='-k ledger'
	@$(BIN)/python -m pytest $(ARGS)

fuzz: build ## 10,000 seeded interleavings, 2,000 apps with windows, then generated apps on all schedules for half an hour
	@MORPHSPARK_SEEDS=10000 $(MAKE) --no-print-directory native-test NATIVE_ARGS=--run_test=strategies
	@MORPHSPARK_WINDOW_SEEDS=2000 $(BIN)/python -m pytest tests/test_window_properties.py
	@MORPHSPARK_FUZZ=long $(BIN)/python -m pytest -s tests/test_properties.py $(ARGS)

crash: build ## kill 500 engines and 20 Spark queries, start them again, compare with the oracle (under 20 minutes)
	@$(BIN)/python tests/crash $(ARGS)

SOAK_SECONDS ?= 600
soak: build ## sliding windows and sessions for 10 minutes; fails if memory grows (SOAK_SECONDS=60 for less)
	@$(BIN)/python tests/soak.py --seconds $(SOAK_SECONDS)

faults: build ## fail every call to the disk of a run of 20 epochs, in every way (about 3 minutes)
	@MORPHSPARK_FAULTS=all $(BIN)/python -m pytest tests/test_fail_nth.py $(ARGS)

BENCH ?= engine sink
bench: build ## benchmarks; choose with BENCH='regret dynamic', pass on ARGS=--quick
	@for suite in $(BENCH); do $(BIN)/morphspark bench $$suite $(ARGS); done

notebooks: build ## execute all notebooks from top to bottom; changes none of them
	@$(BIN)/jupyter-execute --timeout=600 notebooks/*.ipynb

# --- native tests ----------------------------------------------------------------------------------------------
# All of csrc/ and tests/native/*_test.cc in one Boost.Test binary, with assertions on and no Python. There are
# three flavours, which differ in flags only; each has its objects in build/<flavour>/.

NATIVE_SOURCES := $(shell find csrc -name '*.cc' ! -name '*_test.cc' 2>/dev/null | sort) \
                  $(sort $(wildcard tests/native/*.cc))
NATIVE_FLAGS   := -std=c++20 -g -ffp-contract=off -fno-math-errno -Wall -Wextra -pthread -Icsrc
# The folder python3* inside .venv is known only after `make build`, so the shell fills it in.
SITE           := $(VENV)/lib/python3*/site-packages
NATIVE_SYSTEM  := -isystem $(SITE)/cmeel.prefix/include -isystem $(SITE)/pyarrow/include

native_FLAGS := -O1
asan_FLAGS   := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
tsan_FLAGS   := -O1 -fsanitize=thread -fno-omit-frame-pointer

# Boost's runner is not under test: unoptimised it compiles three times faster.
build/%/tests/native/main.o: UNIT_FLAGS := -O0

define flavour
build/$(1)/native_tests: $$(NATIVE_SOURCES:%.cc=build/$(1)/%.o)
	@$$(CXX) $$($(1)_FLAGS) -pthread $$^ -o $$@

build/$(1)/%.o: %.cc Makefile constraints.txt | $$(VENV)/.installed
	@mkdir -p $$(@D)
	@echo "$(1): $$<"
	@$$(CXX) $$(NATIVE_FLAGS) $$($(1)_FLAGS) $$(UNIT_FLAGS) $$(NATIVE_SYSTEM) -MMD -MP -c $$< -o $$@

-include $$(NATIVE_SOURCES:%.cc=build/$(1)/%.d)
endef
$(foreach f,native asan tsan,$(eval $(call flavour,$(f))))

.PHONY: native-test asan tsan
native-test: build ## the C++ tests; choose some with NATIVE_ARGS=--run_test=name
	@$(MAKE) --no-print-directory -j$(JOBS) build/native/native_tests
	@build/native/native_tests $(NATIVE_ARGS)

asan: build ## the C++ tests under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory -j$(JOBS) build/asan/native_tests
	@build/asan/native_tests $(NATIVE_ARGS)

# The thread sanitizer needs its memory map at fixed places: no address randomisation (setarch -R).
tsan: build ## the C++ tests under the thread sanitizer
	@$(MAKE) --no-print-directory -j$(JOBS) build/tsan/native_tests
	@TSAN_OPTIONS="halt_on_error=1 $${TSAN_OPTIONS:-}" setarch "$$(uname -m)" -R build/tsan/native_tests $(NATIVE_ARGS)

# --- checks ----------------------------------------------------------------------------------------------------

CXX_FILES = $$(find csrc tests/native -name '*.cc' -o -name '*.h')

.PHONY: check lint format
check: lint test ## what CI runs

lint: build ## ruff, cython-lint and clang-format, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint morphspark  # it calls pycodestyle by name
	@echo "$(BIN)/clang-format --dry-run -Werror csrc tests/native"
	@$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)

format: build ## rewrite the sources the way lint wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@$(BIN)/clang-format -i $(CXX_FILES)

.PHONY: clean distclean
clean: ## remove what was built, keep .venv
	rm -rf build morphspark/_core.cpp morphspark/_core.*.so *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	rm -f $(VENV)/.built

distclean: clean ## remove .venv too
	rm -rf $(VENV)
