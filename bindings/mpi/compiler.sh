#!/bin/sh
# Checks a compiler of an MPI, and notes which one it is, for the Makefile.
#
#   bindings/mpi/compiler.sh MPICC_mpich "mpicc -O2" [NOTE]
#   bindings/mpi/compiler.sh --if-there MPIFC_mpich mpifort.mpich [NOTE]
#
# The first line of the file NOTE is the words; behind it is where they lead now, as a module may
# give one name to another MPI. It is written only when something has changed, and so it is newer
# than what another compiler has built. --if-there: a name that nobody has chosen may lead nowhere.
set -eu
needed=yes
if [ "$1" = --if-there ]; then needed=no; shift; fi
name=$1 words=$2 note=${3:-}
family=${name#*_}
command=${words%% *}
refuse() { echo "make: $name=$words: $*" >&2; exit 1; }
case $family in
openmpi) what="Open MPI" ;;
mpich) what="MPICH, or of one like it (Intel MPI, MVAPICH, Cray MPICH)" ;;
*) what="an MPI with MPI 5's standard binary interface" ;;
esac

if [ "$family" = abi ]; then
    # Its compiler is a script of kolo, which runs this one.
    name=MPICC_ABI command=${MPICC_ABI%% *}
fi
found=$(command -v "$command" 2>/dev/null || true)
if [ -z "$found" ]; then
    [ $needed = no ] || refuse "there is no such command. Name the compiler of $what: its path," \
        "or the word for it where its module is loaded (mpicc, mpifort)"
    [ -n "$note" ] || echo "There is no $words: name it by $name= if Fortran programs use mpi_f08."
fi

# The header says whose it is; a Fortran compiler may read none.
case $name in
MPICC*)
    # The words are several.
    # shellcheck disable=SC2086
    macros=$(echo '#include <mpi.h>' | $words -E -dM -x c - 2>&1) ||
        refuse "it cannot compile '#include <mpi.h>': $(echo "$macros" | head -n 1)"
    is=mpich
    case $macros in *"define OPEN_MPI"*) is=openmpi ;; esac
    case $family:$is in
    openmpi:mpich) refuse "this is no compiler of Open MPI. For the other family: MPI=mpich" ;;
    mpich:openmpi) refuse "this is a compiler of Open MPI. For that one: MPI=openmpi" ;;
    esac ;;
esac
[ -n "$note" ] || exit 0

mkdir -p "$(dirname "$note")"
{
    echo "$words"
    [ -z "$found" ] || readlink -f "$found"
    # What it would run: the folders of its MPI. Not all compilers know the word.
    # shellcheck disable=SC2086
    $words -show 2>/dev/null || true
} >"$note.new"
if cmp -s "$note.new" "$note"; then rm "$note.new"; else mv "$note.new" "$note"; fi
