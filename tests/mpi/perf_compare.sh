#!/usr/bin/env bash
# The MPI beside kolo for every collective: a time of both, or - where MPI has no such operation.
# limit: 120 s
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"

# beside COLLECTIVE OPTIONS...: each line has MPI's time out of place, and in place where there is
# such a form; nothing is wrong.
beside() {
    $MPIRUN -n 3 "$KOLO" perf "$@" -b 4K -e 4K -n 2 -w 1 --compare mpi >table ||
        { cat table; return 1; }
    awk -v number='^[0-9]+(\\.[0-9]+)?$' '
        $1 ~ /^[0-9]+$/ {
            seen++
            if ($9 != "0" || $10 !~ number || ($16 != "N/A" && ($16 != "0" || $17 !~ number))) bad++
        }
        END { exit seen != 1 || bad > 0 }' table || { cat table; return 1; }
}
for collective in $collectives $more; do
    if [ "$collective" != hypercube ]; then beside "$collective"; fi
done
beside gather_v -r 2
beside scatter_v -r 2 -d int64
# Nothing to compare with.
for options in '-o exactsum -d double' '-d complex64' '-o band -d int32'; do
    # shellcheck disable=SC2086
    $MPIRUN -n 2 "$KOLO" perf all_reduce $options -b 64 -e 64 -n 1 -w 0 --compare mpi >table
    awk '$1 ~ /^[0-9]+$/ { seen++; if ($9 != "0" || $10 != "-" || $17 != "-") bad++ }
        END { exit seen != 1 || bad > 0 }' table || { cat table; exit 1; }
done
