#!/usr/bin/env bash
# Projects in C, Fortran and CMake build from an installed tree, and run: from the one that is
# named, and from one that was installed anew and then moved.
#
#   tests/install/projects.sh PREFIX MOVED    what tests/mpi/pkgconfig_* does with PREFIX is not
#                                             done again
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAIL  projects: $*" >&2; exit 1; }
for name in $(compgen -e | grep -E '^(KOLO|NCCL)_' || true); do unset "$name"; done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=$scratch
unset LD_LIBRARY_PATH CMAKE_PREFIX_PATH
export TMPDIR=$scratch

flang=
for one in flang-new-19 flang-19 flang-new-18 flang-new flang; do
    flang=${flang:-$(command -v $one || true)}
done

# runs MPI PROGRAM: two ranks add up, by libraries of this prefix and no other.
runs() {
    local launch="mpirun.$1 -n 2"
    [ "$1" = mpich ] || launch="$launch --oversubscribe"
    (cd "$scratch" && timeout 60 $launch "$2" >out 2>&1) || fail "$2: $(cat "$scratch/out")"
    [ "$(grep -c ' of 2: the sum is 3$' "$scratch/out")" = 2 ] || fail "$2: $(cat "$scratch/out")"
    local libraries
    libraries=$(ldd "$2" | sed -n 's/.*\(libkolo[^ ]*\) => \([^ ]*\).*/\2/p' | xargs -n 1 realpath)
    [ "$(echo "$libraries" | wc -l)" -ge 2 ] || fail "$2 is linked to: $libraries"
    ! echo "$libraries" | grep -v "^$prefix/" || fail "$2 takes libraries of another tree"
}

words() { # MPI: what flang needs of its wrapper, whose other options are gfortran's
    case $1 in
        openmpi) mpifort.openmpi --showme:compile; mpifort.openmpi --showme:link ;;
        mpich) mpifort.mpich -show ;;
    esac | tr ' ' '\n' | grep -E '^-[ILl]' | grep -v usempi
}

in_fortran() { # MPI
    mpifort.$1 -J "$work" "$examples/fortran/hello.f90" -o "$work/fortran" \
        $(pkg-config --cflags --libs kolo-fortran kolo-mpi-$1)
    runs "$1" "$work/fortran"
    [ "$1" = openmpi ] && [ -n "$flang" ] || return 0
    # flang cannot read the module mpi that gfortran has written.
    sed "s/^  use mpi\$//; s/^  implicit none\$/&\n  include 'mpif.h'/" \
        "$examples/fortran/hello.f90" >"$work/included.f90"
    "$flang" "$work/included.f90" -o "$work/flang" $(words "$1") \
        $(pkg-config --cflags --libs kolo-fortran-flang "kolo-mpi-$1")
    runs "$1" "$work/flang"
}

# The project's own compilers are the MPI's wrappers, of both languages and of Fortran alone.
by_wrappers() { # MPI
    local languages program
    for languages in "C;Fortran" Fortran; do
        program=in_c
        [ "$languages" != Fortran ] || program=in_fortran
        (
            cd "$work"
            CC=mpicc.$1 FC=mpifort.$1 cmake -S . -B "by_$program" -DFAMILY="$1" \
                -DLANGUAGES="$languages" -DEXAMPLES="$examples" -DCMAKE_PREFIX_PATH="$prefix"
            cmake --build "by_$program" --target $program
        ) >"$scratch/log" 2>&1 || fail "CMake by wrappers, $1: $(tail -n 30 "$scratch/log")"
        runs "$1" "$work/by_$program/$program"
    done
}

for tree in "$@"; do
    prefix=$(realpath "$tree")
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    examples=$prefix/share/doc/kolo/examples
    for mpi in openmpi mpich; do
        [ "$tree" = "$2" ] || [ $mpi = openmpi ] || continue
        work=$scratch/$mpi$(basename "$prefix")
        mkdir -p "$work"
        mpicc.$mpi "$examples/c/hello.c" -o "$work/c" $(pkg-config --cflags --libs kolo-mpi-$mpi)
        runs $mpi "$work/c"
        if [ "$tree" = "$2" ]; then in_fortran $mpi; fi
        cp "$here/project/CMakeLists.txt" "$work"
        sed 's/^  use mpi$/  use mpi_f08/; s/^  use kolo$/  use kolo_mpi_f08/' \
            "$examples/fortran/hello.f90" >"$work/typed.f90"
        if [ "$tree" != "$2" ]; then by_wrappers $mpi; fi
        [ $mpi = openmpi ] || continue
        (
            cd "$work"
            cmake -S . -B made -DFAMILY=$mpi -DEXAMPLES="$examples" -DCMAKE_PREFIX_PATH="$prefix" \
                -DMPI_C_COMPILER=mpicc.$mpi -DMPI_Fortran_COMPILER=mpifort.$mpi
            cmake --build made
        ) >"$scratch/log" 2>&1 || fail "CMake: $(tail -n 30 "$scratch/log")"
        for program in in_c in_fortran typed; do runs $mpi "$work/made/$program"; done
    done
done
echo "ok    projects in C, Fortran and CMake from two trees, one of them moved"
