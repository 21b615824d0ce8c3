#!/bin/sh
# MPI gets its turns while a rank waits in kolo, and moves data as fast as beside a rank in MPI.
# limit: 240 s
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/turns.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o turns
check() { # HOW, ARGUMENTS
    how=$1
    shift
    said=$(timeout 60 $MPIRUN "$@" 2>&1) || fail "$how: $said"
    [ "$(printf '%s\n' "$said" | tail -n 1)" = "all right" ] || fail "$how: $said"
    [ -z "${VERBOSE:-}" ] || echo "$how: $said"
}
check "turns" -n 2 ./turns
check "turns between nodes" -n 2 ./turns nodes
check "one node" -n 2 ./turns moving
case $MPI in
openmpi) check "TCP" --mca btl tcp,self --mca osc pt2pt -n 2 ./turns moving ;;
mpich) check "TCP" -env UCX_TLS tcp,self -env MPIR_CVAR_NOLOCAL 1 -n 2 ./turns moving no-finalize ;;
esac
echo "$test_name ($MPI): ok"
