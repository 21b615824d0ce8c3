#!/usr/bin/env bash
# kolo perf checks scans, blocks of different sizes and the calls along a ring on 2 and 4 ranks
# (perf_compare has 3): 0 wrong, in place and out of place, nothing touched between the blocks.
# limit: 180 s
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"
for n in 2 4; do
    for collective in $more; do
        right "$n" "$collective" 4 -b 8 -e 64K -f 20 -n 1 -w 0
    done
done
for collective in gather_v scatter_v; do
    right 3 "$collective" 6 -b 2K -e 60K -f 30 -n 1 -w 0 -r all
done
# Many rounds of the slots.
for collective in reduce_scatter_v alltoall_v; do
    right 2 "$collective" 1 -b 4M -e 4M -n 1 -w 0
done
