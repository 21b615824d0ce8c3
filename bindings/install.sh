#!/bin/sh
# Installs what `make build` made under a prefix, or removes it again.
#
#   bindings/install.sh PREFIX            DESTDIR is put before every path that is written
#   bindings/install.sh --remove PREFIX   settings that somebody has changed stay
#   bindings/install.sh --check PREFIX    only says whether it can be installed there
#
# Variables:
#   FAMILIES            for which MPIs: openmpi, mpich, abi; without it, for those that are built
#   BUILT               which build is taken (default target/release)
#   KERNELS             the kernels for GPUs, installed where this file is there (default
#                       build/kernels/kolo_kernels.fatbin, of `make kernels`)
#   MODULES_openmpi     what `module load kolo` needs loaded before: names of modules of which one
#                       will do, or nothing; likewise MODULES_mpich, MODULES_abi. Without it, the
#                       usual names, but nothing where the MPI's compiler lies in a system folder
#   MPICC_openmpi       that compiler, likewise for the others
#
# No installed file names the prefix: the tree works where it is moved or copied to. The list of
# installed files is kept in PREFIX/share/kolo/manifest, and removing follows that list and nothing
# else; what is installed into the same prefix later is added to it. A newer kolo takes the place of
# an older one, whose files go. What somebody has changed since (PREFIX/share/kolo/sums tells) is
# his, and stays. Whatever the umask is, everybody may read all of it.
set -eu
umask 022
cd "$(dirname "$0")/.."

fail() { echo "install: $*" >&2; exit 1; }

remove= check=
case ${1:-} in
    --remove) remove=yes; shift ;;
    --check) check=yes; shift ;;
esac
[ $# = 1 ] || fail "usage: install.sh [--remove | --check] PREFIX"
# Lists of paths are divided at colons and blanks, and options for linkers at commas.
case $1 in
    *[[:space:]:,\;\'\"\\\$\`\#\&\|\<\>\(\)\{\}\*\?\!]* | *\[* | *\]*)
        fail "PREFIX is '$1': a blank, a colon or another sign that shells and lists of paths use" \
            "cannot be in it"
        ;;
    / | //) fail "PREFIX cannot be /: for packages it is /usr, with DESTDIR before it" ;;
    /*) prefix=${1%/} ;;
    *) fail "PREFIX must be an absolute path, and '$1' is not (this may be meant: $PWD/$1)" ;;
esac

built=${BUILT:-target/release}
families=${FAMILIES:-}
if [ -z "$remove$check" ] && [ -z "$families" ]; then
    for one in openmpi mpich abi; do
        [ ! -f "$built/mpi/$one/libkolo_mpi.so" ] || families="$families${families:+ }$one"
    done
fi
[ -n "$families$remove$check" ] || fail "nothing is built in $built: run 'make build' first"
# Who names another compiler than `make build` was given has another MPI in mind.
if [ -z "$remove$check" ]; then
    for one in $families; do
        eval "named=\${MPICC_$one:-}"
        was=$(head -n 1 "$built/mpi/$one/compiler" 2>/dev/null || true)
        [ -z "$named" ] || [ -z "$was" ] || [ "$named" = "$was" ] ||
            fail "libkolo_mpi for $one was built with MPICC_$one=$was, not with $named:" \
                "build it anew"
    done
fi
top=${DESTDIR:-}$prefix
case $top in /*) ;; *) top=$PWD/$top ;; esac
# The nearest folder that is there must take what is not.
if [ -z "$remove" ]; then
    folder=$top
    while [ ! -e "$folder" ] && [ ! -L "$folder" ]; do folder=$(dirname "$folder"); done
    [ -d "$folder" ] || fail "PREFIX is $prefix, and $folder is no folder"
    [ -w "$folder" ] && [ -x "$folder" ] || fail "$(id -un) cannot write into $folder," \
        "so not into PREFIX=$prefix: name a folder of yours; or 'make build' with the same words," \
        "and then as root: FAMILIES=\"$families\" bindings/install.sh $prefix"
    [ -z "$check" ] || exit 0
fi
manifest=$top/share/kolo/manifest
sums=$top/share/kolo/sums
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The site's settings, and beside the rest what they were when they were installed. What packages
# put into /usr has its settings in /etc.
case $prefix in
    /usr) settings=${DESTDIR:-}/etc/kolo/kolo.toml ;;
    *) settings=$top/etc/kolo.toml ;;
esac
pristine=$top/share/kolo/kolo.toml

# Whether the site's settings are still those that were installed.
untouched() { [ -f "$settings" ] && [ -f "$pristine" ] && cmp -s "$settings" "$pristine"; }

# within TOP NAME COMMAND...: a command in the folder of a file below a top, which sees the file as
# ./BASE. Root may run this on a tree that others can write: no name leads out of it, and neither
# does a folder that is a link by now. Where one has come to is looked at, which stays so.
within() (
    cd -P -- "$1" 2>/dev/null || exit 0
    inside=$(pwd -P)
    case $2 in */*) cd -P -- "./${2%/*}" 2>/dev/null || exit 0 ;; esac
    case $(pwd -P)/ in "${inside%/}"/*) ;; *) exit 0 ;; esac
    base=./${2##*/}
    shift 2
    "$@" "$base"
)

