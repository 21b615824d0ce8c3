#!/usr/bin/env bash
# The Fortran example, built outside the tree with nothing but pkg-config: with module mpi, with the
# typed handles of mpi_f08, and (flang cannot read Debian's MPI modules) with mpif.h.
set -euo pipefail

check() { # PROGRAM N
    $MPIRUN -n "$2" "./$1" >out
    cat out
    [ "$(grep -c " of $2: the sum is $(($2 * ($2 + 1) / 2))\$" out)" = "$2" ]
}

# The wrapper's folders and libraries are right for flang, its other options are gfortran's.
words_for_flang() {
    case $MPI in
        openmpi) $MPIFC --showme:compile; $MPIFC --showme:link ;;
        mpich) $MPIFC -show ;;
    esac | tr ' ' '\n' | grep -E '^-[ILl]' | grep -v usempi
}

cp "$SOURCE/examples/fortran/hello.f90" .
$MPIFC -std=f2018 -Wall -Werror hello.f90 -o hello $(pkg-config --cflags --libs kolo-fortran)
for n in 1 2 3 8; do check hello $n; done

sed 's/^  use mpi$/  use mpi_f08/; s/^  use kolo$/  use kolo_mpi_f08/' hello.f90 >typed.f90
$MPIFC -std=f2018 -Wall -Werror typed.f90 -o typed \
    $(pkg-config --cflags --libs "kolo-fortran-f08-$MPI")
check typed 4

[ -n "$FLANG" ] || { echo "flang is missing: make deps"; exit 1; }
sed "s/^  use mpi\$//; s/^  implicit none\$/&\n  include 'mpif.h'/" hello.f90 >included.f90
"$FLANG" included.f90 -o included $(words_for_flang) \
    $(pkg-config --cflags --libs kolo-fortran-flang "kolo-mpi-$MPI")
check included 3
