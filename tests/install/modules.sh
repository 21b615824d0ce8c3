#!/usr/bin/env bash
# The modules under Lmod and under Environment Modules: every variant is loaded, swapped and
# unloaded, and leaves the environment as it was.
#
#   tests/install/modules.sh PREFIX    PREFIX was installed with MODULES_openmpi="openmpi" and
#                                      MODULES_mpich="mpich impi"
#
# The two packages exclude each other in Debian, and change the shell of every user: they are
# unpacked into build/modules, and stay there for the next time.
set -euo pipefail
prefix=$(realpath "$1")
top=$(cd "$(dirname "$0")/../.." && pwd)
tools=$top/build/modules
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAIL  modules: $tool: $*" >&2; exit 1; }

for package in lmod environment-modules; do
    [ -d "$tools/$package" ] && continue
    mkdir -p "$tools/.new"
    if ! (cd "$tools/.new" && apt-get download -qq $package) >"$scratch/log" 2>&1; then
        tail -n 3 "$scratch/log"
        exec "$top/tests/skip/skip.sh" modules "apt here cannot fetch $package"
    fi
    dpkg -x "$tools"/.new/${package}_*.deb "$tools/.new/$package"
    mv "$tools/.new/$package" "$tools/$package"
done
rm -rf "$tools/.new"
lmod=$(echo "$tools"/lmod/usr/share/lmod/*.*/libexec/lmod)
modulecmd=$(echo "$tools"/environment-modules/usr/lib/*/modulecmd.tcl)

# Modules of the MPIs, as a site has them.
mkdir -p "$scratch/site/openmpi" "$scratch/site/impi" "$scratch/linked/kolo"
for mpi in openmpi impi; do
    printf '#%%Module1.0\nsetenv OF_%s yes\n' "$mpi" >"$scratch/site/$mpi/1.0"
done

# What a run of `module` tells the shell to do.
module() {
    local words status=0
    case $tool in
        lmod) words=$("$lmod" bash "$@" 2>"$scratch/said") || status=$? ;;
        *) words=$(tclsh "$modulecmd" bash "$@" 2>"$scratch/said") || status=$? ;;
    esac
    eval "$words" || status=$?
    # Environment Modules reports a failure in the words.
    return $status
}

# All variables but those in which a tool keeps what is loaded.
state() {
    env | grep -vE '^(_ModuleTable|__LMOD|LMOD_|__MODULES_|LOADEDMODULES|_LMFILES_|_=|MODULES_)' |
        sort
}

# is_loaded FAMILY: everything leads to this tree and this MPI.
is_loaded() {
    [ "$(command -v kolo)" = "$prefix/bin/kolo" ] || fail "$1: kolo is $(command -v kolo)"
    case $KOLO_MPI_LIBRARY in
        "$prefix/lib/kolo/$1/libkolo_mpi.so") [ -f "$KOLO_MPI_LIBRARY" ] ;;
        *) fail "$1: KOLO_MPI_LIBRARY is $KOLO_MPI_LIBRARY" ;;
    esac
    pkg-config --libs kolo-mpi | grep -q "kolo/$1 " || fail "$1: $(pkg-config --libs kolo-mpi)"
    [ "${CMAKE_PREFIX_PATH%%:*}" = "$prefix" ] || fail "$1: CMAKE_PREFIX_PATH $CMAKE_PREFIX_PATH"
    case ${MANPATH-none} in
        none | "$prefix/share/man:"*) ;;
        *) fail "$1: MANPATH $MANPATH" ;;
    esac
}

everything() {
    hash -r
    module use "$scratch/site" || fail "use"
    module use "$prefix/share/modulefiles" || fail "use"
    local first=$version-openmpi second=$version-mpich before
    before=$(state)

    # The MPI first.
    if module load kolo/$first; then
        # Environment Modules may be set to load by itself what is needed.
        [ "${OF_openmpi:-}" = yes ] || fail "loaded without its MPI"
        module unload kolo || fail "unload: $(cat "$scratch/said")"
    else
        grep -q openmpi "$scratch/said" || fail "the MPI is not named: $(cat "$scratch/said")"
    fi
    [ "$(state)" = "$before" ] || fail "the first load left something behind"

    module load openmpi impi || fail "the site's MPIs: $(cat "$scratch/said")"
    before=$(state)
    for variant in $first $second; do
        module load "kolo/$variant" || fail "load $variant: $(cat "$scratch/said")"
        is_loaded "${variant#"$version"-}"
        module unload kolo || fail "unload $variant: $(cat "$scratch/said")"
        [ "$(state)" = "$before" ] || fail "after $variant: $(diff <(echo "$before") <(state))"
    done

    # Of several, the first family is taken; the other in its place, and back.
    module load kolo || fail "load kolo: $(cat "$scratch/said")"
    is_loaded openmpi
    module swap kolo/$first kolo/$second || fail "swap: $(cat "$scratch/said")"
    is_loaded mpich
    module swap kolo/$second kolo/$first || fail "swap back: $(cat "$scratch/said")"
    is_loaded openmpi
    # Two at once are refused, or the second takes the place of the first.
    if module load kolo/$second; then is_loaded mpich; else is_loaded openmpi; fi
    module unload kolo || fail "unload: $(cat "$scratch/said")"
    [ "$(state)" = "$before" ] || fail "after all: $(diff <(echo "$before") <(state))"

    # Under programs that know nothing of kolo: with any MPI, and not beside another kolo.
    module load kolo/dropin || fail "load kolo/dropin: $(cat "$scratch/said")"
    [ "$LD_PRELOAD" = "$prefix/lib/libkolo_pmpi.so.0" ] && [ -f "$LD_PRELOAD" ] ||
        fail "kolo/dropin: LD_PRELOAD is ${LD_PRELOAD-not set}"
    if module load kolo/$second; then is_loaded mpich && [ -z "${LD_PRELOAD:-}" ] ||
        fail "kolo/dropin stays beside another kolo"; fi
    module unload kolo || fail "unload: $(cat "$scratch/said")"
    [ "$(state)" = "$before" ] || fail "after kolo/dropin: $(diff <(echo "$before") <(state))"

    module whatis kolo/$first || true
    grep -q "Open MPI" "$scratch/said" || fail "whatis says $(cat "$scratch/said")"
    # A site may have its own folder of links.
    module unuse "$prefix/share/modulefiles" || fail "unuse"
    module use "$scratch/linked" || fail "use of links"
    module load kolo/mine || fail "a link: $(cat "$scratch/said")"
    is_loaded mpich
    module unload kolo || fail "unload of a link: $(cat "$scratch/said")"
    # A prefix for each MPI, as docs/install.md has it.
    module use "$scratch/of-openmpi/share/modulefiles" "$scratch/of-mpich/share/modulefiles" ||
        fail "use of two"
    for variant in $first $second; do
        module load "kolo/$variant" || fail "load $variant of two: $(cat "$scratch/said")"
        local tree=$scratch/of-${variant#"$version"-}
        [[ $KOLO_MPI_LIBRARY == "$tree/"* ]] && [ "$(command -v kolo)" = "$tree/bin/kolo" ] ||
            fail "$variant of two leads to $KOLO_MPI_LIBRARY and $(command -v kolo)"
        module unload kolo || fail "unload $variant of two: $(cat "$scratch/said")"
    done
}

version=$(basename "$(echo "$prefix"/share/modulefiles/kolo/*-openmpi)")
version=${version%-openmpi}
ln -s "$prefix/share/modulefiles/kolo/$version-mpich" "$scratch/linked/kolo/mine"
ln -s "$prefix/share/modulefiles/kolo/$version-mpich.lua" "$scratch/linked/kolo/mine.lua"
for mpi in openmpi mpich; do
    mkdir -p "$scratch/of-$mpi/share/modulefiles/kolo"
    cp "$prefix/share/modulefiles/kolo/$version-$mpi"* "$scratch/of-$mpi/share/modulefiles/kolo"
    printf '#%%Module1.0\nset ModulesVersion "%s-%s"\n' "$version" "$mpi" \
        >"$scratch/of-$mpi/share/modulefiles/kolo/.version"
    ln -s "$prefix/bin" "$scratch/of-$mpi/bin"
done
for name in $(compgen -e | grep -E '^(KOLO|LMOD|MODULE|LOADEDMODULES|_LM|__)' || true); do
    unset "$name"
done
unset PKG_CONFIG_PATH CMAKE_PREFIX_PATH
# Lmod drops folders that stand twice in it.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for tool in lmod environment-modules; do
    (unset MANPATH && everything)
    (export MANPATH=/usr/share/man PKG_CONFIG_PATH=/mine CMAKE_PREFIX_PATH=/other && everything)
done
echo "ok    modules: Lmod and Environment Modules load, swap and unload every variant"