# The names of a list, below the prefix and nowhere else.
listed() { grep -v -e '^/' -e '\(^\|/\)\.\.\(/\|$\)' "$1" || true; }

# The files that are read, by name: a line for each that is there, of what it holds or leads to.
states() (
    cd -P -- "$top"
    while read -r name; do
        if [ -L "$name" ]; then
            echo "$name $(readlink "$name")"
        elif [ -f "$name" ]; then
            echo "$name" >&3
        fi
    done 3>"$scratch/files"
    tr '\n' '\0' <"$scratch/files" | xargs -0 -r cksum -- |
        sed 's/^\([0-9]*\) \([0-9]*\) \(.*\)/\3 \1 \2/'
)

# Takes away the files that are read, by name; those that are not as they were installed stay, and
# their names are in $scratch/changed.
drop() {
    sort -u >"$scratch/drop"
    states <"$scratch/drop" | sort >"$scratch/now"
    : >"$scratch/changed"
    if [ -f "$sums" ]; then
        # A file of which no sum was kept is as it was.
        awk 'NR == FNR { was[$1] = $0; next } $1 in was && was[$1] != $0 { print $1 }' \
            "$sums" "$scratch/now" | sort >"$scratch/changed"
    fi
    comm -23 "$scratch/drop" "$scratch/changed" | while read -r name; do
        within "$top" "$name" rm -f
    done
    while read -r name; do
        echo "install: $top/$name was changed since it was installed, and stays"
    done <"$scratch/changed"
}

