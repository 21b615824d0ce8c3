#!/bin/sh
# limit: 60 s
# MPI_Alloc_mem gives memory of kolo's where it is large and nothing is wished of it, and every
# piece of memory goes back to whom it came from.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin_memory.c" -o memory
plain=$(timeout 60 $MPIRUN -n 3 ./memory 0) || fail "on MPI alone: $plain"
said=$(timeout 60 $MPIRUN -n 3 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 ./memory 1) ||
    fail "$said"
[ "$(echo "$said" | grep -c 'is right')" = 3 ] || fail "$said"
cat >fortran.f90 <<'F'
program memory
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 20000
  type(c_ptr) :: place
  real(8), pointer :: x(:)
  integer :: code, rank, size, i
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, size, code)
  call MPI_Alloc_mem(int(8 * n, MPI_ADDRESS_KIND), MPI_INFO_NULL, place, code)
  call c_f_pointer(place, x, [n])
  x = [(real(i + rank, 8), i = 1, n)]
  call MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  if (any(x /= [(real(size * i + size * (size - 1) / 2, 8), i = 1, n)])) error stop 'wrong sums'
  call MPI_Free_mem(x, code)
  call MPI_Finalize(code)
end program
F
"mpifort.$MPI" -O1 fortran.f90 -o in_fortran
timeout 60 $MPIRUN -n 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 ./in_fortran ||
    fail "in Fortran"
echo "$test_name ($MPI): ok"
