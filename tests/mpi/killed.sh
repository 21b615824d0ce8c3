#!/bin/sh
# A rank dies by SIGKILL; Open MPI's mpirun leaves the others alive with --enable-recovery.
# mpi: openmpi
. "$(dirname "$0")/common"
before=$(ls /dev/shm | grep -c kolo || true)
cc -Wall -Wextra -Werror "$top/tests/mpi/killed.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o killed
timeout 50 $MPIRUN --enable-recovery -n 4 ./killed >out 2>err || true
[ "$(grep -c '^noticed' out)" = 3 ] || fail "three ranks should notice: $(cat out err)"
[ "$(ls /dev/shm | grep -c kolo || true)" = "$before" ] || fail "something is left in /dev/shm"
echo "$test_name ($MPI): ok"
