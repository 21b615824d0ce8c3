#!/usr/bin/env bash
# The tsunami model: the same field bits on any number of ranks, on kolo and on plain MPI, and on
# kolo the same bits of mass and energy; its picture and NetCDF file are there. Three numbers of
# ranks under Open MPI, two under MPICH; `examples/tsunami/check.sh` alone takes six.
# limit: 400 s
set -euo pipefail
make -s -C "$SOURCE/examples/tsunami" BUILD="$PWD/tsunami" FC="$MPIFC" KOLO_PREFIX="$PREFIX" \
    KOLO_FFLAGS="$(pkg-config --cflags kolo-fortran)" \
    KOLO_LIBS="$(pkg-config --libs kolo-fortran "kolo-mpi-$MPI")"
case $MPI in
    openmpi) ranks="1 4 7" ;;
    mpich) ranks="1 3" ;;
esac
MPIRUN="$MPIRUN" RANKS="$ranks" "$SOURCE/examples/tsunami/check.sh" tsunami/tsunami kolo mpi

echo '&tsunami hours = 1, resolution = 1 /' >short
$MPIRUN -n 3 tsunami/tsunami --comm kolo --quiet --namelist short
[ "$(head -c 4 tsunami-out/tsunami.png | od -An -tx1 | tr -d ' ')" = 89504e47 ]
[ -s tsunami-out/tsunami.nc ]
