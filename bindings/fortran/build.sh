#!/bin/sh
# Builds the Fortran interface.
#
#   [FC=gfortran] [CC=cc] bindings/fortran/build.sh OUTPUT-DIRECTORY
#
# FC names the Fortran compiler; without it, gfortran and flang are built as far as they are there.
# The output has libkolo_fortran_<name>.so.0 and <name>/kolo.mod, <name> being gfortran, flang, or
# the last part of FC. Other variables:
#   LIBDIR       folder of libkolo.so
#   KOLO_INCLUDE folder of kolo.h
#                (defaults: this source tree, or the installation that this script belongs to)
#   CFI_INCLUDE  folder of the compiler's ISO_Fortran_binding.h, where it is not found
#   MPIFC        MPI wrapper for FC: if its module mpi_f08 is readable, kolo_mpi_f08.mod is made too
set -eu

CC=${CC:-cc}
out=${1:?usage: FC=compiler CC=compiler build.sh OUTPUT-DIRECTORY}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [ -z "${FC:-}" ]; then
    built=no
    for compiler in gfortran flang-new-19 flang-new flang; do
        command -v "$compiler" >/dev/null || continue
        case $compiler:$built in flang*:*flang*) continue ;; esac
        FC=$compiler "$0" "$out"
        built=$built-$compiler
    done
    if [ "$built" = no ]; then
        echo "build.sh: no Fortran compiler found; install gfortran or name one with FC=" >&2
        exit 1
    fi
    exit 0
fi

# In an installation this script is in PREFIX/share/kolo/fortran.
for folder in "$out" "$here/../../target/release" "$here/../../../lib"; do
    if [ -z "${LIBDIR:-}" ] && [ -e "$folder/libkolo.so" ]; then LIBDIR=$folder; fi
done
for folder in "$here/../c/include" "$here/../../../include"; do
    if [ -z "${KOLO_INCLUDE:-}" ] && [ -e "$folder/kolo.h" ]; then KOLO_INCLUDE=$folder; fi
done
if [ ! -e "${LIBDIR:-}/libkolo.so" ] || [ ! -e "${KOLO_INCLUDE:-}/kolo.h" ]; then
    echo "build.sh: libkolo.so or kolo.h not found; run 'cargo build --release -p kolo-c' first," \
        "or set LIBDIR and KOLO_INCLUDE" >&2
    exit 1
fi

# The first word of FC is the compiler, the rest are flags.
compiler=${FC%% *}
case $($FC --version 2>&1 | head -n 1) in
*"GNU Fortran"*) name=gfortran ;;
*flang*) name=flang ;;
*) name=$(basename "$compiler") ;;
esac

# flang has its header beside the compiler; gcc finds gfortran's by itself.
if [ -z "${CFI_INCLUDE:-}" ] && [ "$name" = flang ]; then
    prefix=$(dirname "$(dirname "$(readlink -f "$(command -v "$compiler")")")")
    for folder in "$prefix/include/flang" "$prefix"/lib/clang/*/include; do
        if [ -f "$folder/ISO_Fortran_binding.h" ]; then CFI_INCLUDE=$folder; fi
    done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A call passes several small functions in several files: they are compiled as one, where CC can.
flags='-O2 -fPIC -fvisibility=hidden'
whole='-flto=auto -fno-semantic-interposition'
echo 'int kolo_fi_probe(void) { return 0; }' >"$work/probe.c"
# shellcheck disable=SC2086
if $CC $flags $whole -Werror -shared "$work/probe.c" -o "$work/probe.so" 2>/dev/null; then
    flags="$flags $whole"
fi
rm -f "$work"/probe.*
libdir=$(cd "$LIBDIR" && pwd)
include=$(cd "$KOLO_INCLUDE" && pwd)
# A program may have parts of several compilers, whose descriptors differ: the procedures of each
# have names of their own.
mark=f
case $name in gfortran) mark=fg ;; flang) mark=ff ;; esac
mkdir "$work/sources"
for file in "$here"/kolo*.f90 "$here"/kolo*.inc "$here"/kolo*.[ch] "$here"/*.awk; do
    sed "s/kolo_f_/kolo_${mark}_/g; s/kolo_fortran_in_place/kolo_${mark}_in_place/g" "$file" \
        >"$work/sources/$(basename "$file")"
done
here=$work/sources
cd "$work"
# Programs whose default integer has 8 bytes have procedures of their own, made from the others.
{
    echo '#include "kolo_fortran.h"'
    echo '#include "kolo_fortran_wide.h"'
} >"$here/kolo_fortran_wide_calls.c"
for file in "$here"/kolo*.f90 "$here"/kolo_*.inc; do
    : >stubs
    awk -v stubs=stubs -f "$here/wide.awk" "$file" "$file" >wide
    mv wide "$file"
    cat stubs >>"$here/kolo_fortran_wide_calls.c"
done
rm -f stubs
# gfortran reads interfaces without bind(C), with a C function for each: kolo_fortran_native.c.
# Those before 12 make their descriptors in another way.
interface=$here
if [ "$name" = gfortran ] && [ "$($FC -dumpversion | cut -d. -f1)" -ge 12 ]; then
    interface=$work
    cp "$here/kolo.f90" "$here"/kolo_*.inc "$work"
    for part in kolo_calls kolo_exact kolo_registered; do
        echo '#include "kolo_fortran_native.h"' >"$part.c"
        awk -v stubs="$part.stubs" -f "$here/native.awk" "$here/$part.inc" >"$part.inc"
        cat "$part.stubs" >>"$part.c"
        # shellcheck disable=SC2086
        $CC -std=gnu11 $flags -Wall -Wextra \
            ${CFI_INCLUDE:+-I "$CFI_INCLUDE"} -I "$include" -I "$here" -c "$part.c" -o "$part.o"
    done
fi
$FC -O2 -fPIC -I "$interface" -c "$interface/kolo.f90" -o kolo.o
for part in "$here"/kolo_fortran*.c; do
    # shellcheck disable=SC2086
    $CC -std=gnu11 $flags -Wall -Wextra ${CFI_INCLUDE:+-I "$CFI_INCLUDE"} \
        -I "$include" -c "$part" -o "$(basename "$part" .c).o"
done
# CC links, so that no Fortran library comes in: there must be only one of it, the program's.
# libkolo keeps the address of a function of this library, so it stays when a plugin is unloaded.
library=libkolo_fortran_$name.so
# shellcheck disable=SC2086
$CC $flags -shared -Wl,-soname,"$library.0" -Wl,-z,nodelete -Wl,-rpath,'$ORIGIN' ./*.o \
    -L "$libdir" -lkolo -ldl -pthread -o "$out/$library.0"
ln -sf "$library.0" "$out/$library"
mkdir -p "$out/$name"
cp kolo.mod "$out/$name/"

if [ -n "${MPIFC:-}" ]; then
    if $MPIFC -c "$here/kolo_mpi_f08.f90" -o f08.object 2>/dev/null; then
        cp kolo_mpi_f08.mod "$out/$name/"
    else
        echo "build.sh: no kolo_mpi_f08 for $name, because it cannot read this MPI's mpi_f08" >&2
    fi
fi
echo "$out/$library.0"
