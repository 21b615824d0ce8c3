#!/bin/sh
# limit: 240 s
# Programs that make many communicators: 5,000 that are freed in a drawn order, and 2,000 alive at
# once. Of those that have many calls kolo runs the later ones, and nothing of them is left.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin/many.c" -o many
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin/ending.c" -o ending
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"
before=$(find /dev/shm -name '*kolo*' | wc -l)

run() { # NAME, WORDS BEFORE THE PROGRAM, RANKS, COMMUNICATORS, ALIVE
    # shellcheck disable=SC2086
    timeout 200 $MPIRUN -n "$3" $2 ./many "$SEED" "$4" "$5" >"$1.out" 2>"$1.err" ||
        fail "$1, $4 communicators, SEED=$SEED: $(cat "$1.out" "$1.err")"
    [ "$(grep -c '^rank' "$1.out")" = "$3" ] || fail "$1, SEED=$SEED: $(cat "$1.out" "$1.err")"
}
# The largest number behind a word, over the ranks.
most() { # NAME, WORD AFTER IT
    sed -n "s/.* \(-*[0-9]*\) $2.*/\1/p" "$1.out" | sort -n | tail -n 1
}
# Ranks, communicators, alive at once, calls before one is attached. Making
# communicators takes MPICH many times as long where others want the cores.
if [ -n "$FULL" ]; then
    set -- "2 5000 40 0" "3 1000 40 12" "2 1980 1980 0"
elif [ "$MPI" = openmpi ]; then
    set -- "2 5000 40 18" "3 100 40 0" "2 1980 1980 12"
else
    set -- "2 1500 40 12" "2 1000 1000 12"
fi
for row in "$@"; do
    # shellcheck disable=SC2086
    set -- $row
    few=300
    [ "$3" -ge $few ] && alive=$few || alive=$3
    run plain "" "$1" $few "$alive"
    run kolo "env LD_PRELOAD=$preload KOLO_PMPI_ATTACH=$4 KOLO_REPORT=1 KOLO_PMPI_MEMORY=8G" \
        "$1" "$2" "$3"
    what="$1 ranks, $2 communicators, $3 alive, SEED=$SEED"
    # Plain MPI has its own leavings; of memory that was in use at once some pages are not empty.
    [ "$(most kolo descriptors)" -le "$(most plain descriptors)" ] &&
        [ "$(most kolo mappings)" -le $(($(most plain mappings) + 12)) ] &&
        [ "$(most kolo KiB)" -le $(($(most plain KiB) + 2048 + 12 * $3)) ] ||
        fail "$what: $(cat plain.out kolo.out)"
    reports=$(sed -n 's/^kolo: rank .* ran on kolo.* \([0-9]*\) comm/\1 comm/p' kolo.err |
        sed 's/; MPI ran [0-9]* of communicators that stay with MPI//')
    [ "$4" = 0 ] ||
        reports=$(echo "$reports" | sed 's/; MPI ran [0-9]* before their .* attached//')
    [ "$(echo "$reports" | grep -c 'attached)$')" = "$1" ] || fail "$what: $(cat kolo.err)"
    # Five of six have more than one rank of two, and one in seven of those so many calls.
    [ "$(echo "$reports" | sort -n | sed 's/ .*//; q')" -ge $(($2 / 11)) ] ||
        fail "$what: few were attached: $reports"
    echo "$what: $((1000 * $(most kolo ms) / $2)) us each on kolo," \
        "$((1000 * $(most plain ms) / few)) on MPI alone"
done
[ "$(find /dev/shm -name '*kolo*' | wc -l)" = "$before" ] || fail "left: $(ls /dev/shm)"

# Callbacks at MPI_Finalize find their communicators as they were.
for ranks in 2 3; do
    timeout 60 $MPIRUN -n $ranks env "LD_PRELOAD=$preload" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 \
        ./ending >out 2>err || fail "callbacks: $(cat out err)"
    [ "$(grep -c '^rank [0-9]*: 16 right$' out)" = $ranks ] &&
        [ "$(grep -c ' 24 of 24 collectives ran on kolo' err)" = $ranks ] ||
        fail "callbacks on $ranks ranks: $(cat out err)"
done
echo "$test_name ($MPI): ok"
