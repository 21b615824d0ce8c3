#!/bin/sh
# A rank that cannot begin, for a reason of its own, must not leave the others waiting.
. "$(dirname "$0")/common"
cc -Wall -Wextra -Werror "$top/tests/mpi/starting.c" -I "$include" -I "$(folder_of kolo_mpi.h "")" \
    $(compile_flags "mpicc.$MPI") $link $(link_flags "mpicc.$MPI") -o "$work/starting"
check() { # VARIABLE VALUE
    timeout 30 $MPIRUN -n 3 "$work/starting" "$@" >"$work/out" 2>"$work/err" ||
        fail "$*: exit status $?: $(cat "$work/out" "$work/err")"
    grep -q '^starting: ok$' "$work/out" || fail "$* said: $(cat "$work/out")"
}
check
check KOLO_BUFFSIZE nonsense
check KOLO_TOPO_FILE /no/such/topology.xml
echo "$test_name ($MPI): ok"