# Takes away the folders of the files that are read, where they are empty now. Others stay. Inner
# ones come first.
drop_folders() {
    while read -r name; do
        while case $name in */*) ;; *) false ;; esac; do
            name=${name%/*}
            echo "$name"
        done
    done | sort -ru | while read -r folder; do within "$top" "$folder" drop_empty || true; done
}

# Settings that nobody has changed, and their folder.
drop_untouched() { if cmp -s "$1" "$pristine"; then rm -f "$1" && rmdir "$PWD" 2>/dev/null; fi; }

# A folder that is empty now. (rmdir takes no link.)
drop_empty() { rmdir "$1" 2>/dev/null; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ -n "$remove" ]; then
    [ -f "$manifest" ] || fail "there is no $manifest: nothing of kolo is installed there"
    names=$(listed "$manifest")
    if untouched; then
        case $prefix in
            /usr) within "${DESTDIR:-/}" etc/kolo/kolo.toml drop_untouched || true ;;
            *) within "$top" etc/kolo.toml drop_untouched || true ;;
        esac
    fi
    # The lists themselves come last: what they say is needed until then.
    echo "$names" | grep -v '^share/kolo/\(manifest\|sums\)$' | drop
    for name in share/kolo/manifest share/kolo/sums; do within "$top" "$name" rm -f; done
    echo "$names" | drop_folders
    rmdir "$top" 2>/dev/null || true
    echo "kolo was removed from $top"
    [ ! -f "$settings" ] || echo "your settings stay: $settings"
    exit 0
fi

# put MODE SOURCE NAME: one file, by its name below the prefix.
put() {
    [ -f "$2" ] || fail "$2 is not there: run 'make build' first"
    install -D -m "$1" "$2" "$top/$3"
    echo "$3" >>"$list"
}

# code SOURCE NAME: a library or a program. What only a debugger reads goes into a file in the
# folder .debug beside it, where debuggers and kolo's own backtraces look for it; that of packages
# for /usr goes where theirs do.
code() {
    if [ ! -f "$1" ] || ! command -v objcopy >/dev/null; then put 755 "$1" "$2"; return; fi
    whole=$scratch/$(basename "$2")
    debug=$whole.debug
    objcopy --only-keep-debug "$1" "$debug"
    objcopy --strip-unneeded --add-gnu-debuglink="$debug" "$1" "$whole"
    put 755 "$whole" "$2"
    case $prefix in
        /usr) put 644 "$debug" "lib/debug/usr/$(dirname "$2")/$(basename "$debug")" ;;
        *) put 644 "$debug" "$(dirname "$2")/.debug/$(basename "$debug")" ;;
    esac
    rm "$whole" "$debug"
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
    link kolo-perf.1 "share/man/man1/$1.1"
}

# pkg NAME DESCRIPTION REQUIRES CFLAGS LIBS [FOLDER]: a pkg-config file, relative to where it lies.
# Programs find the libraries in an unusual prefix without LD_LIBRARY_PATH, because the folder is
# written into them.
pkg() {
    folder=${6:-lib/pkgconfig}
    up=$(echo "$folder" | sed 's,[^/][^/]*,..,g')
    {
        printf 'prefix=${pcfiledir}/%s\n' "$up"
        printf 'libdir=${prefix}/lib\nincludedir=${prefix}/include\n\n'
        printf 'Name: %s\nDescription: %s\nVersion: %s\n' "$1" "$2" "$version"
        [ -z "$3" ] || printf 'Requires: %s\n' "$3"
        [ -z "$4" ] || printf 'Cflags: %s\n' "$4"
        [ -z "$5" ] || printf 'Libs: %s\n' "$5"
    } >"$scratch/$1.pc"
    put 644 "$scratch/$1.pc" "$folder/$1.pc"
}

# fill SOURCE NAME: a file with @VERSION@ and what else `sed` is to do, put under NAME.
fill() {
    source=$1 name=$2
    shift 2
    sed -e "s/@VERSION@/$version/g" "$@" "$source" >"$scratch/filled"
    put 644 "$scratch/filled" "$name"
}

list=$scratch/manifest
: >"$list"
lib='-L${libdir} -Wl,-rpath,${libdir}'

code "$built/kolo" bin/kolo
# nccl-tests' programs: all_reduce_perf -b 8 -e 128M -f 2 measures host memory.
for name in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather \
    scatter sendrecv hypercube; do
    program "${name}_perf"
done
code "$built/libkolo.so" "lib/libkolo.so.$version"
link "libkolo.so.$version" lib/libkolo.so.0
link libkolo.so.0 lib/libkolo.so
put 644 bindings/c/include/kolo.h include/kolo.h
put 644 bindings/mpi/kolo_mpi.h include/kolo_mpi.h
pkg kolo "Collective communication for batch HPC jobs" "" '-I${includedir}' "$lib -lkolo"

# RDMA is loaded on demand, so nothing names this library when programs are linked.
code "$built/libkolo_verbs.so" "lib/kolo/libkolo_verbs.so.$version"
link "libkolo_verbs.so.$version" lib/kolo/libkolo_verbs.so.0
link libkolo_verbs.so.0 lib/kolo/libkolo_verbs.so

# So is libfabric; without its headers the plugin is not built, or is empty.
if grep -qs ncclNetPlugin_v11 "$built/libkolo_ofi.so"; then
    code "$built/libkolo_ofi.so" "lib/kolo/libkolo_ofi.so.$version"
    link "libkolo_ofi.so.$version" lib/kolo/libkolo_ofi.so.0
    link libkolo_ofi.so.0 lib/kolo/libkolo_ofi.so
fi

# Kernels for GPUs are data that the driver loads.
kernels=${KERNELS:-build/kernels/kolo_kernels.fatbin}
[ ! -f "$kernels" ] || put 644 "$kernels" lib/kolo/kolo_kernels.fatbin

# A driver whose devices are software, in a folder where only who asks for it looks.
code "$built/libkolo_softgpu.so" lib/kolo/softgpu/libcuda.so.1
"$built/kolo" softgpu --write-kernels "$scratch/kernels.softgpu"
put 644 "$scratch/kernels.softgpu" lib/kolo/softgpu/kolo_kernels.softgpu

# One file for every MPI, which programs preload, and beside it a part for each.
code "$built/libkolo_pmpi.so" "lib/libkolo_pmpi.so.$version"
link "libkolo_pmpi.so.$version" lib/libkolo_pmpi.so.0
link libkolo_pmpi.so.0 lib/libkolo_pmpi.so
# A program that is linked with it needs no preload. It must stand before the MPI, which programs
# would lose where --as-needed is usual: it has the names of all that a small program calls.
pkg kolo-pmpi "Collectives of an MPI program on kolo, named before the MPI" "" "" \
    '-L${libdir} -Wl,-rpath,${libdir} -Wl,--no-as-needed -lkolo_pmpi'

for family in $families; do
    code "$built/mpi/$family/libkolo_mpi.so" "lib/kolo/$family/libkolo_mpi.so.$version"
    code "$built/mpi/$family/libkolo_mpi_calls.so" "lib/kolo/$family/libkolo_mpi_calls.so"
    code "$built/mpi/$family/libkolo_pmpi_calls.so" "lib/kolo/$family/libkolo_pmpi_calls.so"
    link "libkolo_mpi.so.$version" "lib/kolo/$family/libkolo_mpi.so.0"
    link libkolo_mpi.so.0 "lib/kolo/$family/libkolo_mpi.so"
    # Fortran programs name nothing of this library, and would lose it where --as-needed is usual.
    dir="\${libdir}/kolo/$family"
    pkg "kolo-mpi-$family" "kolo started over an MPI communicator ($family)" kolo "" \
        "-L$dir -Wl,-rpath,$dir -Wl,--push-state,--no-as-needed -lkolo_mpi -Wl,--pop-state"
    # The plain name, for whoever has chosen this MPI by `module load`.
    pkg kolo-mpi "kolo started over an MPI communicator" "kolo-mpi-$family" "" "" \
        "lib/kolo/$family/pkgconfig"
done

# The plain name is the first family: what most sites have is one MPI.
pkg kolo-mpi "kolo started over an MPI communicator" "kolo-mpi-${families%% *}" "" ""

fortran() { # FOLDER: all that is built there, one compiler each
    for mod in "$1"/*/kolo.mod; do
        [ -f "$mod" ] || continue
        compiler=$(basename "$(dirname "$mod")")
        library=libkolo_fortran_$compiler.so
        code "$1/$library.0" "lib/$library.$version"
        link "$library.$version" "lib/$library.0"
        link "$library.0" "lib/$library"
        put 644 "$mod" "include/kolo/$compiler/kolo.mod"
        for name in "kolo-fortran-$compiler" ${plain:+kolo-fortran}; do
            pkg "$name" "kolo for Fortran, compiled with $compiler" kolo \
                "-I\${includedir}/kolo/$compiler" "$lib -lkolo_fortran_$compiler"
        done
        plain=
    done
}

