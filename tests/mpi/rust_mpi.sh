#!/usr/bin/env bash
# A program in Rust that is linked to MPI and to kolo as a crate: kolo's communicator is made of
# MPI's, rows go up the line of ranks, and MPI stays the program's. Then what it says where the
# library for MPI is not there.
set -euo pipefail
program=$SOURCE/target/debug/mpi/$MPI/hello_mpi
[ -x "$program" ] || { echo "no $program: make PROFILE=dev stage builds it" >&2; exit 1; }
export KOLO_MPI_LIBRARY=$PREFIX/lib/kolo/$MPI/libkolo_mpi.so
for n in 1 2 4; do
    $MPIRUN -n $n "$program" >out
    cat out
    for rank in $(seq 0 $((n - 1))); do
        grep -qx "rank $rank of $n: the sum is $((n * (n + 1) / 2))" out
    done
done
# MPI carries its data between ranks that may not share memory: the table came with its functions.
KOLO_NET=mpi KOLO_SHM_DISABLE=1 KOLO_DEBUG=info $MPIRUN -n 2 "$program" >out 2>err
grep -q 'NET mpi:' err || { cat out err >&2; exit 1; }

# The library for the other MPI: an error that says what to do in Rust.
case $MPI in openmpi) other=mpich ;; *) other=openmpi ;; esac
export KOLO_MPI_LIBRARY=$PREFIX/lib/kolo/$other/libkolo_mpi.so
if [ -e "$KOLO_MPI_LIBRARY" ]; then
    if $MPIRUN -n 2 "$program" >out 2>&1; then
        echo "it ran with $KOLO_MPI_LIBRARY" >&2
        exit 1
    fi
    grep -q "the MPI of the program is .*lib/kolo/$MPI .* Rust .* KOLO_MPI_LIBRARY names" out ||
        { cat out >&2; exit 1; }
fi

export KOLO_MPI_LIBRARY=$PWD/nothing.so
if $MPIRUN -n 2 "$program" >out 2>&1; then
    echo "it ran without $KOLO_MPI_LIBRARY" >&2
    exit 1
fi
grep -q "libkolo_mpi.so for $MPI is not found: $KOLO_MPI_LIBRARY" out || { cat out >&2; exit 1; }
