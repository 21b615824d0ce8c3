# kolo's commands; `make help` lists them. Needs GNU make.

MPI    ?= openmpi
PREFIX ?= /usr/local
RANKS  ?= 4

# The environment may name another cargo; a fresh rustup is found without a new login.
CARGO  ?= cargo
export PATH := $(PATH):$(HOME)/.cargo/bin
SHELL  := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# `make test` covers both MPI families; the rest uses the one named by MPI.
FAMILIES := openmpi mpich
STAGE    := $(CURDIR)/build/stage
TESTED   := --workspace --exclude kolo-mpi

ifeq ($(filter $(MPI),$(FAMILIES)),)
$(error MPI=$(MPI) is not known: use one of: $(FAMILIES))
endif

.DEFAULT_GOAL := help
.PHONY: help demo test build install uninstall deps check bench clean stage \
        core $(FAMILIES:%=mpi-%) fortran test-rust test-loom test-install test-mpi

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
	@echo 'Variables: MPI=openmpi|mpich (which mpirun; default openmpi), PREFIX=/usr/local, RANKS=4'

demo: deps stage ## install what is missing, build, run the tsunami model and a short kolo perf
	@tests/demo.sh $(STAGE) $(MPI) $(RANKS)

test: deps check test-rust test-loom stage test-install test-mpi ## install what is missing, run every test
	@echo 'make test: everything passed'

build: core $(FAMILIES:%=mpi-%) fortran ## build the libraries and the command (release)

install: build ## install under PREFIX (DESTDIR is honoured)
	@bindings/install.sh "$(PREFIX)"

uninstall: ## remove what install put under PREFIX; settings in PREFIX/etc stay
	@bindings/install.sh --remove "$(PREFIX)"

deps: ## install missing packages with apt, after saying which and why
	@config/deps.sh

check: ## formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked $(TESTED) --all-targets -- -D warnings

bench: stage ## run the benchmarks
	$(CARGO) bench --locked

clean: ## remove everything that was built
	rm -rf build target

core:
	$(CARGO) build --locked --release -p kolo -p kolo-c

# One target directory per MPI, because the bindings are generated from its headers.
$(FAMILIES:%=mpi-%): mpi-%: core
	MPICC=mpicc.$* $(CARGO) build --locked --release -p kolo-mpi --target-dir target/$*

fortran: core
	bindings/fortran/build.sh build/fortran

stage: build
	@rm -rf $(STAGE)
	@DESTDIR= bindings/install.sh $(STAGE)

# Tests use the dev profile (debug assertions, overflow checks) and share its build with clippy;
# what is staged, and run under MPI, is the release build that users get.
test-rust:
	$(CARGO) test --locked $(TESTED)

test-loom:
	RUSTFLAGS='--cfg loom' $(CARGO) test --locked --target-dir target/loom --test loom

test-install:
	tests/install.sh $(STAGE)

test-mpi:
	tests/mpi/run.sh $(STAGE) $(FAMILIES)
