#!/bin/sh
# Links what cargo has built for one MPI into libkolo_pmpi_calls.so, and the one libkolo_pmpi.so
# that serves every MPI; see front.c.
#
#   MPICC=mpicc.openmpi bindings/pmpi/front/build.sh TARGET OUT
#
# TARGET holds libkolo_pmpi.a of cargo, and gets libkolo_pmpi.so; OUT has the libkolo_mpi_calls.so
# of that MPI and gets libkolo_pmpi_calls.so. CC is the C compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
cc=${CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

$cc -shared -O2 -g -fPIC -Wall -Wextra -fvisibility=hidden "$here/front.c" "$here/mpi.c" \
    "$here/jumps.S" -o "$scratch/libkolo_pmpi.so" -Wl,-soname,libkolo_pmpi.so.0 \
    -Wl,-z,nodelete,-z,relro,-z,defs -ldl -lpthread
mv "$scratch/libkolo_pmpi.so" "$target/libkolo_pmpi.so"

# Linked by name only: at run time the real libraries take their places.
functions=$(nm -u "$target/libkolo_pmpi.a" 2>/dev/null |
    sed -n 's/.* U \(kolo[A-Z].*\)/\1/p' | sort -u)
for name in $functions; do echo "void $name(void) {}"; done >"$scratch/link.c"
$cc -shared -fPIC -nostdlib -Wl,-soname,libkolo.so.0 "$scratch/link.c" -o "$scratch/libkolo.so.0"
# The MPI is the one that the front has found: it is named nowhere.
$cc -shared -o "$scratch/libkolo_pmpi_calls.so" -Wl,-soname,libkolo_pmpi_calls.so \
    -Wl,-u,kolo_pmpi_begin "$target/libkolo_pmpi.a" \
    -Wl,--no-as-needed "$out/libkolo_mpi_calls.so" -L"$scratch" -l:libkolo.so.0 \
    -lgcc_s -lpthread -ldl -lm \
    -Wl,--version-script="$here/exports" -Wl,--gc-sections -Wl,-z,nodelete,-z,relro,-z,now \
    -Wl,-rpath,'$ORIGIN:$ORIGIN/..:$ORIGIN/../..'
mv "$scratch/libkolo_pmpi_calls.so" "$out/libkolo_pmpi_calls.so"
