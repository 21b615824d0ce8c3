#!/usr/bin/env bash
# Every type with every operation, at small sizes, for the collectives that reduce.
# limit: 180 s
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"
for n in 2 3; do
    for collective in all_reduce reduce reduce_scatter; do
        right "$n" "$collective" 100 -b 64 -e 1K -f 16 -n 1 -w 0 -d all -o all
    done
done
right 3 broadcast 12 -b 64 -e 64 -n 1 -w 0 -d all -r all