# The plain name is that of the first compiler.
plain=yes
for family in $families; do
    fortran "build/fortran/$family"
    # Module mpi_f08 differs between MPIs, and so does what is compiled with it.
    for mod in "build/fortran/$family"/*/kolo_mpi_f08.mod; do
        [ -f "$mod" ] || continue
        compiler=$(basename "$(dirname "$mod")")
        put 644 "$mod" "include/kolo/$compiler/$family/kolo_mpi_f08.mod"
        pkg "kolo-fortran-f08-$family" "kolo for programs that use mpi_f08 ($family)" \
            "kolo-fortran-$compiler kolo-mpi-$family" "-I\${includedir}/kolo/$compiler/$family" ""
    done
done
fortran build/fortran/others
for file in bindings/fortran/*.f90 bindings/fortran/*.c bindings/fortran/*.h \
    bindings/fortran/*.inc bindings/fortran/*.awk; do
    put 644 "$file" "share/kolo/fortran/$(basename "$file")"
done
put 755 bindings/fortran/build.sh share/kolo/fortran/build.sh

fill config/cmake/kolo-config.cmake lib/cmake/kolo/kolo-config.cmake
fill config/cmake/kolo-config-version.cmake lib/cmake/kolo/kolo-config-version.cmake

# modules_for FAMILY: the modules of which one must be loaded before kolo's.
modules_for() {
    eval "named=\${MODULES_$1-unset} compiler=\${MPICC_$1:-mpicc.$1}"
    if [ "$named" != unset ]; then echo "$named"; return; fi
    case $(command -v "${compiler%% *}" 2>/dev/null || true) in
        /usr/bin/* | /bin/* | /usr/local/bin/*) return ;;
    esac
    case $1 in
        openmpi) echo "openmpi OpenMPI" ;;
        mpich) echo "mpich MPICH mvapich2 MVAPICH2 impi intel-mpi intelmpi cray-mpich" ;;
        abi) echo "mpich MPICH openmpi OpenMPI" ;;
    esac
}

modulefiles() {
    for family in $families; do
        lua= tcl= needed=$(modules_for "$family")
        if [ -n "$needed" ]; then
            lua="prereq_any($(echo "$needed" | sed 's/ *\([^ ][^ ]*\) */"\1", /g; s/, $//'))"
            tcl="prereq $needed"
        fi
        case $family in
            openmpi) what="Open MPI" ;;
            mpich) what="MPICH (also Intel MPI, MVAPICH, Cray MPICH)" ;;
            *) what="an MPI with the standard binary interface of MPI 5 (C only)" ;;
        esac
        for kind in lua tcl; do
            name=share/modulefiles/kolo/$version-$family
            [ $kind = tcl ] || name=$name.lua
            eval "before=\$$kind"
            fill "config/modulefiles/kolo.$kind" "$name" -e "s|@FAMILY@|$family|g" \
                -e "s|@WHAT@|$what|g" -e "s|@PREREQ_LUA@|$before|; s|@PREREQ_TCL@|$before|"
        done
    done
    # Programs that know nothing of kolo need no variant.
    fill config/modulefiles/dropin.tcl share/modulefiles/kolo/dropin
    fill config/modulefiles/dropin.lua share/modulefiles/kolo/dropin.lua
    # What `module load kolo` takes, for both.
    printf '#%%Module1.0\nset ModulesVersion "%s-%s"\n' "$version" "${families%% *}" \
        >"$scratch/default"
    put 644 "$scratch/default" share/modulefiles/kolo/.version
}
# Nobody needs a module for what lies in /usr, and to unload it would take away /usr/bin.
case $prefix in /usr | /usr/local) ;; *) modulefiles ;; esac

