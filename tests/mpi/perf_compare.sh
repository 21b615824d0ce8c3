#!/usr/bin/env bash
# Scans, blocks of different sizes and the calls along a ring on 3 ranks, with the MPI beside them:
# nothing is wrong, and there is a time of both, or - where MPI has no such operation.
# limit: 120 s
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"

# beside COLLECTIVE OPTIONS...: each line has MPI's time out of place, and in place where there is
# such a form.
beside() {
    echo "== 3 ranks: kolo perf $* --compare mpi"
    $MPIRUN -n 3 "$KOLO" perf "$@" -b 8 -e 64K -f 20 -n 1 -w 0 --compare mpi --wide >table ||
        { cat table; return 1; }
    awk -v number='^[0-9]+(\\.[0-9]+)?$' '
        $1 ~ /^[0-9]+$/ {
            seen++
            if ($9 != "0" || $10 !~ number || ($16 != "N/A" && ($16 != "0" || $17 !~ number))) bad++
        }
        END { exit seen != 4 || bad > 0 }' table || { cat table; return 1; }
}
# shellcheck disable=SC2086
drawn 5 $more
for collective in "${words[@]}"; do
    beside "$collective" -d double -r 2
done
# Nothing to compare with.
for options in '-o exactsum -d double' '-d complex64' '-o band -d int32'; do
    # shellcheck disable=SC2086
    $MPIRUN -n 2 "$KOLO" perf all_reduce $options -b 64 -e 64 -n 1 -w 0 --compare mpi --wide >table
    awk '$1 ~ /^[0-9]+$/ { seen++; if ($9 != "0" || $10 != "-" || $17 != "-") bad++ }
        END { exit seen != 1 || bad > 0 }' table || { cat table; exit 1; }
done
