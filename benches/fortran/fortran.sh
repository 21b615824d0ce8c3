#!/usr/bin/env bash
# An all-reduce of 8 bytes from C, from Fortran and of the MPI, by turns in one run.
#
#   benches/fortran/fortran.sh PREFIX openmpi|mpich [RANKS [CALLS [TURNS]]]
#
# FC names the compiler (gfortran): the MPI's wrapper must run it.
set -euo pipefail
case ${1:-} in --help | -h | '') sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit $((! $#)) ;; esac
prefix=$(cd "$1" && pwd) mpi=$2 ranks=${3:-2} calls=${4:-5000} turns=${5:-41}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ "$ranks" -le "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=1
case $mpi in
openmpi) oversubscribe=--oversubscribe wrapper=OMPI_FC ;;
*) oversubscribe='' wrapper=MPICH_FC ;;
esac
cc -O2 -I "$prefix/include" -c "$here/call.c" -o "$work/call.o"
flags=$(pkg-config --cflags --libs kolo-fortran "kolo-mpi-$mpi")
# shellcheck disable=SC2086
env "$wrapper=${FC:-gfortran}" "mpifort.$mpi" -O2 "$here/calls.f90" "$work/call.o" $flags \
    -Wl,-rpath,"$prefix/lib" -o "$work/calls"
[ "${BUILD_ONLY:-}" ] && { cp "$work/calls" "$BUILD_ONLY"; exit; }
# shellcheck disable=SC2086
"mpirun.$mpi" $oversubscribe -n "$ranks" "$work/calls" "$calls" "$turns"
