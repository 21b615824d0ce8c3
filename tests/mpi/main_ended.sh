#!/bin/sh
# Memory is registered also when the main thread has ended: then /proc/self says nothing of it.
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror -pthread "$top/tests/mpi/main_ended.c" -I "$include" -L "$lib" -lkolo \
    -Wl,-rpath,"$lib" -o main_ended
said=$(timeout 60 $MPIRUN -n 2 ./main_ended 2>err) || fail "$said $(cat err)"
[ "$said" = "all right" ] || fail "$said $(cat err)"
echo "$test_name ($MPI): ok"