# Manual pages and completions, which the command makes of its own tables.
if "$built/kolo" pages "$scratch/pages" bindings/c/include/kolo.h bindings/mpi/kolo_mpi.h; then
    for file in $(cd "$scratch/pages" && find . -type f | sed 's,^\./,,'); do
        put 644 "$scratch/pages/$file" "share/$file"
    done
else
    fail "$built/kolo cannot make the manual pages"
fi

# The layout of the sources, so that links between the pages work; docs/guide/build.sh has it too.
for file in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/*.* docs/guide/*.md \
    slurm/README.md \
    $(find examples -name '*.[ch]' -o -name '*.f90' -o -name '*.rs' -o -name '*.py' \
        -o -name '*.sh' -o -name '*.md' -o -name Makefile); do
    put 644 "$file" "share/doc/kolo/$file"
done
link ../../../../../../include/kolo.h share/doc/kolo/bindings/c/include/kolo.h
link ../doc/kolo/examples share/kolo/examples

# For Slurm: the plugin where it is built, and what is run or copied as it is.
for file in build/spank/*/kolo.so; do
    release=$(basename "$(dirname "$file")")
    [ ! -f "$file" ] || put 755 "$file" "lib/slurm/$release/kolo.so"
done
for file in $(find slurm -type f \( -name '*.sh' -o -name '*.sbatch' -o -name '*.conf' \)); do
    mode=644
    [ ! -x "$file" ] || mode=755
    put $mode "$file" "share/kolo/$file"
done

