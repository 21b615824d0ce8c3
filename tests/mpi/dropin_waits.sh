#!/bin/sh
# limit: 90 s
# Ranks that wait in a collective on kolo: they leave the cores to those who work, and messages and
# accesses to their memory reach them.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -fopenmp -Wall -Wextra -Werror "$top/tests/mpi/dropin/waits.c" -o waits

run() { # RANKS, WHAT, VARIABLES...
    ranks=$1 what=$2
    # Two ranks have MPICH as it is: nobody but kolo gives the cores away.
    [ "$ranks $what" = "2 cores" ] && loaded=${preload%%:*} || loaded=$preload
    shift 2
    timeout 60 $MPIRUN -n "$ranks" env "LD_PRELOAD=$loaded" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 "$@" \
        ./waits "$what" >out 2>err || fail "$what, $ranks ranks, $*: $(cat out err)"
    grep -qx right out || fail "$what, $ranks ranks, $*: $(cat out err)"
    [ "$(grep -c 'kolo: rank .* collectives ran on kolo' err)" = "$ranks" ] &&
        ! grep -q 'MPI ran' err || fail "$what, $ranks ranks, $*: $(cat err)"
}
for ranks in 2 4; do
    run $ranks cores OMP_NUM_THREADS=2
    grep '^busy' err
    run $ranks messages OMP_NUM_THREADS=1
done
# The part of Open MPI whose accesses need the other rank's hand.
[ "$MPI" != openmpi ] || run 2 messages OMP_NUM_THREADS=1 OMPI_MCA_osc=pt2pt
echo "$test_name ($MPI): ok"
