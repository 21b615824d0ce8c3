#!/bin/sh
# Tests libkolo_mpi.so against a double of libkolo.so.0 under one MPI.
# Usage: tests/mpi_library/run.sh openmpi|mpich PATH/libkolo_mpi.so
set -eu

family=${1:?usage: $0 openmpi|mpich PATH/libkolo_mpi.so}
library=$(realpath "${2:?usage: $0 openmpi|mpich PATH/libkolo_mpi.so}")
here=$(cd "$(dirname "$0")" && pwd)
mpicc=mpicc.$family
mpirun=mpirun.$family
case $family in
openmpi)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_mpi_yield_when_idle=1
    set -- --oversubscribe
    ;;
mpich) set -- ;;
*) echo "unknown MPI family $family" >&2 && exit 2 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-std=gnu11 -Wall -Wextra -Werror -O1"
cc $flags -shared -fPIC -Wl,-soname,libkolo.so.0 -I"$here/double" \
    "$here/double/kolo.c" -o "$work/libkolo.so.0"
ln -s "$library" "$work/libkolo_mpi.so"
ln -s "$library" "$work/libkolo_mpi.so.0"
$mpicc $flags -I"$here/double" "$here/init.c" -o "$work/init" \
    -L"$work" -lkolo_mpi -l:libkolo.so.0
cc $flags "$here/api.c" -o "$work/api" -ldl
export LD_LIBRARY_PATH="$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# Only what is meant to be seen is exported.
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort | tr '\n' ' ')
expected="koloCommInitMPI koloCommInitMPI_f kolo_mpi_start kolo_mpi_table "
if [ "$exported" != "$expected" ]; then
    echo "libkolo_mpi.so exports: $exported" >&2
    exit 1
fi

for ranks in 1 2 3 4; do
    timeout 120 $mpirun "$@" -n $ranks "$work/init" "$work/flag"
    timeout 120 $mpirun "$@" -n $ranks "$work/api" "$work/libkolo_mpi.so" "$family"
done
for level in 1 2 3; do
    timeout 120 $mpirun "$@" -n 2 "$work/init" "$work/flag" $level
done
echo "libkolo_mpi under $family: all tests passed"
