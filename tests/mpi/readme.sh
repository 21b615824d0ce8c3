#!/usr/bin/env bash
# The README as a new user follows it: its programs are taken out of it, and the commands that it
# prints are typed as they stand there, in an environment that has nothing else; as root, where
# this test is root, and as a user without rights. For MPICH its names are put in, as the README
# says. Only the largest size of `kolo perf` is made smaller.
# limit: 150 s
set -euo pipefail
readme=$SOURCE/README.md
fail() { echo "readme ($MPI): $*" >&2; exit 1; }

. "$SOURCE/tests/mpi/newcomer"
mkdir programs

# What a fenced block of this language holds, and the commands in its first lines.
block() { awk -v open='```'"$1" '$0 == open { on = 1; next } $0 == "```" { on = 0 } on' "$readme"; }
block c >programs/hello.c
block rust >hello.rs
awk -v open='```fortran' '$0 == open { on = 1; next } $0 == "```" { on = 0 } on' "$readme" \
    >programs/hello.f90
cmp hello.rs "$SOURCE/examples/rust/hello.rs" || fail "its program in Rust is another one"
c=$(sed -n '1s,^/\* \(.*\) \*/$,\1,p' programs/hello.c)
fortran=$(sed -n '/^! /!q; s/^! //p' programs/hello.f90)
rust=$(sed -n '1s,^//! ,,p' hello.rs)
c=$(as_linked "$c") fortran=$(as_linked "$fortran")
install=$(sed -n 's/^    \(export P[^#]*\).*/\1/p' "$readme")
look=$(awk '/^## Look inside/ { on = 1; next } /^## / { on = 0 } on && /^    /' "$readme" |
    sed 's/ -e [0-9]*M / -e 64K /; s/--compare mpi/& -b 64K -e 64K/; s/#.*//')
for part in c fortran rust install exports look; do
    [ -n "${!part}" ] || fail "no commands were found for $part"
done

# typed FOLDER COMMANDS: a shell that knows of kolo only what the README has it export.
typed() {
    (cd "$1" && env -i PATH="$work/bin:$cargo_bin:/usr/local/bin:/usr/bin:/bin" \
        HOME="$work/home" TMPDIR="$work/tmp" \
        CARGO_HOME="$CARGO_HOME" RUSTUP_HOME="$RUSTUP_HOME" \
        "${as[@]}" timeout 100 bash -euo pipefail -c "${install//\/opt\/kolo/$prefix}
$exports
$2")
}
# Four ranks, each with the sum of 1 to 4.
four() { # NAME FOLDER COMMANDS
    typed "$2" "$3" >out 2>err || fail "$1 (${who}): $(cat out err)"
    for rank in 0 1 2 3; do
        grep -q "^rank $rank of 4: the sum is 10\$" out || fail "$1 ($who) said: $(cat out err)"
    done
}
programs() {
    four C "$work/programs" "$c"
    four Fortran "$work/programs" "$fortran"
    # Nothing that is installed is needed here, and no place of packages.
    local install=$of_cargo
    four Rust "$SOURCE" "unset PKG_CONFIG_PATH
$1"
}

work=$PWD prefix=$PREFIX as=() who="user $(id -un)"
mkdir home tmp
# Before the README's lines, Open MPI refuses what they allow: else they would be idle words.
if [ "$MPI" = openmpi ] && [ "$(id -u)" = 0 ]; then
    if (exports=: && typed programs "mpirun -n 1 true") >out 2>&1; then
        fail "root may start ranks without the README's lines"
    fi
fi
programs "$rust"
typed "$work" "$look" >out 2>err || fail "Look inside: $(cat out err)"
[ -s rings.svg ] || fail "Look inside drew nothing: $(cat out err)"
[ "$(grep -c 'Out of bounds values : 0 OK' out)" = 3 ] || fail "Look inside said: $(cat out)"

# The same as a user without rights, in folders of that user.
if [ "$(id -u)" = 0 ]; then
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all) who="a plain user"
    chmod 711 "$PWD" "$(dirname "$PWD")" "$(dirname "$(dirname "$PWD")")"
    chown -R 65534:65534 home tmp programs
    rm -f programs/hello
    if ! "${as[@]}" test -r "$prefix/lib/libkolo.so"; then
        prefix=$work/installed
        cp -r "$PREFIX" "$prefix"
        sed -i "s,$PREFIX,$prefix," "$prefix"/lib/pkgconfig/*.pc
    fi
    # Building in the repository is for whoever owns it.
    built=$work/programs/hello_rust
    cp "$SOURCE/target/debug/examples/hello" "$built"
    four C "$work/programs" "$c"
    four Fortran "$work/programs" "$fortran"
    rust=${rust#*&& }
    four Rust "$work/programs" "${rust/target\/debug\/examples\/hello/./hello_rust}"
fi
echo "readme ($MPI): ok"
