#!/bin/sh
# From C under MPI: collectives against MPI's own results, a grouped ring, a split, misuse.
. "$(dirname "$0")/common"
cd "$work"
cc -Wall -Wextra -Werror "$top/tests/abi/under_mpi.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o under_mpi
for nranks in 1 2 3 4; do run_ok $nranks under_mpi; done
echo "$test_name ($MPI): ok"
