#!/usr/bin/env bash
# Runs the tests that need mpirun, against an installed kolo: every other script of this folder,
# once for each MPI.
#
#   tests/mpi/run.sh PREFIX openmpi mpich        all
#   ONLY=perf tests/mpi/run.sh PREFIX openmpi    those whose name contains a word
#   VERBOSE=1 ...                                show what they print even when they pass
#
# A test is an executable script NAME.sh. It starts in an empty folder and passes when its exit
# status is 0. A line `# limit: 120 s` changes its time limit of 60 s; a line `# mpi: openmpi`
# confines it. Tests whose names begin with fortran_ run once for each Fortran compiler. They find
# in their environment:
#   MPI     openmpi or mpich                PREFIX   where kolo is installed
#   MPIRUN  starts ranks: $MPIRUN -n 4 ...  KOLO     the command kolo
#   MPICC, MPIFC   the MPI's compilers      SOURCE   the repository, not to be written to
#   FC      a Fortran compiler              FLANG    flang, by the name it has here
# and pkg-config finds kolo. No KOLO_ or NCCL_ variable and no settings of the user are seen.
set -uo pipefail

[ $# -ge 2 ] || { echo "usage: run.sh PREFIX MPI..." >&2; exit 2; }
PREFIX=$(cd "$1" && pwd) || exit 2
shift
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
KOLO=$PREFIX/bin/kolo
export PREFIX SOURCE KOLO PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
for name in $(compgen -e | grep -E '^(KOLO|NCCL)_' || true); do unset "$name"; done

# Containers and chroots run tests as root, and two cores run eight ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1

FLANG=
for one in flang-new-19 flang-19 flang-new-18 flang-new flang; do
    FLANG=${FLANG:-$(command -v $one || true)}
done
export FLANG FC

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A flat home for mpirun: shorter socket paths, and no settings of the user.
export HOME=$scratch/home XDG_CONFIG_HOME=$scratch/home/.config TMPDIR=$scratch
mkdir -p "$HOME"
passed=0
failed=0

run_one() { # SCRIPT, LABEL
    local name=$2 limit confined start status
    limit=$(sed -n 's/^# limit: \([0-9]*\) s$/\1/p' "$1")
    confined=$(sed -n 's/^# mpi: \([a-z]*\)$/\1/p' "$1")
    if [ -n "$confined" ] && [ "$confined" != "$MPI" ]; then return; fi
    rm -rf "$scratch/work"
    mkdir "$scratch/work"
    start=$SECONDS
    status=0
    (cd "$scratch/work" && exec timeout --kill-after=5 "${limit:-60}" "$1") \
        </dev/null >"$scratch/log" 2>&1 || status=$?
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        echo "ok    $MPI $name ($((SECONDS - start)) s)"
        [ -z "${VERBOSE:-}" ] || sed 's/^/      /' "$scratch/log"
        return
    fi
    failed=$((failed + 1))
    case $status in
        124 | 137) echo "FAIL  $MPI $name: not finished after ${limit:-60} s" ;;
        *) echo "FAIL  $MPI $name: exit status $status" ;;
    esac
    tail -n 60 "$scratch/log" | sed 's/^/      /'
}

for MPI in "$@"; do
    MPICC=mpicc.$MPI
    MPIFC=mpifort.$MPI
    case $MPI in
        openmpi) MPIRUN="mpirun.openmpi --oversubscribe" ;;
        mpich) MPIRUN=mpirun.mpich ;;
        *) echo "run.sh: '$MPI' is neither openmpi nor mpich" >&2; exit 2 ;;
    esac
    export MPI MPICC MPIFC MPIRUN
    for script in "$SOURCE"/tests/mpi/*.sh; do
        [ "$script" != "$SOURCE/tests/mpi/run.sh" ] || continue
        [[ $(basename "$script") == *"${ONLY:-}"* ]] || continue
        name=$(basename "$script" .sh)
        if [[ $name == fortran_* ]]; then
            FC=gfortran run_one "$script" "$name gfortran"
            if [ -n "$FLANG" ]; then FC=$FLANG run_one "$script" "$name flang"; fi
        else
            FC=gfortran run_one "$script" "$name"
        fi
    done
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
