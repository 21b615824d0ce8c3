#!/usr/bin/env bash
# The installed tree: what must be there, what the libraries export and need, and that installing
# again keeps a site's settings and removing leaves nothing else behind.
#
#   tests/install.sh PREFIX    PREFIX is a staged installation
set -euo pipefail
prefix=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
fail() { echo "FAIL  $*" >&2; exit 1; }

for name in bin/kolo include/kolo.h include/kolo_mpi.h lib/libkolo.so lib/libkolo.so.0 \
    include/kolo/gfortran/kolo.mod include/kolo/flang/kolo.mod lib/libkolo_fortran_gfortran.so \
    lib/libkolo_fortran_flang.so lib/kolo/openmpi/libkolo_mpi.so lib/kolo/mpich/libkolo_mpi.so \
    lib/libkolo_pmpi.so.0 lib/kolo/openmpi/libkolo_pmpi_calls.so \
    lib/kolo/mpich/libkolo_pmpi_calls.so lib/kolo/libkolo_verbs.so lib/kolo/libkolo_ofi.so \
    share/kolo/fortran/kolo.f90 share/doc/kolo/README.md etc/kolo.toml \
    lib/cmake/kolo/kolo-config.cmake share/man/man7/kolo.7 share/kolo/examples/c/hello.c \
    share/doc/kolo/slurm/README.md share/kolo/slurm/jobs/mpi.sbatch; do
    [ -e "$prefix/$name" ] || fail "$name is not installed"
done

# nccl-tests' programs are links to kolo, and each measures what its name says.
for name in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather \
    scatter sendrecv hypercube; do
    program=$prefix/bin/${name}_perf
    [ "$(readlink "$program")" = kolo ] || fail "${name}_perf is no link to kolo"
    "$program" --help | grep -q "^Usage: ${name}_perf " || fail "${name}_perf is another program"
done

dynamic() { readelf -d "$prefix/lib/$1" | sed -n "s/.*($2).*\[\(.*\)\]/\1/p"; }
[ "$(dynamic libkolo.so SONAME)" = libkolo.so.0 ] || fail "SONAME of libkolo.so"
for mpi in openmpi mpich; do
    library=kolo/$mpi/libkolo_mpi.so
    [ "$(dynamic $library SONAME)" = libkolo_mpi.so.0 ] || fail "SONAME of $library"
    ! ldd "$prefix/lib/$library" | grep 'not found' || fail "$library does not find its libraries"
done
[ "$(dynamic kolo/libkolo_verbs.so SONAME)" = libkolo_verbs.so.0 ] || fail "SONAME of verbs"
dynamic kolo/libkolo_verbs.so NEEDED | grep -qx libibverbs.so.1 || fail "verbs without libibverbs"
! dynamic kolo/libkolo_verbs.so NEEDED | grep kolo || fail "libkolo_verbs.so needs kolo"
[ "$(dynamic kolo/libkolo_ofi.so SONAME)" = libkolo_ofi.so.0 ] || fail "SONAME of ofi"
dynamic kolo/libkolo_ofi.so NEEDED | grep -qx libfabric.so.1 || fail "ofi without libfabric"
! dynamic kolo/libkolo_ofi.so NEEDED | grep kolo || fail "libkolo_ofi.so needs kolo"
# The core has no MPI and no RDMA, neither in the library nor in the command.
for file in lib/libkolo.so bin/kolo; do
    ! readelf -d "$prefix/$file" | grep NEEDED | grep ibverbs || fail "$file needs libibverbs"
    ! readelf -d "$prefix/$file" | grep NEEDED | grep -iE 'mpi|mpich' || fail "$file needs MPI"
done

