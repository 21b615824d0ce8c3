#!/bin/sh
# A program of one MPI that is linked with the libkolo_mpi of the other: an error that names both,
# and no crash.
. "$(dirname "$0")/common"
# How often a word was printed; mpirun may put what two ranks print into one line.
words() { grep -o "$1" "$work/out" | wc -l; }
case $MPI in
openmpi) other=mpich built="built for MPICH and Intel MPI" runs="MPI of the program is Open MPI" ;;
mpich) other=openmpi built="built for Open MPI" runs="MPI of the program is MPICH" ;;
esac
wrong=$(find "$PREFIX" -name libkolo_mpi.so -path "*$other*" | head -n 1)
if [ -z "$wrong" ]; then
    "$SOURCE/tests/skip/skip.sh" other-mpi "kolo is not installed for $other"
    exit
fi
wrong=$(dirname "$wrong")
cc -Wall -Wextra -Werror "$top/tests/mpi/alone.c" -I "$include" -I "$(folder_of kolo_mpi.h "")" \
    $(compile_flags "mpicc.$MPI") -L "$wrong" -L "$lib" -Wl,--no-as-needed -lkolo_mpi -lkolo \
    -Wl,-rpath,"$wrong" -Wl,-rpath,"$lib" $(link_flags "mpicc.$MPI") -o "$work/alone"
$MPIRUN -n 2 "$work/alone" >"$work/out" 2>"$work/err" ||
    fail "exit status $?: $(cat "$work/out" "$work/err")"
[ "$(words 'refused')" = 2 ] || fail "$(cat "$work/out" "$work/err")"
for words in "$built" "$runs" "Remedy: use the libkolo_mpi of the program's own MPI" \
    "CommInitMPI: "; do
    grep -q "$words" "$work/err" || fail "no '$words' in: $(cat "$work/err")"
done
# The MPI of a Fortran program brings its C library behind that of the wrong libkolo_mpi.
cat >"$work/wrong.f90" <<'F'
program wrong
  use kolo
  implicit none
  include 'mpif.h'
  type(kolo_comm) :: comm
  integer :: ierror, mine
  character(len=600) :: message
  call mpi_init(mine)
  call kolo_comm_init(MPI_COMM_WORLD, comm, ierror)
  call kolo_get_last_error(comm, message)
  if (ierror == KOLO_INVALID_USAGE) print '(a)', 'refused: ' // trim(message)
  call mpi_finalize(mine)
end program wrong
F
gfortran -I "$(folder_of kolo.mod gfortran)" $(compile_flags "mpif90.$MPI") "$work/wrong.f90" \
    -L "$lib" -lkolo_fortran_gfortran -L "$wrong" -Wl,--no-as-needed -lkolo_mpi -lkolo \
    -Wl,--as-needed -Wl,-rpath,"$wrong" -Wl,-rpath,"$lib" $(link_flags "mpif90.$MPI") \
    -o "$work/wrong"
timeout 60 $MPIRUN -n 2 "$work/wrong" >"$work/out" 2>"$work/err" || true
[ "$(words 'refused')" = 2 ] || fail "Fortran: $(cat "$work/out" "$work/err")"
for words in "$built" "$runs" "kolo_comm_init: this libkolo_mpi"; do
    grep -q "$words" "$work/out" || fail "no '$words' in Fortran's: $(cat "$work/out" "$work/err")"
done
echo "$test_name ($MPI): ok"
