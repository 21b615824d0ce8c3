#!/usr/bin/env bash
# What `make demo` runs once kolo is built and staged: the tsunami model, then a short kolo perf.
#
#   tests/demo.sh PREFIX openmpi|mpich RANKS
set -euo pipefail
prefix=$1 mpi=$2 ranks=$3
source=$(cd "$(dirname "$0")/.." && pwd)
work=$source/build/demo-$mpi
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
mpirun="mpirun.$mpi"

if [ "$mpi" = openmpi ]; then
    # Without this, Open MPI refuses to start more ranks than cores, and refuses root altogether.
    mpirun="$mpirun --oversubscribe"
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
fi

echo "== the tsunami model is built in $work"
mkdir -p "$work"
make -s -C "$source/examples/tsunami" BUILD="$work" FC="mpifort.$mpi" KOLO_PREFIX="$prefix" \
    KOLO_FFLAGS="$(pkg-config --cflags kolo-fortran)" \
    KOLO_LIBS="$(pkg-config --libs kolo-fortran "kolo-mpi-$mpi")"

cd "$work"
echo "== $mpirun -n $ranks tsunami"
$mpirun -n "$ranks" ./tsunami --comm kolo </dev/null
echo
echo "== $mpirun -n 2 kolo perf all_reduce"
$mpirun -n 2 "$prefix/bin/kolo" perf all_reduce -b 8 -e 4M -f 8 -n 10 </dev/null
echo
echo "The picture: $work/tsunami-out/tsunami.png"
[ -s "$work/tsunami-out/tsunami.png" ]