exported() { nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ { print $3 }'; }
others=$(exported "$prefix/lib/libkolo.so" | grep -v '^kolo' || true)
[ -z "$others" ] || fail "libkolo.so exports what is not its own: $others"
# What the header declares is exported.
calls=0
for name in $(grep -oE '\bkolo[A-Z][A-Za-z]*\(' "$prefix/include/kolo.h" | tr -d '(' | sort -u); do
    exported "$prefix/lib/libkolo.so" | grep -qx "$name" || fail "kolo.h declares $name: not there"
    calls=$((calls + 1))
done
[ "$calls" -ge 80 ] || fail "only $calls calls are found in kolo.h"
others=$(exported "$prefix/bin/kolo" | grep '^kolo[A-Z]' || true)
[ -z "$others" ] || fail "the command exports $others"

for package in kolo kolo-mpi kolo-mpi-openmpi kolo-mpi-mpich kolo-fortran kolo-fortran-flang; do
    pkg-config --print-errors --cflags --libs $package >/dev/null || fail "pkg-config $package"
done

# A second installation, under DESTDIR and then removed.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/opt/kolo/etc"
echo '# mine' >"$scratch/opt/kolo/etc/kolo.toml"
touch "$scratch/opt/kolo/README.mine"
# A program of that name that somebody else has installed stays his.
mkdir -p "$scratch/opt/kolo/bin"
echo mine >"$scratch/opt/kolo/bin/reduce_perf"
# The kernels for GPUs are installed where they are built, and only there.
echo kernels >"$scratch.fatbin"
trap 'rm -rf "$scratch" "$scratch.fatbin"' EXIT
(umask 077 && DESTDIR=$scratch KERNELS=$scratch.fatbin bindings/install.sh /opt/kolo >/dev/null)
# Everybody reads it, whatever the umask of who installs.
closed=$(find "$scratch/opt/kolo" \( -type d ! -perm -005 \) -o \( -type f ! -perm -004 \))
[ -z "$closed" ] || fail "not everybody can read $closed"
fatbin=lib/kolo/kolo_kernels.fatbin
grep -qx kernels "$scratch/opt/kolo/$fatbin" || fail "kernels are not installed"
[ "$(PKG_CONFIG_PATH=$scratch/opt/kolo/lib/pkgconfig pkg-config --variable=prefix kolo)" = \
    "$scratch/opt/kolo/lib/pkgconfig/../.." ] || fail "kolo.pc names another place than its own"
grep -q mine "$scratch/opt/kolo/etc/kolo.toml" || fail "the settings were overwritten"
! grep -rIl "$scratch" "$scratch/opt/kolo" || fail "DESTDIR is written into installed files"
[ -L "$scratch/opt/kolo/bin/all_reduce_perf" ] || fail "all_reduce_perf is not installed"
[ ! -L "$scratch/opt/kolo/bin/reduce_perf" ] || fail "another's reduce_perf was overwritten"
DESTDIR=$scratch bindings/install.sh --remove /opt/kolo >/dev/null
left=$(cd "$scratch" && find . -type f -o -type l | sort | tr '\n' ' ')
mine="./opt/kolo/README.mine ./opt/kolo/bin/reduce_perf ./opt/kolo/etc/kolo.toml "
[ "$left" = "$mine" ] || fail "left behind: $left"
[ ! -d "$scratch/opt/kolo/lib" ] || fail "empty folders are left behind"
# A folder that is a link by now leads out of the tree, and what is there stays.
DESTDIR=$scratch bindings/install.sh /opt/kolo >/dev/null
mv "$scratch/opt/kolo/lib" "$scratch/elsewhere"
ln -s "$scratch/elsewhere" "$scratch/opt/kolo/lib"
before=$(find "$scratch/elsewhere" | sort)
DESTDIR=$scratch bindings/install.sh --remove /opt/kolo >/dev/null
[ "$(find "$scratch/elsewhere" | sort)" = "$before" ] || fail "a link led out of the tree"
[ ! -e "$scratch/opt/kolo/bin/kolo" ] || fail "what is beside a link stays"
rm -r "$scratch/elsewhere" "$scratch/opt/kolo/lib"
# So do settings behind a link, though nobody has changed them, and what a planted link names.
DESTDIR=$scratch bindings/install.sh /opt/kolo >/dev/null
mv "$scratch/opt/kolo/etc" "$scratch/elsewhere"
cp "$scratch/opt/kolo/share/kolo/kolo.toml" "$scratch/elsewhere/kolo.toml"
ln -s "$scratch/elsewhere" "$scratch/opt/kolo/etc"
mv "$scratch/opt/kolo/share/kolo/manifest" "$scratch/elsewhere/precious"
ln -s "$scratch/elsewhere/precious" "$scratch/opt/kolo/share/kolo/manifest"
before=$(cd "$scratch/elsewhere" && cksum *)
DESTDIR=$scratch KERNELS=$scratch.fatbin bindings/install.sh /opt/kolo >/dev/null
DESTDIR=$scratch bindings/install.sh --remove /opt/kolo >/dev/null
[ "$(cd "$scratch/elsewhere" && cksum *)" = "$before" ] || fail "a planted link led out of the tree"
rm -r "$scratch/elsewhere" "$scratch/opt/kolo/etc"

# What only debuggers read stands beside the libraries, and they find it.
shipped=$(cd "$prefix" && find bin lib -type f ! -path '*/.debug/*' \
    \( -name '*.so.*' -o -path bin/kolo \))
[ "$(wc -l <<<"$shipped")" -ge 7 ] || fail "only these are shipped: $shipped"
for file in $shipped; do
    [ "$(readelf -S "$prefix/$file" | grep -c '\.debug_info\|\.symtab')" = 0 ] ||
        fail "$file is not stripped"
done
for file in bin/kolo lib/libkolo.so lib/kolo/mpich/libkolo_mpi.so; do
    link=$(readelf --string-dump=.gnu_debuglink "$prefix/$file" | grep -o '[^ ]*\.debug$')
    debug=$(dirname "$(realpath "$prefix/$file")")/.debug/$link
    readelf -S "$debug" 2>/dev/null | grep -q '\.debug_info' ||
        fail "$file: nothing for debuggers in $debug"
done

# The last line is what to type next, and works in a shell that knows nothing of kolo.
said=$(MODULES_openmpi=openmpi MODULES_mpich="mpich impi" DESTDIR='' KERNELS=/nonexistent \
    env -u MODULESHOME -u LMOD_CMD bindings/install.sh "$scratch/first" | tail -n 1)
[[ $said == "    "*" kolo info" ]] || fail "the installer does not say what to type: $said"
said=$(env -i HOME="$scratch" PATH=/usr/bin:/bin bash -c "$said" | grep '^prefix ') ||
    fail "what the installer says does not work"
[ "${said##* }" = "$scratch/first" ] || fail "the next line leads to another kolo: $said"

# The software GPU stands where nobody finds it by accident, and is found by who asks for it.
asked='import ctypes
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
print(count.value)'
[ "$("$scratch/first/bin/kolo" softgpu -n 3 -- python3 -c "$asked")" = 3 ] ||
    fail "kolo softgpu shows no three devices"
grep -q 'kolo software GPU kernels' "$scratch/first/lib/kolo/softgpu/kolo_kernels.softgpu" ||
    fail "the kernels of the software GPU are not installed"

# Installed, then moved: no file knows where it was.
[ "$(find "$scratch/first" -perm /022 ! -type l | wc -l)" = 0 ] || fail "others may write"
[ ! -e "$scratch/first/$fatbin" ] || fail "kernels are installed that are not built"
mv "$scratch/first" "$scratch/second"
named=$(grep -rl "$scratch/first" "$scratch/second" || true)
[ -z "$named" ] || fail "these still name the first place: $named"

# One MPI and one compiler may be asked for, and nothing is built for others.
said=$(make --dry-run install MPI=mpich COMPILERS=gfortran PREFIX=/opt/kolo 2>&1)
grep -q 'FAMILIES="mpich" ' <<<"$said" || fail "make install MPI=mpich does: $said"
! grep -q 'mpicc.openmpi\|FC=flang' <<<"$said" || fail "make install builds for others: $said"

tests/install/compilers.sh

# What packages take: an installation for /usr, whose settings are in /etc. Settings that nobody has
# changed go with the rest, and so do all folders.
DESTDIR=$scratch/packed bindings/install.sh /usr >/dev/null
[ ! -e "$scratch/packed/usr/share/modulefiles" ] || fail "a module would take /usr/bin away"
tests/install/packaging.py "$scratch/packed"
tests/install/rpm.py
DESTDIR=$scratch/packed bindings/install.sh --remove /usr >/dev/null
left=$(cd "$scratch/packed" && find . -mindepth 1 | sort | tr '\n' ' ')
[ "$left" = "./etc " ] || fail "left of the package: $left"

tests/install/pages.sh "$prefix"
tests/install/upgrade.sh "$prefix"
tests/install/modules.sh "$scratch/second"
tests/install/projects.sh "$prefix" "$scratch/second"
echo "ok    the installed tree"
