#!/bin/sh
# Buffers of malloc that are registered: results, what is refused, and that they are read where they
# lie: the algorithm in the table of kolo perf is then `direct`, as for those of koloMemAlloc.
# limit: 200 s
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/registered.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o registered
for n in 1 2 3 4; do
    [ "$($MPIRUN -n $n ./registered)" = "all right" ] || fail "$n ranks"
done
measure() {
    $MPIRUN -n 2 "$KOLO" perf all_reduce --buffers "$1" -b 256K -e 1M -f 4 -n 3 -w 1 --wide \
        >table 2>&1 ||
        fail "$1: $(cat table)"
    grep -q 'executed == planned' table || fail "$1: steps beside the plan: $(cat table)"
}
for kind in mapped registered; do
    measure $kind
    grep -q ' direct$' table || fail "$kind buffers are not read where they lie: $(cat table)"
done
measure private
! grep -q ' direct$' table || fail "private buffers are read where they lie: $(cat table)"
echo "$test_name ($MPI): ok"
