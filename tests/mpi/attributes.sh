#!/bin/sh
# Attributes of the program's communicator are copied by the program alone, also where MPI is the
# network between nodes.
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/attributes.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o attributes
export KOLO_NET=mpi KOLO_SHM_DISABLE=1 KOLO_DEBUG=info
said=$(timeout 60 $MPIRUN -n 3 ./attributes 2>err) || fail "$said $(tail -n 3 err)"
[ "$said" = "all right" ] || fail "$said $(tail -n 3 err)"
grep -q 'NET mpi:' err || fail "took another network: $(grep network: err)"
echo "$test_name ($MPI): ok"
