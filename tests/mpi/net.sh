#!/bin/sh
# MPI as the network between nodes: messages between all ranks, many connections, thread levels.
# limit: 200 s
. "$(dirname "$0")/common"
program=$top/target/release/examples/mpi_net
[ -x "$program" ] || fail "no $program: make test-mpi builds it"
check() { # RANKS, LEVEL
    said=$(timeout 120 $MPIRUN -n "$1" "$program" "$mpi_lib/libkolo_mpi.so" "$2" 2>&1) ||
        fail "$1 ranks at level $2: $said"
    [ "$said" = ok ] || fail "$1 ranks at level $2 said: $said"
}
for ranks in 1 2 4; do check $ranks 3; done
for level in 0 1 2; do check 2 $level; done
echo "$test_name ($MPI): ok"
