#!/bin/sh
# Calls in flight end while a rank waits inside MPI, also where ranks fill the cores.
# limit: 120 s
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/progress.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o progress
for n in 2 4; do
    said=$(timeout 60 $MPIRUN -n $n ./progress 2>&1) || fail "$n ranks: $said"
    [ "$said" = "all right" ] || fail "$n ranks: $said"
done
echo "$test_name ($MPI): ok"
