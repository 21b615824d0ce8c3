#!/bin/sh
# limit: 120 s
# Attaching fails on one rank, in a drawn phase: all ranks stay with MPI for that communicator, and
# what they compute is right. Each call of the system that kolo makes meanwhile is such a phase.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin.c" -o drawn
cc -O1 -Wall -Wextra -Werror -shared -fPIC "$top/tests/mpi/dropin/fail.c" -o fail.so -ldl
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"
ranks=3
before=$(find /dev/shm -name '*kolo*' | wc -l)

run() { # NAME, VARIABLES...
    name=$1
    shift
    timeout 40 $MPIRUN -n $ranks env "$@" ./drawn "$SEED" 60 >raw 2>"$name.err" ||
        fail "$*, SEED=$SEED: $(cat raw "$name.err")"
    grep -E '^[0-9]+: [0-9a-f]{16}$' raw | sort >"$name.out"
    [ "$(wc -l <"$name.out")" = $ranks ] || fail "$*, SEED=$SEED: $(cat raw "$name.err")"
}
on_kolo() { # NAME, VARIABLES...
    name=$1
    shift
    run "$name" "LD_PRELOAD=$preload $PWD/fail.so" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 "$@"
    cmp -s plain.out "$name.out" || fail "$*, SEED=$SEED: $(diff plain.out "$name.out")"
}
run plain KOLO_PMPI=off
on_kolo count FAIL_RANK=1
grep '^counted' count.err >counted || fail "nothing is counted: $(cat count.err)"

most=7
[ -z "$FULL" ] || most=999
# Each call is a row: which function, and the how manieth of it. Some are drawn.
awk '{ for (at = 1; at <= $3; at++) print $2, at }' counted |
    awk -v seed="$SEED" 'BEGIN { srand(seed) } { print rand(), $0 }' | sort | cut -d ' ' -f 2- |
    head -n "$most" >rows
# The last row: the rank alone has made the communicator, and then fails.
echo after 1 >>rows
failures=0 rank=$((SEED % ranks))
while read -r function at; do
    rank=$(((rank + 1) % ranks))
    on_kolo failing FAIL="$function" FAIL_AT="$at" FAIL_RANK=$rank </dev/null
    # Some failures kolo bears; of others all ranks tell alike.
    [ "$(grep -c 'collectives ran on kolo' failing.err)" = $ranks ] || fail "$(cat failing.err)"
    sed -n 's/^kolo: rank [0-9]*: \([0-9]* of [0-9]*\) .* \([0-9]* comm.* attached)\)/\1, \2/p' \
        failing.err | sort -u >alike
    [ "$(wc -l <alike)" = 1 ] || fail "$function $at on rank $rank, SEED=$SEED: $(cat failing.err)"
    if grep -q 'could not be attached' alike; then
        failures=$((failures + 1))
        grep -q 'failed 1' failing.err || fail "nothing had failed: $(cat failing.err)"
        grep -q '1 communicators that could' alike || fail "more than one: $(cat failing.err)"
    fi
    [ "$function" != after ] || grep -q 'could not' alike || fail "$(cat failing.err)"
    echo "rank $rank, $function $at: $(cat alike)"
done <rows
# Already in MPI_Init: none takes a call, and that rank alone says why.
on_kolo keyval KOLO_REPORT=0 FAIL=keyval FAIL_AT=1 FAIL_RANK=$rank
[ "$(grep -c "^kolo: .*on rank $rank MPI gives no key" keyval.err)" = 1 ] &&
    [ "$(grep -c '^kolo:' keyval.err)" = 1 ] && grep -q 'failed 1' keyval.err ||
    fail "a key on rank $rank, SEED=$SEED: $(cat keyval.err)"
[ $failures -ge 1 ] || fail "SEED=$SEED: no draw made attaching fail"
[ "$(find /dev/shm -name '*kolo*' | wc -l)" = "$before" ] || fail "left: $(ls /dev/shm)"
echo "$test_name ($MPI): ok"
