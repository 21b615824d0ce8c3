#!/usr/bin/env bash
# kolo perf checks every collective on 2, 3, 4 or 8 ranks: 0 wrong, in place and out of place.
# limit: 300 s
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"
for collective in $collectives; do
    case $collective in
        hypercube) drawn 1 2 4 8 ;;
        *) drawn 1 2 3 4 8 ;;
    esac
    for n in "${words[@]}"; do
        right "$n" "$collective" 18 -b 8 -e 1M -f 2 -n 2 -w 1
    done
done
