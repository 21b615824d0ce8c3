#!/bin/sh
# MPI sessions without MPI_Init; Open MPI has them from 5.0 on, Debian's does not.
# mpi: mpich
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/sessions.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o sessions
said=$(timeout 60 $MPIRUN -n 2 ./sessions 2>err) || fail "$said $(cat err)"
[ "$(printf '%s\n' "$said" | grep -c 'all right')" = 2 ] || fail "$said $(cat err)"
echo "$test_name ($MPI): ok"
