#!/bin/sh
# Objects of gfortran and of flang in one program, each with the kolo of its compiler.
. "$(dirname "$0")/common"
if [ -z "${FLANG:-}" ]; then
    "$SOURCE/tests/skip/skip.sh" fortran-flang "there is no flang"
    exit
fi
f90=$top/tests/mpi/two_compilers.f90
mpi=$(compile_flags "mpif90.$MPI")
"$FLANG" -cpp -DPART -fPIC -shared -I "$(folder_of kolo.mod flang)" $mpi "$f90" \
    -L "$lib" -lkolo_fortran_flang -Wl,-rpath,"$lib" -o libpart.so
gfortran -cpp -I "$(folder_of kolo.mod gfortran)" $mpi "$f90" -L "$lib" -lkolo_fortran_gfortran \
    $link -L . -lpart -Wl,-rpath,"$PWD" $(link_flags "mpif90.$MPI") -o main
timeout 60 $MPIRUN -n 2 ./main >out 2>&1 || fail "$(cat out)"
[ "$(grep -c 'right: 1 1' out)" = 2 ] || fail "$(cat out)"
shared=$(nm -D --defined-only "$lib/libkolo_fortran_gfortran.so" | awk '{ print $3 }' |
    sort | comm -12 - "$(nm -D --defined-only "$lib/libkolo_fortran_flang.so" |
        awk '{ print $3 }' | sort >flang && echo flang)" | wc -l)
[ "$shared" = 0 ] || fail "$shared names are in both libraries"
echo "$test_name ($MPI): ok"
