#!/bin/sh
# MPI as the network between nodes: messages between all ranks, many connections, thread levels;
# then all collectives, of a program's communicators and of kolo's own tool.
# limit: 240 s
. "$(dirname "$0")/common"
program=$top/target/debug/examples/mpi_net
[ -x "$program" ] || fail "no $program: make test-mpi builds it"
check() { # RANKS, LEVEL, WORD
    said=$(timeout 120 $MPIRUN -n "$1" "$program" "$mpi_lib/libkolo_mpi.so" "$2" $3 2>&1) ||
        fail "$1 ranks at level $2 $3: $said"
    # An MPI may remark, when it ends, that the last goodbyes were not read.
    [ "$(printf '%s\n' "$said" | tail -n 1)" = ok ] || fail "$1 ranks at level $2 $3 said: $said"
}
for ranks in 1 2 4; do check $ranks 3 ""; done
for level in 0 1 2; do check 2 $level ""; done
check 4 3 collectives
check 3 2 collectives
check 3 1 collectives
check 2 0 collectives

# Processes that may not share memory, through the tool's own way to MPI.
export KOLO_NET=mpi KOLO_SHM_DISABLE=1 KOLO_DEBUG=info
for collective in all_reduce alltoall; do
    timeout 60 $MPIRUN -n 3 "$KOLO" perf $collective -b 8 -e 256K -f 8 -n 2 -w 1 \
        >"$work/out" 2>"$work/err" || fail "kolo perf $collective: $(cat "$work/out" "$work/err")"
    grep -q 'NET mpi:' "$work/err" || fail "kolo perf $collective took: $(cat "$work/err")"
    awk '$1 ~ /^[0-9]+$/ && NF >= 13 { n++; if ($9 != 0) bad++ } END { exit n < 5 || bad }' \
        "$work/out" || fail "kolo perf $collective is wrong: $(cat "$work/out")"
done
echo "$test_name ($MPI): ok"
