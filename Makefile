# kolo's commands; `make help` lists them. Needs GNU make.

MPI    ?= openmpi
PREFIX ?= /usr/local
RANKS  ?= 4
# Of `make fuzz`.
TARGET  ?= topology
SECONDS ?= 60

# The environment may name another cargo; a fresh rustup is found without a new login.
CARGO  ?= cargo
export PATH := $(PATH):$(HOME)/.cargo/bin
SHELL  := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# `make test` covers the MPI families below; the rest uses the one named by MPI, and `make install
# MPI=mpich` installs for that one alone. Where the MPI's compilers have other names:
# make install MPI=mpich MPICC_mpich=mpicc MPIFC_mpich=mpifort
ifneq ($(filter install build deb,$(MAKECMDGOALS)),)
ifneq ($(origin MPI),file)
FAMILIES ?= $(MPI)
endif
endif
FAMILIES      ?= openmpi mpich
KNOWN         := openmpi mpich abi
MPICC_openmpi ?= mpicc.openmpi
MPICC_mpich   ?= mpicc.mpich
# The compiler of an MPI with MPI 5's standard binary interface: MPICC_ABI=/opt/mpich-5/bin/mpicc_abi
MPICC_ABI     ?= mpicc_abi
MPICC_abi     := $(CURDIR)/bindings/mpi/abi/mpicc
export MPICC_ABI
MPIFC_openmpi ?= mpifort.openmpi
MPIFC_mpich   ?= mpifort.mpich
# The plain names mean the MPI that is named by MPI. (A module may have them in the environment.)
ifeq ($(origin MPICC),command line)
MPICC_$(MPI) := $(MPICC)
endif
ifeq ($(origin MPIFC),command line)
MPIFC_$(MPI) := $(MPIFC)
endif

# Looked up when it is needed: `make deps` may have installed it just now.
FLANG = $(firstword $(shell command -v flang-new-19 flang-19 flang-new-18 flang-new flang))
# Fortran compilers to build for. The first is the one that the MPI's own wrapper runs.
COMPILERS ?= gfortran $(FLANG)

# What is installed is the release build. `make test` builds once, with debug assertions and overflow
# checks (profile dev), and uses that for lints, for the tests in Rust and for what runs under MPI.
PROFILE ?= release
BUILT    = target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
STAGE    = $(CURDIR)/build/$(if $(filter dev,$(PROFILE)),checked,stage)

