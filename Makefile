# kolo's commands; `make help` lists them. Needs GNU make.

MPI    ?= openmpi
PREFIX ?= /usr/local
RANKS  ?= 4

# The environment may name another cargo; a fresh rustup is found without a new login.
CARGO  ?= cargo
export PATH := $(PATH):$(HOME)/.cargo/bin
SHELL  := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# `make test` covers both MPI families; the rest uses the one named by MPI. On a machine with one
# MPI under other names: make install FAMILIES=mpich MPICC_mpich=mpicc MPIFC_mpich=mpifort
FAMILIES      ?= openmpi mpich
MPICC_openmpi ?= mpicc.openmpi
MPICC_mpich   ?= mpicc.mpich
MPIFC_openmpi ?= mpifort.openmpi
MPIFC_mpich   ?= mpifort.mpich

# Looked up when it is needed: `make deps` may have installed it just now.
FLANG = $(firstword $(shell command -v flang-new-19 flang-19 flang-new-18 flang-new flang))

STAGE   := $(CURDIR)/build/stage
TESTED  := --workspace --exclude kolo-mpi
FORTRAN := $(wildcard bindings/fortran/*)

ifeq ($(filter $(MPI),$(FAMILIES)),)
$(error MPI=$(MPI) is not known: use one of: $(FAMILIES))
endif

.DEFAULT_GOAL := help
# The order of prerequisites matters, and cargo uses all cores by itself.
.NOTPARALLEL:
.PHONY: help demo test build install uninstall deps check bench clean stage \
        core $(FAMILIES:%=mpi-%) fortran test-rust test-install test-mpi test-rdma \
        test-rdma-short test-cluster deps-build

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
	@echo 'Variables: MPI=openmpi|mpich (which mpirun; default openmpi), PREFIX=/usr/local, RANKS=4'

demo: deps-build stage ## install what is missing, build, run the tsunami model and a short kolo perf
	@tests/demo.sh $(STAGE) $(MPI) $(RANKS)

test: deps check test-rust stage test-install test-mpi test-cluster test-rdma-short ## install what is missing, run every test
	@echo 'make test: everything passed'

build: core $(FAMILIES:%=mpi-%) fortran ## build the libraries and the command (release)

install: build ## install under PREFIX (DESTDIR is honoured)
	@FAMILIES="$(FAMILIES)" bindings/install.sh "$(PREFIX)"

uninstall: ## remove what install put under PREFIX; settings in PREFIX/etc stay
	@bindings/install.sh --remove "$(PREFIX)"

deps: ## install missing packages with apt, after saying which and why
	@config/deps.sh

deps-build:
	@config/deps.sh --build

check: ## formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked $(TESTED) --all-targets -- -D warnings
	MPICC=$(MPICC_$(MPI)) $(CARGO) clippy --locked --release -p kolo-mpi --target-dir target/$(MPI) \
	    -- -D warnings

test-rdma: deps ## run all RDMA tests, in a virtual machine that has RDMA devices
	CARGO=$(CARGO) tests/softroce/verbs.sh

bench: stage ## run the benchmarks
	$(CARGO) bench --locked

clean: ## remove everything that was built
	rm -rf build target

core:
	$(CARGO) build --locked --release -p kolo -p kolo-c -p kolo-verbs

# One target directory per MPI, because the bindings are generated from its headers.
$(FAMILIES:%=mpi-%): mpi-%: core
	MPICC=$(MPICC_$*) $(CARGO) build --locked --release -p kolo-mpi --target-dir target/$*

# One build per compiler; gfortran's is repeated for each MPI, because of its module mpi_f08.
fortran: core $(FAMILIES:%=build/fortran/%/done) build/fortran/flang/done

$(FAMILIES:%=build/fortran/%/done): build/fortran/%/done: $(FORTRAN) bindings/c/include/kolo.h
	FC=gfortran MPIFC=$(MPIFC_$*) LIBDIR=$(CURDIR)/target/release bindings/fortran/build.sh $(@D)
	@touch $@

build/fortran/flang/done: $(FORTRAN) bindings/c/include/kolo.h
	@if [ -n "$(FLANG)" ]; then \
	    FC=$(FLANG) LIBDIR=$(CURDIR)/target/release bindings/fortran/build.sh $(@D) && touch $@; \
	else echo 'There is no flang here: the Fortran module is built for gfortran only.'; fi

stage: build
	@rm -rf $(STAGE)
	@DESTDIR= FAMILIES="$(FAMILIES)" bindings/install.sh $(STAGE)

# Tests use the dev profile (debug assertions, overflow checks) and share its build with clippy;
# what is staged, and run under MPI, is the release build that users get.
test-rust:
	$(CARGO) test --locked --no-fail-fast $(TESTED)

test-install:
	tests/install.sh $(STAGE)

# One start of the virtual machine, and what fits into a minute of it.
test-rdma-short:
	CARGO=$(CARGO) LIMIT=120 tests/softroce/verbs.sh short::

test-mpi:
	$(CARGO) build --locked --example mpi_net
	tests/mpi/run.sh $(STAGE) $(FAMILIES)

# On emulated nodes, as root or through sudo; ONLY=word chooses among them.
test-cluster:
	tests/cluster/run.py $(STAGE) $(ONLY)
