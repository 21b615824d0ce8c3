#!/usr/bin/env bash
# Installing over an older kolo: its files go, the site's own stay, and settings that no longer hold
# are told. Installing for another MPI of the same kolo adds to it. And PREFIX is looked at first.
#
#   tests/install/upgrade.sh PREFIX    PREFIX is a staged installation; a copy of it is changed
set -euo pipefail
staged=$(realpath "$1")
cd "$(dirname "$0")/../.."
fail() { echo "FAIL  upgrade: $*" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
unset DESTDIR FAMILIES

# What is built, without what debuggers read, which would take the most of the time.
export BUILT=$scratch/built KERNELS=/nonexistent
mkdir -p "$BUILT/mpi/openmpi" "$BUILT/mpi/mpich"
lean() { objcopy --strip-unneeded --remove-section=.gnu_debuglink "$staged/$1" "$BUILT/$2"; }
lean bin/kolo kolo
lean lib/libkolo.so libkolo.so
lean lib/libkolo_pmpi.so libkolo_pmpi.so
lean lib/kolo/libkolo_verbs.so libkolo_verbs.so
lean lib/kolo/libkolo_ofi.so libkolo_ofi.so
lean lib/kolo/softgpu/libcuda.so.1 libkolo_softgpu.so
for mpi in openmpi mpich; do
    lean lib/kolo/$mpi/libkolo_mpi.so mpi/$mpi/libkolo_mpi.so
    lean lib/kolo/$mpi/libkolo_mpi_calls.so mpi/$mpi/libkolo_mpi_calls.so
    lean lib/kolo/$mpi/libkolo_pmpi_calls.so mpi/$mpi/libkolo_pmpi_calls.so
done

# An older kolo for two MPIs, with files that the newer one has not: one of them was changed since,
# one is older than the sums, and beside them are files of the site.
old=$scratch/kolo
cp -a "$staged" "$old"
was() { # NAME TEXT
    mkdir -p "$(dirname "$old/$1")"
    echo "$2" >"$old/$1"
    echo "$1" >>"$old/share/kolo/manifest"
    (cd "$old" && cksum "$1" | awk '{ print $3, $1, $2 }') >>"$old/share/kolo/sums"
}
was lib/libkolo.so.0.0.9 library
was share/doc/kolo/docs/gone/old.md page
was share/kolo/slurm/edited.sh script
echo "and more of the site" >>"$old/share/kolo/slurm/edited.sh"
echo share/kolo/before-sums >>"$old/share/kolo/manifest"
touch "$old/share/kolo/before-sums" "$old/share/doc/kolo/docs/mine.md" "$scratch/outside"
echo ../outside >>"$old/share/kolo/manifest"
settings=$old/etc/kolo.toml
echo 'nchannels = 3' >"$settings"
said=$(FAMILIES=mpich bindings/install.sh "$old" 2>&1) || fail "it does not end well: $said"
for name in lib/libkolo.so.0.0.9 share/doc/kolo/docs/gone share/kolo/before-sums \
    lib/kolo/openmpi/libkolo_mpi.so "share/modulefiles/kolo/$version-openmpi"; do
    [ ! -e "$old/$name" ] || fail "$name of the older kolo is still there"
    ! grep -q "^$name" "$old/share/kolo/manifest" || fail "$name is still in the list"
done
for name in kolo/share/kolo/slurm/edited.sh kolo/share/doc/kolo/docs/mine.md outside \
    kolo/lib/kolo/mpich/libkolo_mpi.so; do
    [ -e "$scratch/$name" ] || fail "$name, which is not the older kolo's alone, is gone"
done
grep -q "$old/share/kolo/slurm/edited.sh was changed" <<<"$said" || fail "nobody hears of it: $said"
grep -q "older kolo was for openmpi too" <<<"$said" || fail "openmpi is gone, not told: $said"
# The settings: the file, the key, and what to type.
grep -q "file $settings, line 1, .*\`nchannels\`" <<<"$said" || fail "settings: $said"
[ "$(tail -n 1 <<<"$said")" = "    $old/bin/kolo config check $settings" ] || fail "next: $said"
grep -qx 'nchannels = 3' "$settings" || fail "settings of the site were changed"

# The same kolo for another MPI: all of the first stays, and is known as it was.
echo '# mine' >"$settings"
was share/man/man1/renamed.1 page
echo "of the site" >>"$old/share/modulefiles/kolo/$version-mpich"
said=$(FAMILIES=openmpi bindings/install.sh "$old" 2>&1)
! grep -q 'config check' <<<"$said" || fail "settings without a mistake: $said"
[ ! -e "$old/share/man/man1/renamed.1" ] || fail "a page that was renamed is still there"
for mpi in openmpi mpich; do
    [ -e "$old/lib/kolo/$mpi/libkolo_mpi.so" ] || fail "$mpi is not there"
done
said=$(bindings/install.sh --remove "$old")
left=$(cd "$old" && find . -type f | sort | tr '\n' ' ')
[ "$left" = "./etc/kolo.toml ./share/doc/kolo/docs/mine.md ./share/kolo/slurm/edited.sh \
./share/modulefiles/kolo/$version-mpich " ] || fail "left behind: $left"
grep -q "$version-mpich was changed" <<<"$said" || fail "a changed file stays, not told: $said"

# PREFIX, before anything is built.
refused() { # WORDS PREFIX
    said=$(make install MPI=mpich CARGO=/nonexistent/cargo PREFIX="$2" 2>&1) && fail "$2 is taken"
    grep -q "$1" <<<"$said" || fail "PREFIX=$2: $said"
}
refused "absolute path.*may be meant: $PWD/relative" relative
refused "a blank, a colon" "$scratch/two words"
refused "a blank, a colon" "$scratch/a:b"
refused "$scratch/outside is no folder" "$scratch/outside/kolo"
# Others than root may write into few folders; the check alone is a script that they can read.
mkdir -p "$scratch/tree/bindings"
cp bindings/install.sh "$scratch/tree/bindings"
cp Cargo.toml "$scratch/tree"
as_user=
[ "$(id -u)" != 0 ] || as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
said=$($as_user sh "$scratch/tree/bindings/install.sh" --check /usr/lib/kolo/x 2>&1) &&
    fail "anybody may install into /usr/lib"
grep -q "cannot write into /usr/lib, .*then as root" <<<"$said" || fail "/usr/lib: $said"
echo "ok    an upgrade drops what is old, keeps what is the site's, and reads its settings"
