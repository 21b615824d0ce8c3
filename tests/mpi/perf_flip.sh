#!/usr/bin/env bash
# One flipped bit in one slot is exactly one wrong element: the checks of kolo perf see it.
# limit: 120 s
set -euo pipefail
# wrong FLIP CHANNELS COLLECTIVE OPTIONS...: out of place and in place together have one.
wrong() {
    local flip=$1 channels=$2 status=0
    shift 2
    echo "== KOLO_FAULT_FLIP=$flip kolo perf $*"
    KOLO_FAULT_FLIP=$flip KOLO_MAX_NCHANNELS=$channels $MPIRUN -n 2 "$KOLO" perf "$@" -n 1 -w 0 \
        >table || status=$?
    [ "$status" != 0 ] || { echo 'the exit code does not tell'; cat table; return 1; }
    awk '$1 ~ /^[0-9]+$/ && NF >= 13 { found = 1; print $9 + $13; if ($9 + $13 != 1) exit 1 }
        END { exit !found }' table || { cat table; return 1; }
}
wrong 0:0:2 2 sendrecv -b 64K -e 64K
wrong 2:0:0 2 all_reduce -b 8 -e 8
wrong 2:0:3 1 all_reduce -d int32 -b 256K -e 256K
wrong 2:1:1 1 all_gather -d int8 -b 256K -e 256K
wrong 2:0:1 1 broadcast -d double -b 256K -e 256K
wrong 0:0:2 1 alltoall_v -d int32 -b 12K -e 12K
wrong 2:0:0 1 all_reduce -d double -o exactsum -b 8 -e 8
