#!/bin/sh
# A rank dies by SIGKILL inside a call; Open MPI's mpirun leaves the others alive with
# --enable-recovery. `SEED=123` plays that round again.
# mpi: openmpi
# limit: 120 s
. "$(dirname "$0")/common"
before=$(ls /dev/shm | grep -c kolo || true)
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/killed.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link -pthread \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o killed
round() { # SETTING...
    seed=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
    head -c 64 /dev/zero >board
    env "$@" timeout 40 $MPIRUN --enable-recovery -n 4 ./killed "$seed" "$PWD/board" \
        >out 2>err || true
    [ "$(grep -c '^noticed' out)" = 3 ] ||
        fail "SEED=$seed $*: three ranks should notice: $(cat out err)"
    echo "SEED=$seed $*: $(grep -h ' died in call ' out | head -n 1)"
}
for mode in plain plain plain plain cma thread sockets sockets sockets; do
    case $mode in
    plain) round KOLO_PROGRESS=inline ;;
    cma) round KOLO_CMA=on ;;
    thread) round KOLO_PROGRESS=thread ;;
    sockets) round KOLO_SHM_DISABLE=1 ;;
    esac
done
[ "$(ls /dev/shm | grep -c kolo || true)" = "$before" ] || fail "something is left in /dev/shm"
echo "$test_name ($MPI): ok"
