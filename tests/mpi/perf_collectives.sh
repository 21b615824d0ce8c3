#!/usr/bin/env bash
# kolo perf checks every collective on 2, 3, 4 and 8 ranks: 0 wrong, in place and out of place.
# limit: 300 s
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"
for n in 2 3 4 8; do
    for collective in $collectives; do
        right "$n" "$collective" 18 -b 8 -e 1M -f 2 -n 2 -w 1
    done
done