TESTED  := --workspace --exclude kolo-mpi --exclude kolo-pmpi
FORTRAN := $(wildcard bindings/fortran/*.*)
MPI_SRC := $(wildcard bindings/mpi/src/* bindings/mpi/build.rs bindings/mpi/*.h bindings/mpi/abi/* bindings/mpi/front/*) \
           $(wildcard bindings/pmpi/src/* bindings/pmpi/build.rs bindings/pmpi/front/*) \
           $(wildcard src/tune/mpi_table.rs src/base/mpi_calls.rs) Cargo.lock
# The example in Rust that is linked to an MPI is built with it, for the tests.
MPI_RUST = $(if $(filter dev,$(PROFILE)),--lib --example hello_mpi)
MPI_PARTS := -p kolo-mpi -p kolo-pmpi

# What a module for one of these MPIs must know; MODULES_openmpi=... is taken from the environment.
COMPILER_NAMES = $(foreach one,$(FAMILIES),MPICC_$(one)="$(MPICC_$(one))")

ifneq ($(filter-out $(KNOWN),$(MPI) $(FAMILIES)),)
$(error MPI=$(MPI) FAMILIES=$(FAMILIES): not known; use one of: $(KNOWN))
endif

.DEFAULT_GOAL := help
# The order of prerequisites matters, and cargo uses all cores by itself.
.NOTPARALLEL:
.PHONY: always prefix help demo test build install uninstall deb deps check bench fuzz guide clean stage \
        compilers core $(FAMILIES:%=mpi-%) fortran interfaces test-rust test-install test-abi test-mpi test-rdma \
        test-rdma-short test-cluster deps-build bench-peers chaos test-chaos mutations spank \
        kernels test-sass gpu-bundle test-gpu test-full test-softgpu

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
	@echo 'Variables: MPI=openmpi|mpich (which mpirun; default openmpi), PREFIX=/usr/local, RANKS=4'

demo: deps-build stage ## install what is missing, build, run the tsunami model and a short kolo perf
	@tests/demo.sh $(STAGE) $(MPI) $(RANKS)

test: deps check test-rust stage test-install test-abi test-mpi test-cluster test-chaos test-rdma-short ## install what is missing, run every test
	@echo 'make test: everything passed'

test-full: export KOLO_TEST_FULL = 1
test-full: ROUNDS = 120
test-full: test ## the same with all of the large grids, of which `make test` draws a part (an hour)

build: compilers core $(FAMILIES:%=mpi-%) fortran ## build the libraries and the command (release)

# Asked before minutes of building.
prefix:
	@FAMILIES="$(FAMILIES)" bindings/install.sh --check "$(PREFIX)"

install: prefix build ## install: PREFIX=/opt/kolo/0.1.0-openmpi MPI=openmpi COMPILERS="gfortran flang-new-19"
	@BUILT=$(BUILT) FAMILIES="$(FAMILIES)" $(COMPILER_NAMES) bindings/install.sh "$(PREFIX)"

uninstall: ## remove what install put under PREFIX; settings that you changed stay
	@bindings/install.sh --remove "$(PREFIX)"

# See config/packaging for those of Spack, EasyBuild and RPM.
deb: build ## make a package for Debian, MPI=mpich: kolo-mpich (needs: cargo install cargo-deb)
	@rm -rf build/package
	@BUILT=$(BUILT) DESTDIR=$(CURDIR)/build/package FAMILIES="$(FAMILIES)" bindings/install.sh /usr
	$(CARGO) deb --no-build --no-strip $(if $(word 2,$(FAMILIES)),,--variant=$(FAMILIES))

deps: ## install missing packages with apt, after saying which and why
	@config/deps.sh

deps-build:
	@config/deps.sh --build

test test-full check: PROFILE = dev

check: ## formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --profile $(PROFILE) $(TESTED) --all-targets -- -D warnings
	MPICC=$(MPICC_$(MPI)) $(CARGO) clippy --locked --profile $(PROFILE) $(MPI_PARTS) -- -D warnings

test-rdma: deps ## run all RDMA tests, in a virtual machine that has RDMA devices
	CARGO=$(CARGO) tests/softroce/verbs.sh

# Its pages are the same that stand in docs/; `make test` follows their links without building it.
guide: build/tools/bin/mdbook ## build the guide as a book: build/guide/book/index.html
	@docs/guide/build.sh build/guide build/tools/bin/mdbook
	@echo 'The guide: $(CURDIR)/build/guide/book/index.html'

# Some minutes of compiling, once.
build/tools/bin/mdbook: config/mdbook.txt
	$(CARGO) install --locked --root build/tools --no-default-features --features search \
	    --version $$(cat config/mdbook.txt) mdbook
	@touch $@

fuzz: ## run one parser of foreign bytes over drawn input: TARGET=topology SECONDS=60
	@mkdir -p build/fuzz/$(TARGET)
	$(CARGO) fuzz run --fuzz-dir tests/fuzz --target-dir target/fuzz -s none $(TARGET) \
	    build/fuzz/$(TARGET) tests/fuzz/corpus/$(TARGET) -- \
	    -max_total_time=$(SECONDS) -max_len=65536 -artifact_prefix=build/fuzz/$(TARGET)-

mutations: ## break one line of each mechanism at a time, and see its test fail: ROW=35 for one row
	CARGO=$(CARGO) tests/mutations.py $(ROW)

spank: ## build Slurm's plugin, for the headers in SLURM_INCLUDE=/usr/include
	@$(MAKE) --no-print-directory -C slurm spank

# NVIDIA's compiler comes from PyPI (110 MB) into build/cuda; nothing else of kolo needs it. `make
# install` takes the kernels where they are built.
KERNEL_SRC := $(wildcard $(addprefix kernels/, *.h *.py *.sh *.txt *.cu kernels.def))

kernels: build/kernels/kolo_kernels.fatbin ## build the kernels for GPUs, without GPU and CUDA

build/kernels/kolo_kernels.fatbin: $(KERNEL_SRC)
	@kernels/build.sh

test-sass: kernels ## break compiled kernels, and see the check of their machine code fail
	@kernels/build.sh --self-test

test-softgpu: ## every case and every fault of the kernels, on GPUs made of software
	KOLO_TEST_FULL=1 $(CARGO) test --locked -p kolo-kernels-host -p kolo-softgpu -p kolo-device-tests
	KOLO_TEST_FULL=1 $(CARGO) test --locked --test cuda

# For machines with a GPU that have neither a network nor a compiler: docs/gpu.md.
gpu-bundle: kernels ## build the program that tests real GPUs, with all it loads: build/gpu-bundle.tar
	$(CARGO) build --locked --profile $(PROFILE) -p kolo-device-tests
	@tests/machines/device-tests/bundle.sh $(BUILT)/kolo-device-tests build/gpu-bundle build/kernels

test-gpu: gpu-bundle ## the same, and run it here if there is a GPU (at most 18 minutes)
	@if [ -e /dev/nvidiactl ] || [ -n "$${KOLO_CUDA_LIBRARY:-}" ]; then build/gpu-bundle/run.sh; \
	else echo 'There is no GPU here: take build/gpu-bundle.tar to one, and run gpu-bundle/run.sh.'; fi

bench: stage ## run the benchmarks
	$(CARGO) bench --locked

# Fetches the other MPIs by apt and pip into build/peers.
bench-peers: ## time kolo beside Open MPI 4 and 5, MPICH 4 and 5, Intel MPI: PEERS="--np 2 --quick"
	@$(MAKE) --no-print-directory FAMILIES=openmpi stage
	benches/peers/peers.py --kolo $(STAGE) $(PEERS)

clean: ## remove everything that was built
	rm -rf build target

# Without the headers there is no plugin for libfabric, and nothing else lacks it.
OFI = $(shell pkg-config --exists libfabric 2>/dev/null && echo -p kolo-ofi)

core:
	@command -v $(CARGO) >/dev/null || { \
	    echo "There is no $(CARGO) in the PATH of $$(id -un). Name it: make CARGO=/path/to/cargo ..."; \
	    echo "To install as root: 'make build' as yourself, then 'bindings/install.sh PREFIX' as root."; \
	    exit 1; }
	$(CARGO) build --locked --profile $(PROFILE) -p kolo-command -p kolo-c -p kolo-verbs \
	    -p kolo-softgpu $(OFI)
	@$(if $(OFI),,echo 'There are no headers of libfabric here: libkolo_ofi.so is not built.')

# Nothing is built before the compilers are known to be some. Only a name that somebody has chosen
# must be that of a Fortran compiler: not all MPIs have one.
FOR_FORTRAN = $(if $(strip $(COMPILERS)),$(filter-out abi,$(FAMILIES)))
COMPILER    = bindings/mpi/compiler.sh
MPIFC_WORDS = $(if $(filter file,$(origin MPIFC_$(1))),--if-there) MPIFC_$(1) "$(MPIFC_$(1))"

compilers:
	@$(foreach one,$(FAMILIES),$(COMPILER) MPICC_$(one) "$(MPICC_$(one))" &&) true
	@$(foreach one,$(FOR_FORTRAN),$(COMPILER) $(call MPIFC_WORDS,$(one)) &&) true

# The bindings are generated from the headers of one MPI, and cargo does not see that MPICC changed.
$(FAMILIES:%=mpi-%): mpi-%: core
	@$(MAKE) --no-print-directory PROFILE=$(PROFILE) $(BUILT)/mpi/$*/libkolo_mpi.so

# It takes one word, and is given one.
$(BUILT)/mpi/%/libkolo_mpi.so: $(MPI_SRC) $(BUILT)/mpi/%/compiler
	@printf '#!/bin/sh\nexec %s "$$@"\n' '$(MPICC_$*)' >$(@D)/mpicc && chmod +x $(@D)/mpicc
	$(CARGO) clean --quiet --locked --profile $(PROFILE) -p mpi-sys $(MPI_PARTS)
	MPICC=$(CURDIR)/$(@D)/mpicc $(CARGO) build --locked --profile $(PROFILE) $(MPI_PARTS) $(MPI_RUST)
	@MPICC=$(@D)/mpicc bindings/mpi/front/build.sh $(BUILT) $(@D)
	@bindings/pmpi/front/build.sh $(BUILT) $(@D)
	@$(if $(MPI_RUST),install -D $(BUILT)/examples/hello_mpi $(@D)/hello_mpi)

# Is newer than what was built when another compiler is named, or the name leads elsewhere.
.PRECIOUS: $(BUILT)/mpi/%/compiler
$(BUILT)/mpi/%/compiler: always
	@$(COMPILER) MPICC_$* "$(MPICC_$*)" $@

# One build per compiler. That of the first is repeated for each MPI, because of its module mpi_f08;
# MPI's standard binary interface has no Fortran.
FORTRAN_FAMILIES = $(or $(filter-out abi,$(FAMILIES)),abi)

fortran: core $(FORTRAN_FAMILIES:%=build/fortran/%/done) build/fortran/others/done

# Is newer than what was built when other compilers are named.
build/fortran/compilers: always
	@mkdir -p $(@D)
	@echo '$(COMPILERS)' | cmp -s - $@ || echo '$(COMPILERS)' >$@

$(FOR_FORTRAN:%=build/fortran/%.mpifc): build/fortran/%.mpifc: always
	@$(COMPILER) $(call MPIFC_WORDS,$*) $@

$(FOR_FORTRAN:%=build/fortran/%/done): build/fortran/%/done: build/fortran/%.mpifc
$(FORTRAN_FAMILIES:%=build/fortran/%/done): build/fortran/%/done: $(FORTRAN) \
        bindings/c/include/kolo.h build/fortran/compilers
	@rm -rf $(@D) && mkdir -p $(@D)
	@for compiler in $(firstword $(COMPILERS)); do \
	    FC=$$compiler MPIFC="$(MPIFC_$*)" LIBDIR=$(CURDIR)/$(BUILT) bindings/fortran/build.sh $(@D) || \
	        exit 1; \
	done
	@touch $@

build/fortran/others/done: $(FORTRAN) bindings/c/include/kolo.h build/fortran/compilers
	@rm -rf $(@D) && mkdir -p $(@D)
	@for compiler in $(wordlist 2,99,$(COMPILERS)); do \
	    FC=$$compiler LIBDIR=$(CURDIR)/$(BUILT) bindings/fortran/build.sh $(@D) || exit 1; \
	done
	@$(if $(FLANG),,echo 'There is no flang here: the Fortran module is built for $(COMPILERS) only.')
	@touch $@

# The test of the package compares the committed file with what the program prints.
interfaces: ## write bindings/fortran/kolo_calls.inc anew from its table
	$(CARGO) run --locked --quiet -p kolo-fortran-interfaces >bindings/fortran/kolo_calls.inc.new
	@mv bindings/fortran/kolo_calls.inc.new bindings/fortran/kolo_calls.inc

stage: build
	@rm -rf $(STAGE)
	@BUILT=$(BUILT) DESTDIR= FAMILIES="$(FAMILIES)" $(COMPILER_NAMES) bindings/install.sh $(STAGE)

test-rust:
	CARGO=$(CARGO) tests/rust.py --locked $(TESTED)

test-install:
	BUILT=$(BUILT) tests/install.sh $(STAGE)

# An MPI with the standard binary interface, for the tests: no distribution has one yet, PyPI has.
MPI_FOR_ABI = $(CURDIR)/build/mpi-abi

$(MPI_FOR_ABI)/bin/mpicc_abi: config/python.txt
	@rm -rf $(MPI_FOR_ABI)
	python3 -m venv $(MPI_FOR_ABI)
	$(MPI_FOR_ABI)/bin/pip install --quiet --disable-pip-version-check -r config/python.txt
	@touch $@

test-abi:
	@if $(MAKE) --no-print-directory $(MPI_FOR_ABI)/bin/mpicc_abi; then \
	    export MPICC_ABI=$(MPI_FOR_ABI)/bin/mpicc_abi && \
	    $(MAKE) --no-print-directory PROFILE=$(PROFILE) $(BUILT)/mpi/abi/libkolo_mpi.so && \
	    BUILT=$(BUILT) tests/install/abi.sh $(STAGE); \
	else tests/skip/skip.sh abi 'MPICH 5 cannot be fetched from PyPI'; fi

# One start of the virtual machine, and what fits into a minute of it: what is short, and the tests
# of a missing library, of forks, of ports that are down, and of two NUMA nodes.
RDMA_SHORT := short:: homes:: alone::a_missing lifecycle::a_fork lifecycle::a_bad

test-rdma-short:
	CARGO=$(CARGO) LIMIT=150 tests/softroce/verbs.sh $(RDMA_SHORT)

# Programs of others that are run on libkolo_pmpi.so, from PyPI (130 MB, two minutes, once).
JUDGES     = $(CURDIR)/build/judges
JUDGED     = $(filter-out abi,$(FAMILIES))
JUDGES_FOR = $(JUDGES)/for-$(subst $(SPACE),-,$(strip $(JUDGED)))
NOTHING   :=
SPACE     := $(NOTHING) $(NOTHING)

$(JUDGES)/for-%: config/judges.txt tests/mpi/dropin/fetch.sh
	tests/mpi/dropin/fetch.sh $(JUDGES) $(JUDGED)
	@touch $@

test-mpi:
	@$(MAKE) --no-print-directory $(JUDGES_FOR) $(MPI_FOR_ABI)/bin/mpicc_abi || \
	    tests/skip/skip.sh judges 'programs of others cannot be fetched from PyPI'
	$(CARGO) build --locked $(TESTED) --example mpi_net --example hello
	tests/mpi/run.sh $(STAGE) $(FAMILIES)

# On emulated nodes, as root or through sudo; ONLY=word chooses among them.
test-cluster:
	tests/cluster/run.py $(STAGE) $(ONLY)

# See tests/chaos/README.md; HERE=1 needs no root.
chaos: stage ## play random calls under random faults: SECONDS=600, or SEED=123 again
	tests/chaos/run.py $(STAGE) $(SEED:%=--seed %) $(SECONDS:%=--seconds %) $(OVER:%=--over %) \
	    $(HERE:%=--here)

# The same rounds every time: who hunts for new faults draws others, by `make chaos`.
ROUNDS ?= 40
test-chaos:
	tests/chaos/run.py $(STAGE) --start 1 --seconds $(ROUNDS) --rounds $(ROUNDS)
