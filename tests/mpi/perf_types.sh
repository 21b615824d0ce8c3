#!/usr/bin/env bash
# Every type with every operation, at small sizes, for the collectives that reduce.
# limit: 180 s
# They know nothing of the MPI that started the ranks; perf_collectives runs under both.
# mpi: openmpi
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"
for collective in all_reduce reduce reduce_scatter; do
    drawn 1 2 3
    for n in "${words[@]}"; do
        right "$n" "$collective" 100 -b 64 -e 1K -f 16 -n 1 -w 0 -d all -o all
    done
done
for collective in scan exscan; do
    right 3 "$collective" 80 -b 64 -e 1K -f 16 -n 1 -w 0 -d all -o all
done
# The correctly rounded sum: in one hand-over, and in windows.
drawn 1 2 3 4
for n in "${words[@]}"; do
    right "$n" all_reduce 8 -b 64 -e 256K -f 4096 -n 1 -w 0 -d all -o exactsum
done
right 3 reduce 8 -b 64 -e 256K -f 4096 -n 1 -w 0 -d all -o exactsum -r all
right 3 broadcast 12 -b 64 -e 64 -n 1 -w 0 -d all -r all
