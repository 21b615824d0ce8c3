#!/bin/sh
# limit: 100 s
# mpi: mpich
# Intel's benchmarks, a program for MPICH's binary interface, run on kolo under MPICH 5. As they
# check nothing themselves, each call is run by MPI too, and compared.
. "$(dirname "$0")/common"
. "$top/tests/mpi/dropin/judge.sh"
mpi=$top/build/mpi-abi
if [ ! -e "$mpi/bin/mpirun" ]; then
    "$top/tests/skip/skip.sh" imb 'make test-abi has not fetched MPICH 5 from PyPI'
    exit
fi
# Ranks that wait yield.
export LD_LIBRARY_PATH="$mpi/lib" MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 \
    MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1 MPIR_CVAR_POSIX_POLL_FREQUENCY=1

# Four ranks on two cores wait long for each other in MPI.
for ranks in 2 4; do
    times=$((44 / ranks / ranks))
    # shellcheck disable=SC2086
    timeout 60 "$mpi/bin/mpirun" -n $ranks $on_kolo KOLO_PMPI=verify "$judges/IMB-MPI1" \
        -npmin $ranks -iter $times -msglog 0:18 \
        Allreduce Reduce Reduce_scatter Reduce_scatter_block Allgather Allgatherv Scatter \
        Scatterv Gather Gatherv Alltoall Alltoallv Bcast Barrier >out 2>err ||
        fail "$ranks ranks: $(cat out err)"
    taken err $ranks
    [ "$(grep -c 'kolo: verify: ' err)" = 1 ] &&
        grep -q 'kolo: verify: rank 0 compared [0-9]* coll.* none differed' err ||
        fail "$ranks ranks: $(cat err)"
done
echo "$test_name ($MPI): ok"
