#!/bin/sh
# Installs what `make build` made under a prefix, or removes it again.
#
#   bindings/install.sh PREFIX            DESTDIR is put before every path that is written
#   bindings/install.sh --remove PREFIX   settings in PREFIX/etc stay
#
# FAMILIES (default "openmpi mpich") says for which MPIs, BUILT (default target/release) which build
# is taken. The list of installed files is kept in PREFIX/share/kolo/manifest, and removing follows
# that list and nothing else.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "install: $*" >&2; exit 1; }

remove=
if [ "${1:-}" = --remove ]; then remove=yes; shift; fi
[ $# = 1 ] || fail "usage: install.sh [--remove] PREFIX"
case $1 in /*) prefix=${1%/} ;; *) fail "PREFIX must be an absolute path, and '$1' is not" ;; esac

families=${FAMILIES:-openmpi mpich}
built=${BUILT:-target/release}
top=${DESTDIR:-}$prefix
manifest=$top/share/kolo/manifest
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

if [ -n "$remove" ]; then
    [ -f "$manifest" ] || fail "there is no $manifest: nothing of kolo is installed there"
    names=$(cat "$manifest")
    echo "$names" | while read -r name; do rm -f "$top/$name"; done
    # Folders that only kolo used are empty now; others are not, and stay.
    echo "$names" | while read -r name; do
        folder=$(dirname "$name")
        while [ "$folder" != . ]; do
            rmdir "$top/$folder" 2>/dev/null || true
            folder=$(dirname "$folder")
        done
    done
    echo "kolo was removed from $top"
    exit 0
fi

# put MODE SOURCE NAME: one file, by its name below the prefix.
put() {
    [ -f "$2" ] || fail "$2 is not there: run 'make build' first"
    install -D -m "$1" "$2" "$top/$3"
    echo "$3" >>"$list"
}

# link TARGET NAME
link() {
    mkdir -p "$(dirname "$top/$2")"
    ln -sfn "$1" "$top/$2"
    echo "$2" >>"$list"
}

# program NAME: a name by which kolo is another program; what another package has put there stays.
program() {
    if [ -e "$top/bin/$1" ] && [ "$(readlink "$top/bin/$1")" != kolo ]; then
        echo "install: $top/bin/$1 is not kolo's and stays as it is"
        return
    fi
    link kolo "bin/$1"
}

# pkg NAME DESCRIPTION REQUIRES CFLAGS LIBS: a pkg-config file. Programs find the libraries in an
# unusual prefix without LD_LIBRARY_PATH, because the folder is written into them.
pkg() {
    {
        printf 'prefix=%s\nlibdir=${prefix}/lib\nincludedir=${prefix}/include\n\n' "$prefix"
        printf 'Name: %s\nDescription: %s\nVersion: %s\n' "$1" "$2" "$version"
        [ -z "$3" ] || printf 'Requires: %s\n' "$3"
        [ -z "$4" ] || printf 'Cflags: %s\n' "$4"
        [ -z "$5" ] || printf 'Libs: %s\n' "$5"
    } >"$scratch/$1.pc"
    put 644 "$scratch/$1.pc" "lib/pkgconfig/$1.pc"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
list=$scratch/manifest
: >"$list"
lib='-L${libdir} -Wl,-rpath,${libdir}'

put 755 "$built/kolo" bin/kolo
# nccl-tests' programs: all_reduce_perf -b 8 -e 128M -f 2 measures host memory.
for name in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather \
    scatter sendrecv hypercube; do
    program "${name}_perf"
done
put 755 "$built/libkolo.so" "lib/libkolo.so.$version"
link "libkolo.so.$version" lib/libkolo.so.0
link libkolo.so.0 lib/libkolo.so
put 644 bindings/c/include/kolo.h include/kolo.h
put 644 bindings/mpi/kolo_mpi.h include/kolo_mpi.h
pkg kolo "Collective communication for batch HPC jobs" "" '-I${includedir}' "$lib -lkolo"

# RDMA is loaded on demand, so nothing names this library when programs are linked.
put 755 "$built/libkolo_verbs.so" "lib/kolo/libkolo_verbs.so.$version"
link "libkolo_verbs.so.$version" lib/kolo/libkolo_verbs.so.0
link libkolo_verbs.so.0 lib/kolo/libkolo_verbs.so

for family in $families; do
    put 755 "$built/mpi/$family/libkolo_mpi.so" "lib/kolo/$family/libkolo_mpi.so.$version"
    link "libkolo_mpi.so.$version" "lib/kolo/$family/libkolo_mpi.so.0"
    link libkolo_mpi.so.0 "lib/kolo/$family/libkolo_mpi.so"
    # Fortran programs name nothing of this library, and would lose it where --as-needed is usual.
    dir="\${libdir}/kolo/$family"
    pkg "kolo-mpi-$family" "kolo started over an MPI communicator ($family)" kolo "" \
        "-L$dir -Wl,-rpath,$dir -Wl,--push-state,--no-as-needed -lkolo_mpi -Wl,--pop-state"
done

# The plain name is the first family: what most sites have is one MPI.
pkg kolo-mpi "kolo started over an MPI communicator" "kolo-mpi-${families%% *}" "" ""

fortran() { # COMPILER FOLDER PACKAGE
    put 755 "$2/libkolo_fortran_$1.so.0" "lib/libkolo_fortran_$1.so.$version"
    link "libkolo_fortran_$1.so.$version" "lib/libkolo_fortran_$1.so.0"
    link "libkolo_fortran_$1.so.0" "lib/libkolo_fortran_$1.so"
    put 644 "$2/$1/kolo.mod" "include/kolo/$1/kolo.mod"
    pkg "$3" "kolo for Fortran, compiled with $1" kolo "-I\${includedir}/kolo/$1" \
        "$lib -lkolo_fortran_$1"
}

for family in $families; do
    fortran gfortran "build/fortran/$family" kolo-fortran
    # Module mpi_f08 differs between MPIs, and so does what is compiled with it.
    mod=build/fortran/$family/gfortran/kolo_mpi_f08.mod
    if [ -f "$mod" ]; then
        put 644 "$mod" "include/kolo/gfortran/$family/kolo_mpi_f08.mod"
        pkg "kolo-fortran-f08-$family" "kolo for programs that use mpi_f08 ($family)" \
            "kolo-fortran kolo-mpi-$family" "-I\${includedir}/kolo/gfortran/$family" ""
    fi
done
if [ -d build/fortran/flang ]; then fortran flang build/fortran/flang kolo-fortran-flang; fi
for file in bindings/fortran/*.f90 bindings/fortran/*.c bindings/fortran/*.h \
    bindings/fortran/*.inc bindings/fortran/native.awk bindings/fortran/build.sh; do
    put 644 "$file" "share/kolo/fortran/$(basename "$file")"
done
chmod 755 "$top/share/kolo/fortran/build.sh"

for file in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/*.md docs/*.png; do
    [ ! -f "$file" ] || put 644 "$file" "share/doc/kolo/$(basename "$file")"
done

# A site's own settings are never overwritten, and not removed with the rest.
if [ ! -e "$top/etc/kolo.toml" ]; then
    [ -f config/kolo.toml ] || fail "config/kolo.toml is not there"
    install -D -m 644 config/kolo.toml "$top/etc/kolo.toml"
fi

echo share/kolo/manifest >>"$list"
mkdir -p "$(dirname "$manifest")"
sort -u "$list" >"$manifest"
echo "kolo $version was installed in $top"
