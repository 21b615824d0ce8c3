#!/bin/sh
# The ways of data that kolo info tells, beside what communicators then take: on a node, by CMA or
# not, between processes that count as nodes, over MPI; one pair; mistakes.
. "$(dirname "$0")/common"
info() { $MPIRUN -n 3 "$KOLO" info "$@" >"$work/out" 2>"$work/err" ||
    fail "info $*: $(cat "$work/out" "$work/err")"; }
says() { # WORDS: in one line, which stands there once
    [ "$(grep -c -- "$1" "$work/out")" = 1 ] || fail "not once '$1': $(cat "$work/out")"
}
# The log of a communicator of these ranks.
log() { KOLO_DEBUG=info $MPIRUN -n 3 "$KOLO" perf all_reduce -b 1M -e 1M -n 2 -w 0 \
    >"$work/log" 2>&1 || fail "$(cat "$work/log")"; }

info
says '^ways  *on a node (3 pairs): memory of the node; .* others pass slots$'
says '^ways  *not CMA: no size is set .*; to use it: KOLO_CMA_FROM=SIZE'
says '^ways  *between nodes (no such ranks here): '
says '^ways  *not verbs: '

# What the system lets ranks do is tried: the log of a communicator says the same.
export KOLO_CMA=on
info
log
if grep -q 'CMA: private buffers are read' "$work/log"; then
    says '^ways  *on a node (3 pairs): .* others by CMA$'
else
    says '^ways  *not CMA: cannot read the memory of rank'
fi
export KOLO_CMA_FROM=300K
info
! grep -q 'by CMA' "$work/out" || says 'others by CMA from 300 KiB on$'
unset KOLO_CMA KOLO_CMA_FROM
KOLO_DIRECT=off info
says '^ways  *on a node (3 pairs): memory of the node, through slots$'
[ "$(grep -c 'not in place: KOLO_DIRECT is off; to use it: unset KOLO_DIRECT' "$work/out")" = 2 ] ||
    fail "$(cat "$work/out")"

# Processes that share no memory go over the network that is told.
export KOLO_SHM_DISABLE=1 KOLO_NET=socket
info
log
says '^ways  *between nodes (3 pairs): socket over '
says '^ways  *not verbs: it was not asked for; to use it: unset KOLO_NET'
says '^ways  *not memory of the node: a setting .*; to use it: unset KOLO_SHM_DISABLE'
for device in $(sed -n 's/.*: socket over \([^;]*\);.*/\1/p' "$work/out" | tr -d ,); do
    grep -q "NET socket: .*\b$device " "$work/log" || fail "$device: $(cat "$work/log")"
done
info --ranks 0,2
says '^ranks 0 and 2 (on .* and .*): socket over '
info --ranks 0,2 --json
python3 - "$work/out" <<'END' || fail "$(cat "$work/out")"
import json, sys
said = json.load(open(sys.argv[1]))
assert said["ranks"] == [0, 2] and said["way"]["between"] == "nodes", said
assert [(it["way"], bool(it["fix"])) for it in said["way"]["not"]][:3] == [
    ("memory of the node", True), ("plugin", True), ("verbs", True)], said
END
export KOLO_NET=mpi
info
log
grep -q 'NET mpi:' "$work/log" || fail "$(cat "$work/log")"
says "^ways  *between nodes (3 pairs): mpi (that of $MPI, by koloCommInitMPI); data pass slots$"
unset KOLO_SHM_DISABLE KOLO_NET

if $MPIRUN -n 3 "$KOLO" info --ranks 1,3 >"$work/out" 2>&1; then fail "there is no rank 3"; fi
says 'there is no rank 3: 3 ranks told of their ways'
if "$KOLO" info --ranks 1 >"$work/out" 2>&1; then fail "one rank is no pair"; fi
says 'two ranks, as 3,17'
echo "$test_name ($MPI): ok"
