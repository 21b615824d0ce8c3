#!/bin/sh
# Names that communicators of MPI have are in the errors of kolo.
. "$(dirname "$0")/common"
cd "$work"
cc -std=c99 -Wall -Wextra -Werror "$top/tests/mpi/names.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $(compile_flags "$MPICC") $link $(link_flags "$MPICC") \
    -o names || fail "names.c does not compile"
for nranks in 1 3; do run_ok $nranks names; done
echo "$test_name ($MPI): ok"
