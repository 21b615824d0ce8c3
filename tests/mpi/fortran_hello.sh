#!/bin/sh
# The example of the README, built outside the tree, on 1 to 4 ranks. It uses module mpi, which
# flang cannot read when it is gfortran's.
. "$(dirname "$0")/common"
name=$(fortran_name)
flags="-I $(folder_of kolo.mod "$name") $(compile_flags "mpif90.$MPI")"
cp "$top/examples/fortran/hello.f90" "$work/"
cd "$work"
printf 'use mpi\nend\n' >readable.f90
if ! $FC $flags -c readable.f90 2>readable.log; then
    exec "$top/tests/skip/skip.sh" "$test_name-$name" "$name cannot read this MPI's module mpi"
fi
$FC $flags hello.f90 -L "$lib" -lkolo_fortran_"$name" $link $(link_flags "mpif90.$MPI") -o hello
for nranks in 1 2 4; do
    $MPIRUN -n $nranks ./hello >out 2>err || fail "$(cat out err)"
    [ "$(grep -c "of  *$nranks: the sum is  *$((nranks * (nranks + 1) / 2))" out)" = "$nranks" ] ||
        fail "hello on $nranks ranks said: $(cat out)"
done
echo "$test_name ($MPI, $FC): ok"
