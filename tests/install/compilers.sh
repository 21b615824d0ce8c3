#!/usr/bin/env bash
# The Makefile builds for the MPI that is named, whatever it has built before: two MPIs of one
# family, one after the other, give two libraries; a compiler that is none is an error.
#
#   tests/install/compilers.sh
#
# In a copy of what the rules read, with a cargo of its own that compiles next to nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAIL  compilers: $*" >&2; exit 1; }
mpich=${MPICC_mpich:-mpicc.mpich} openmpi=${MPICC_openmpi:-mpicc.openmpi}

mkdir -p "$scratch/tree/bindings/c"
cd "$scratch/tree"
cp "$here/Makefile" "$here/Cargo.lock" .
cp -r "$here/bindings/mpi" "$here/bindings/pmpi" "$here/bindings/fortran" \
    "$here/bindings/install.sh" bindings
cp -r "$here/bindings/c/include" bindings/c
# Only whose wrapper it is given matters here.
cat >bindings/fortran/build.sh <<'S'
#!/bin/sh
echo "${MPIFC:-none}" >"$1/mpifc"
S
cat >"$scratch/cargo" <<'S'
#!/bin/sh
case " $* " in
*" build "*kolo-mpi*) ;;
*) exit 0 ;;
esac
mkdir -p target/release
echo 'int MPI_Finalize(void); int stop(void); int stop(void) { return MPI_Finalize(); }' >stop.c
# As one word, as crate mpi takes it.
"$MPICC" -fPIC -c stop.c -o stop.o
ar rc target/release/libkolo_mpi.a stop.o
cp target/release/libkolo_mpi.a target/release/libkolo_pmpi.a
"$MPICC" -shared -fPIC -Wl,--no-as-needed stop.c -o target/release/libkolo_mpi.so
S
chmod +x "$scratch/cargo" bindings/fortran/build.sh

# A second MPI of MPICH's family, whose library has another name; both are called mpicc.
mkdir -p "$scratch"/{one,two/lib}
real=$(command -v "$mpich")
printf '#!/bin/sh\nexec %s "$@"\n' "$real" >"$scratch/one/mpicc"
echo 'int MPI_Finalize(void); int MPI_Finalize(void) { return 0; }' >"$scratch/two.c"
cc -shared -fPIC -Wl,-soname,libmpi.so.12 "$scratch/two.c" -o "$scratch/two/lib/libmpi.so"
include=$("$mpich" -show | grep -o -- '-I[^ ]*' | head -n 1)
cat >"$scratch/two/mpicc" <<S
#!/bin/sh
[ "\$1" != -show ] || { echo "cc $include -L$scratch/two/lib -lmpi"; exit; }
exec cc $include "\$@" -L$scratch/two/lib -lmpi
S
chmod +x "$scratch"/{one,two}/mpicc
export TMPDIR=$scratch
# What the make that runs this test was given is not for those in it.
unset MAKEFLAGS MFLAGS MAKELEVEL PROFILE

# builds WORDS...: for MPICH without Fortran, unless the words say more.
builds() {
    make -s --no-print-directory CARGO="$scratch/cargo" MPI=mpich COMPILERS= "$@" build \
        >"$scratch/said" 2>&1
}
# has FAMILY LIBRARY: the MPI that the built library names.
has() {
    local found
    found=$(grep -aoE 'libmpi[a-z]*\.so\.[0-9]+' "target/release/mpi/$1/libkolo_mpi.so" | sort -u)
    [ "$found" = "$2" ] || fail "libkolo_mpi for $1 has '$found', not $2: $(cat "$scratch/said")"
}
refuses() { # WORDS-OF-THE-ERROR, WORDS...
    local words=$1
    shift
    ! builds "$@" || fail "make $* succeeds"
    grep -q "$words" "$scratch/said" || fail "make $* says: $(cat "$scratch/said")"
}

builds MPICC_mpich="$scratch/one/mpicc" || fail "$(cat "$scratch/said")"
has mpich libmpich.so.12
built=$(stat -c %Y.%i target/release/mpi/mpich/libkolo_mpi.so)
builds MPICC_mpich="$scratch/one/mpicc" || fail "$(cat "$scratch/said")"
[ "$built" = "$(stat -c %Y.%i target/release/mpi/mpich/libkolo_mpi.so)" ] || fail "built twice"

refuses "MPICC_mpich=/no/such/mpicc: there is no such command" MPICC_mpich=/no/such/mpicc
refuses "MPICC_mpich=$openmpi: this is a compiler of Open MPI" MPICC_mpich="$openmpi"
refuses "MPICC_mpich=cc: it cannot compile" MPICC_mpich=cc

# Another name, and one name that a module has led elsewhere.
builds MPICC_mpich="$scratch/two/mpicc" || fail "$(cat "$scratch/said")"
has mpich libmpi.so.12
for one in one two; do
    PATH=$scratch/$one:$PATH builds MPICC_mpich=mpicc || fail "$(cat "$scratch/said")"
    case $one in one) has mpich libmpich.so.12 ;; *) has mpich libmpi.so.12 ;; esac
done
# With flags, and by the plain name; the other family is not touched.
builds MPICC="$scratch/two/mpicc -O1 -DSOME=1" || fail "$(cat "$scratch/said")"
has mpich libmpi.so.12
builds MPI=openmpi MPICC_openmpi="$openmpi -O1" || fail "$(cat "$scratch/said")"
has openmpi libmpi.so.40
has mpich libmpi.so.12
# What was built for another one is not installed, as by root after `make build`.
! FAMILIES=mpich MPICC_mpich="$scratch/one/mpicc" BUILT=target/release DESTDIR=$scratch/out \
    bindings/install.sh /usr >"$scratch/said" 2>&1 || fail "install.sh installs another build"
grep -q "was built with MPICC_mpich=$scratch/two/mpicc" "$scratch/said" ||
    fail "$(cat "$scratch/said")"

# The Fortran compiler of the MPI likewise, where Fortran is built.
fortran() { builds MPICC_mpich="$mpich" COMPILERS=gfortran "$@"; }
fortran MPIFC_mpich="$scratch/one/mpicc" || fail "$(cat "$scratch/said")"
fortran MPIFC_mpich="$scratch/two/mpicc" || fail "$(cat "$scratch/said")"
grep -q "two/mpicc" build/fortran/mpich/mpifc || fail "Fortran's compiler: $(cat "$scratch/said")"
refuses "MPIFC_mpich=/no/such/mpifort: there is no such command" MPICC_mpich="$mpich" \
    COMPILERS=gfortran MPIFC_mpich=/no/such/mpifort
builds MPICC_mpich="$mpich" MPIFC_mpich=/no/such/mpifort || fail "without Fortran it is not used"
echo "ok    the compilers of an MPI"
