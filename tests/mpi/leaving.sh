#!/bin/sh
# Over the network of MPI, ranks that leave at once lose nothing of what they sent.
# limit: 120 s
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/leaving.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o leaving
export KOLO_NET=mpi KOLO_SHM_DISABLE=1
for try in 1 2 3 4; do
    said=$(timeout 60 $MPIRUN -n 4 ./leaving 2>&1) || fail "try $try: $said"
    [ "$(printf '%s\n' "$said" | tail -n 1)" = "all right" ] || fail "try $try: $said"
done
echo "$test_name ($MPI): ok"
