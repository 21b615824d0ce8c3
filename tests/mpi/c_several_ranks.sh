#!/usr/bin/env bash
# The example with two ranks in each process: the id goes round by MPI, all ranks of a process are
# made in one group, their sums run on a stream each; every element is compared.
set -euo pipefail
cp "$SOURCE/examples/c/several_ranks.c" .
$MPICC -Wall -Wextra -Werror several_ranks.c -o several_ranks \
    $(pkg-config --cflags --libs kolo)
for n in 1 2 3; do
    $MPIRUN -n $n ./several_ranks >out
    cat out
    for p in $(seq 0 $((n - 1))); do
        # All processes are on this machine, so each one's number there is that in MPI.
        grep -qx "process $p, number $p on its machine: 2 of $((2 * n)) ranks, all sums right" out
    done
done
