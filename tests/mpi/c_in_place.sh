#!/bin/sh
# MPI_IN_PLACE in a call of kolo's, in C.
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/c_in_place.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o "$work/c_in_place"
for nranks in 1 3; do run_ok $nranks c_in_place; done
echo "$test_name ($MPI): ok"
