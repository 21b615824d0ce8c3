#!/bin/sh
# Links what cargo has built for one MPI into the two libraries that are installed: libkolo_mpi.so,
# which needs no MPI, and libkolo_mpi_calls.so, which it loads when it has found the program's MPI.
# Neither names an MPI; see front.c.
#
#   MPICC=mpicc.openmpi bindings/mpi/front/build.sh TARGET OUT
#
# TARGET holds libkolo_mpi.so and libkolo_mpi.a of cargo. CC is the C compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cc=${CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Cargo's library names the MPI that it was built with: the one to be loaded where there is none.
default=$(readelf -d "$target/libkolo_mpi.so" |
    sed -n 's/.*(NEEDED).*\[\(libmpi[^]]*\)\]/\1/p' | head -n 1)
[ -n "$default" ] || { echo "build.sh: $target/libkolo_mpi.so names no MPI" >&2; exit 1; }

flags="-O2 -g -fPIC -Wall -Wextra -I$here/../../c/include"
for file in front family; do
    # The words are several.
    # shellcheck disable=SC2086
    "$MPICC" $flags -DKOLO_MPI_DEFAULT="\"$default\"" -c "$here/$file.c" -o "$scratch/$file.o"
done
# Linked by name only: at run time the real library takes its place.
$cc -shared -fPIC -nostdlib -Wl,-soname,libkolo.so.0 "$here/../src/link.c" \
    -o "$scratch/libkolo.so.0"
link() { # NAME, WORDS...
    name=$1
    shift
    $cc -shared -o "$out/$name.new" "$@" -L"$scratch" -l:libkolo.so.0 \
        -Wl,--version-script="$here/exports" -Wl,--gc-sections -Wl,-z,nodelete,-z,relro,-z,now \
        -Wl,-rpath,'$ORIGIN:$ORIGIN/..:$ORIGIN/../..'
    mv "$out/$name.new" "$out/$name"
}
# Threads and handlers of exit and fork outlive a dlclose.
link libkolo_mpi_calls.so -Wl,-soname,libkolo_mpi_calls.so \
    -Wl,-u,koloCommInitMPI,-u,koloCommInitMPI_f,-u,kolo_mpi_start,-u,kolo_mpi_table \
    "$target/libkolo_mpi.a" -lgcc_s -lpthread -ldl -lm
link libkolo_mpi.so -Wl,-soname,libkolo_mpi.so.0 "$scratch/front.o" "$scratch/family.o" -lpthread \
    -ldl
