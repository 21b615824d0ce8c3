#!/bin/sh
# Buffers that peers read where they lie, mixed with private ones; also with direct reads off.
# limit: 150 s
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/direct.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o direct
for n in 2 3 4; do
    [ "$($MPIRUN -n $n ./direct)" = "all right" ] || fail "$n ranks"
done
[ "$(KOLO_DIRECT=false $MPIRUN -n 2 ./direct)" = "all right" ] || fail "without direct reads"
"$KOLO" perf all_reduce --ranks 3 -R 1 -b 64K -e 1M -f 4 -n 2 -w 0 >table || fail "$(cat table)"
echo "$test_name ($MPI): ok"
