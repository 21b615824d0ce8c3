#!/bin/sh
# MPI_Finalize comes before koloCommDestroy: with shared memory, with sockets, and where MPI itself
# carries the data.
# limit: 150 s
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/finalize_first.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o finalize_first
check() { # ARGUMENT SETTING...
    argument=$1
    shift
    env "$@" timeout 40 $MPIRUN -n 4 ./finalize_first "$argument" >out 2>err ||
        fail "$*: exit status $?: $(cat out err)"
    [ "$(grep -c '^finalize_first: ok' out)" = 4 ] || fail "$*: $(cat out err)"
    echo "$*: $(grep "^finalize_first: ok" out | sort -u)"
}
for progress in inline thread; do
    check shared KOLO_PROGRESS=$progress
    check shared KOLO_PROGRESS=$progress KOLO_SHM_DISABLE=1
    check data KOLO_PROGRESS=$progress KOLO_SHM_DISABLE=1 KOLO_NET=mpi
done
echo "$test_name ($MPI): ok"
