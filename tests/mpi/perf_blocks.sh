#!/usr/bin/env bash
# kolo perf checks scans, blocks of different sizes and the calls along a ring on 2 and 4 ranks
# (perf_compare has 3): 0 wrong, in place and out of place, nothing touched between the blocks.
# limit: 180 s
# They know nothing of the MPI that started the ranks; perf_collectives runs under both.
# mpi: openmpi
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"
# shellcheck disable=SC2086
drawn 5 $more
for collective in "${words[@]}"; do
    # The last size takes many rounds of the slots.
    right 2 "$collective" 4 -b 8 -e 4M -f 80 -n 1 -w 0
    right 4 "$collective" 4 -b 8 -e 64K -f 20 -n 1 -w 0 -r all
done
