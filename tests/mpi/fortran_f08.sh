#!/bin/sh
# type(MPI_Comm): where the compiler can read the MPI library's module mpi_f08.
. "$(dirname "$0")/common"
name=$(fortran_name)
modules=$(folder_of kolo.mod "$name")
flags="-I $modules $(compile_flags "mpif90.$MPI")"
cd "$work"
printf 'use mpi_f08\nend\n' >readable.f90
if ! $FC $flags -c readable.f90 2>readable.log; then
    exec "$top/tests/skip/skip.sh" "$test_name-$name" "$name cannot read this MPI's mpi_f08"
fi
source=$(find "$PREFIX" -name kolo_mpi_f08.f90 | head -n 1)
source=${source:-$top/bindings/fortran/kolo_mpi_f08.f90}
# As build.sh does: the procedures of each compiler have names of their own.
case $name in gfortran) mark=fg ;; flang) mark=ff ;; *) mark=f ;; esac
sed "s/kolo_f_/kolo_${mark}_/g" "$source" >kolo_mpi_f08.f90
$FC $flags -c kolo_mpi_f08.f90 -o kolo_mpi_f08.o
$FC $flags "$top/tests/fortran/f08.f90" kolo_mpi_f08.o -L "$lib" -lkolo_fortran_"$name" $link \
    $(link_flags "mpif90.$MPI") -o f08
for nranks in 1 2 4; do run_ok $nranks f08; done
echo "$test_name ($MPI, $FC): ok"
