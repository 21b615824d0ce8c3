#!/usr/bin/env bash
# Large messages: several channels, many rounds of the slots.
# limit: 240 s
# They know nothing of the MPI that started the ranks; perf_collectives runs under both.
# mpi: openmpi
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"
# shellcheck disable=SC2086
drawn 4 $collectives
for collective in "${words[@]}"; do
    right 2 "$collective" 3 -b 4M -e 64M -f 4 -n 1 -w 1
done
right 8 all_reduce 1 -b 16M -e 16M -n 1 -w 0
