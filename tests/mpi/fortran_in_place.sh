#!/bin/sh
# MPI_IN_PLACE in a call of kolo's.
. "$(dirname "$0")/common"
name=$(fortran_name)
cd "$work"
$FC -I "$(folder_of kolo.mod "$name")" $(compile_flags "mpif90.$MPI") \
    "$top/tests/fortran/mpis_in_place.f90" -L "$lib" -lkolo_fortran_"$name" $link \
    $(link_flags "mpif90.$MPI") -o mpis_in_place
for nranks in 1 2; do run_ok $nranks mpis_in_place; done
echo "$test_name ($MPI, $FC): ok"