# A site's own settings are never overwritten, and not removed with the rest.
[ -f config/kolo.toml ] || fail "config/kolo.toml is not there"
if [ ! -e "$settings" ] || untouched; then install -D -m 644 config/kolo.toml "$settings"; fi
put 644 config/kolo.toml share/kolo/kolo.toml

# overtaken OLD NEW: files of the list OLD that this installation has not written again and that are
# of an older kolo. Of the same version the libraries for other MPIs and compilers stay; pages,
# sources and scripts are written by every installation.
overtaken() {
    older=$(sed -n 's,^lib/libkolo\.so\.\([0-9]*\.[0-9].*\),\1,p' "$1" | grep -Fvx "$version") ||
        older=
    comm -23 "$1" "$2" | if [ -n "$older" ]; then
        cat
    else
        grep -e '^share/doc/kolo/' -e '^share/man/' -e '^share/kolo/' -e '^lib/cmake/' || true
    fi
}

# Whoever installs must learn that settings that were kept end every job.
check_settings() {
    [ -f "$1" ] || return 0
    said=$("$top/bin/kolo" config check "$1" 2>&1 </dev/null) && return 0
    wrong=$1
    echo "install: these settings were kept, and with them every job of kolo $version ends:" >&2
    echo "$said" | sed 's/^kolo: //; s/^/install:     /' >&2
}

printf '%s\n' share/kolo/manifest share/kolo/sums >>"$list"
sort -u "$list" >"$scratch/new"
cp "$scratch/new" "$scratch/all"
: >"$scratch/sums"
if [ -f "$manifest" ]; then
    listed "$manifest" | sort -u >"$scratch/old"
    overtaken "$scratch/old" "$scratch/new" >"$scratch/gone"
    drop <"$scratch/gone"
    drop_folders <"$scratch/gone"
    gone=$(comm -23 "$scratch/drop" "$scratch/changed" | wc -l)
    [ "$gone" = 0 ] || echo "install: $gone files of an older kolo were removed"
    for family in $(sed -n 's,^lib/kolo/\([^/]*\)/libkolo_mpi\.so$,\1,p' "$scratch/gone"); do
        echo "install: the older kolo was for $family too: install this one for it again"
    done
    comm -23 "$scratch/old" "$scratch/gone" | sort -u - "$scratch/new" >"$scratch/all"
    # What this installation has not written is still known as it was when it was written.
    comm -23 "$scratch/all" "$scratch/new" >"$scratch/kept"
    [ ! -f "$sums" ] || awk 'FILENAME == ARGV[1] { kept[$1]; next } $1 in kept' \
        "$scratch/kept" "$sums" >"$scratch/sums"
fi
grep -v '^share/kolo/\(manifest\|sums\)$' "$scratch/new" | states >>"$scratch/sums"
# Not written into what stands there, which may be a link by now.
install -D -m 644 "$scratch/sums" "$sums"
install -D -m 644 "$scratch/all" "$manifest"

# Folders that were there before are whose they were, and may be closed.
closed=$(sed 's,/[^/]*$,,' "$scratch/new" | sort -u | (cd "$top" && while read -r folder; do
    while [ "$folder" != . ]; do
        echo "$folder"
        case $folder in */*) folder=${folder%/*} ;; *) folder=. ;; esac
    done
done | sort -u | tr '\n' '\0' | xargs -0 sh -c 'find . "$@" -prune -type d ! -perm -005' sh))
[ -z "$closed" ] || echo "install: not everybody may enter these folders:" $closed "(of $top)" >&2

wrong=
check_settings "$settings"
[ -n "${DESTDIR:-}" ] || [ "$settings" = /etc/kolo/kolo.toml ] || check_settings /etc/kolo/kolo.toml
echo "kolo $version was installed in $top. The next line to type:"
if [ -n "$wrong" ]; then
    echo "    $prefix/bin/kolo config check $wrong"
elif [ -n "${MODULESHOME:-}${LMOD_CMD:-}" ] && [ -d "$top/share/modulefiles" ]; then
    echo "    module use $prefix/share/modulefiles && module load kolo && kolo info"
elif [ "$prefix" = /usr ]; then
    echo "    kolo info"
else
    echo "    export PATH=$prefix/bin:\$PATH PKG_CONFIG_PATH=$prefix/lib/pkgconfig && kolo info"
fi
