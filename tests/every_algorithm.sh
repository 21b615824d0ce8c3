#!/usr/bin/env bash
# Every algorithm forced in turn, for every collective, with all types, operations and roots, over
# processes: no element may be wrong, and the steps are those of the plans. Too long for every day
# (about 20 minutes); `make test` runs a selection (tests/mpi/perf_algorithms.sh) and the same with
# ranks as threads (tests/ranks/algorithms.rs).
#
#   tests/every_algorithm.sh PREFIX openmpi|mpich [RANKS...]       2 to 9 ranks without RANKS
#
# The algorithms of a collective are those that `kolo explain` names.
set -uo pipefail
[ $# -ge 2 ] || { echo "usage: every_algorithm.sh PREFIX openmpi|mpich [RANKS...]" >&2; exit 2; }
kolo=$1/bin/kolo mpi=$2
shift 2
mpirun=mpirun.$mpi
[ "$mpi" = mpich ] || mpirun="$mpirun --oversubscribe"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
chosen="all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter
scan exscan barrier"
messages="sendrecv hypercube all_gather_v gather_v scatter_v reduce_scatter_v alltoall_v
neighbor_allgather neighbor_allgather_v neighbor_alltoall neighbor_alltoall_v"
runs=0 bad=0

# algorithms COLLECTIVE N: the chosen one and the runners-up, once each.
algorithms() {
    "$kolo" explain "$1" 1K -n "$2" | awk '
        $1 == "chosen" { sub(",", "", $2); print $2 }
        $1 == "runners-up" { others = 1; next }
        NF == 0 { others = 0 }
        others { print $1 }' | sort -u
}

# once N COLLECTIVE ALGORITHM
once() {
    local out status=0
    out=$(KOLO_ALGO=$3 timeout 300 $mpirun -n "$1" "$kolo" perf "$2" -d all -o all -r all \
        -b 8 -e 8K -f 32 -n 1 -w 0 2>&1) || status=$?
    runs=$((runs + 1))
    if [ $status != 0 ] || ! grep -q 'Out of bounds values : 0 OK' <<<"$out" ||
        ! grep -q 'steps: executed == planned' <<<"$out"; then
        bad=$((bad + 1))
        echo "BAD: $1 ranks, $2 by $3, exit status $status:"
        tail -3 <<<"$out"
    fi
}

for n in ${*:-2 3 4 5 6 7 8 9}; do
    for collective in $chosen; do
        names=$(algorithms "$collective" "$n")
        [ -n "$names" ] || { echo "kolo explain $collective names no algorithm"; exit 1; }
        for name in $names; do once "$n" "$collective" "$name"; done
    done
    for collective in $messages; do
        if [ "$collective" = hypercube ] && [ $((n & (n - 1))) != 0 ]; then continue; fi
        once "$n" "$collective" auto
    done
    echo "up to $n ranks: $runs runs, $bad of them bad"
done
[ $bad = 0 ]
