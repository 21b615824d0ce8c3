#!/bin/sh
# libkolo_mpi is found beside libkolo_fortran when the linker has dropped it; a program without
# MPI gets a sentence.
. "$(dirname "$0")/common"
name=$(fortran_name)
link="-L $lib -lkolo -Wl,-rpath,$lib"
compile_fortran reductions
case $mpi_lib in
"$lib/$MPI" | "$lib/kolo/$MPI") run_ok 2 reductions ;;
*) LD_LIBRARY_PATH=$mpi_lib run_ok 2 reductions ;;
esac
cd "$work"
$FC -I "$(folder_of kolo.mod "$name")" -c "$top/tests/fortran/checks.f90"
cat >alone.f90 <<'F'
program alone
  use kolo
  type(kolo_comm) :: comm
  call kolo_comm_init(0, comm)
end program alone
F
$FC -I "$(folder_of kolo.mod "$name")" alone.f90 -L "$lib" -lkolo_fortran_"$name" $link -o alone
if ./alone 2>alone.err; then fail "kolo_comm_init without MPI came back"; fi
grep -q "kolo_comm_init: the library libkolo_mpi" alone.err || fail "said: $(cat alone.err)"
echo "$test_name ($MPI, $FC): ok"
