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

# Unchanged, its MPI version runs on kolo too: the same bits of the field.
fields() { # WORDS BEFORE THE PROGRAM...
    $MPIRUN -n 3 "$@" tsunami/tsunami --comm mpi --quiet --namelist short 2>&1
    sha256sum <tsunami-out/tsunami.nc >field
}
fields env && mv field plain
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
fields env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 >said
cmp plain field
[ "$(grep -cE ': ([1-9][0-9]*) of \1 collectives ran on kolo' said)" = 3 ]
