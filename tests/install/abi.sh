#!/usr/bin/env bash
# The family `abi`: programs that were compiled for MPI 5's standard binary interface run on the one
# libkolo_mpi for all MPIs that have it; programs for another interface are told so.
#
#   MPICC_ABI=.../mpicc_abi BUILT=target/debug tests/install/abi.sh STAGE
#
# STAGE is an installation for mpich; the one for abi is made here, beside nothing else.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
stage=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAIL  abi: $*" >&2; exit 1; }
for name in $(compgen -e | grep -E '^(KOLO|NCCL)_' || true); do unset "$name"; done
unset LD_LIBRARY_PATH
mpi=$(dirname "$(dirname "$MPICC_ABI")")
prefix=$scratch/kolo
(cd "$top" && FAMILIES=abi DESTDIR='' bindings/install.sh "$prefix") >"$scratch/log"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
launch="timeout 60 $mpi/bin/mpirun -n 3"

library=$prefix/lib/kolo/abi/libkolo_mpi.so
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
! echo "$needed" | grep -q libmpi || fail "the library needs $needed"

# The interface is for C; what Fortran calls is not declared.
echo '#include <kolo_mpi.h>' |
    "$MPICC_ABI" -E - $(pkg-config --cflags kolo-mpi-abi) >"$scratch/all"
grep -q koloCommInitMPI "$scratch/all" || fail "kolo_mpi.h declares nothing"
! grep -q koloCommInitMPI_f "$scratch/all" || fail "kolo_mpi.h speaks of Fortran"

compile() { # PROGRAM COMPILER FAMILY OF-PREFIX SOURCE
    PKG_CONFIG_PATH=$4/lib/pkgconfig "$2" -Wall -Wextra -Werror "$5" -o "$scratch/$1" \
        $(PKG_CONFIG_PATH=$4/lib/pkgconfig pkg-config --cflags --libs "kolo-mpi-$3")
}
compile hello "$MPICC_ABI" abi "$prefix" "$prefix/share/doc/kolo/examples/c/hello.c"
$launch "$scratch/hello" >"$scratch/out" 2>&1 || fail "hello: $(cat "$scratch/out")"
[ "$(grep -c ' of 3: the sum is 6$' "$scratch/out")" = 3 ] || fail "hello: $(cat "$scratch/out")"

# The command loads the library by itself; its MPI is found as a site's module has it.
LD_LIBRARY_PATH=$mpi/lib $launch "$prefix/bin/kolo" perf all_reduce -b 8 -e 64K -f 8 -n 5 -w 1 \
    --compare mpi >"$scratch/out" 2>&1 || fail "perf: $(cat "$scratch/out")"
grep -q '65536' "$scratch/out" || fail "perf: $(cat "$scratch/out")"

# A program in Rust, which asks its MPI which library to load.
cp "$top/$BUILT/mpi/abi/hello_mpi" "$prefix/bin"
LD_LIBRARY_PATH=$mpi/lib $launch "$prefix/bin/hello_mpi" >"$scratch/out" 2>&1 ||
    fail "hello_mpi: $(cat "$scratch/out")"
[ "$(grep -c ' of 3: the sum is 6$' "$scratch/out")" = 3 ] || fail "Rust: $(cat "$scratch/out")"

# Data between ranks by this MPI, so that its messages are used, and not only its start.
KOLO_NET=mpi KOLO_SHM_DISABLE=1 KOLO_DEBUG=info $launch "$scratch/hello" >"$scratch/out" 2>&1 ||
    fail "over MPI: $(cat "$scratch/out")"
[ "$(grep -c ' of 3: the sum is 6$' "$scratch/out")" = 3 ] || fail "MPI: $(cat "$scratch/out")"
grep -q 'NET mpi:' "$scratch/out" || fail "not over MPI: $(cat "$scratch/out")"

# One MPI, two interfaces: each program says which libkolo_mpi it needs.
refused() { # PROGRAM WORDS...
    local program=$1
    shift
    LD_LIBRARY_PATH=$mpi/lib $launch "$scratch/$program" >"$scratch/out" 2>&1 ||
        fail "$program: $(cat "$scratch/out")"
    [ "$(grep -o refused "$scratch/out" | wc -l)" = 3 ] || fail "$program: $(cat "$scratch/out")"
    for words in "$@"; do
        grep -qF -- "$words" "$scratch/out" || fail "$program: no '$words': $(cat "$scratch/out")"
    done
}
compile native "$mpi/bin/mpicc" abi "$prefix" "$top/tests/mpi/alone.c"
refused native "built for MPIs with MPI 5's standard binary interface" kolo-mpi-mpich
if [ -e "$stage/lib/kolo/mpich/libkolo_mpi.so" ]; then
    compile standard "$MPICC_ABI" mpich "$stage" "$top/tests/mpi/alone.c"
    refused standard "built for MPICH and Intel MPI" kolo-mpi-abi
fi

# MPICH's own library has another file name than Debian's, which the libkolo_mpi of STAGE was built
# with: the process has the program's alone.
if [ -e "$stage/lib/kolo/mpich/libkolo_mpi.so" ]; then
    compile two "$mpi/bin/mpicc" mpich "$stage" "$top/tests/mpi/two_mpis.c"
    LD_LIBRARY_PATH=$mpi/lib $launch "$scratch/two" >"$scratch/out" 2>&1 ||
        fail "two MPIs: $(cat "$scratch/out")"
    [ "$(grep -c '^1 MPI, the sum is 6$' "$scratch/out")" = 3 ] ||
        fail "two MPIs: $(cat "$scratch/out")"
fi
# Programs in C that know nothing of kolo run on it, all their collectives, and compute what the MPI
# alone computes. Ranks that wait yield.
export MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1 \
    MPIR_CVAR_POSIX_POLL_FREQUENCY=1
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
"$MPICC_ABI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin.c" -o "$scratch/drawn"
drawn() { # NAME RANKS WORDS...
    local name=$1 ranks=$2
    shift 2
    timeout 60 "$mpi/bin/mpirun" -n "$ranks" "$@" "$scratch/drawn" "$seed" 300 >"$scratch/raw" \
        2>"$scratch/$name.err" || fail "drop-in, $name, SEED=$seed: $(cat "$scratch/$name.err")"
    grep -E '^[0-9]+: [0-9a-f]{16}$' "$scratch/raw" | sort >"$scratch/$name.out"
    [ "$(wc -l <"$scratch/$name.out")" = "$ranks" ] ||
        fail "drop-in, $name, SEED=$seed: $(cat "$scratch/raw")"
}
for ranks in 2 3; do
    drawn plain $ranks
    drawn kolo $ranks env LD_PRELOAD="$prefix/lib/libkolo_pmpi.so.0" KOLO_PMPI_ATTACH=0 \
        KOLO_PMPI_TABLE=none KOLO_REPORT=1
    cmp -s "$scratch/plain.out" "$scratch/kolo.out" ||
        fail "drop-in, SEED=$seed: $(diff "$scratch/plain.out" "$scratch/kolo.out")"
    [ "$(grep -c ' 300 of 300 collectives ran on kolo' "$scratch/kolo.err")" = $ranks ] ||
        fail "drop-in, SEED=$seed: $(cat "$scratch/kolo.err")"
done
echo "ok    one libkolo_mpi for MPIs with the standard binary interface"
