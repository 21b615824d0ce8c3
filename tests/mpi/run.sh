#!/usr/bin/env bash
# Runs the tests that need mpirun, against an installed kolo: every other script of this folder,
# once for each MPI.
#
#   tests/mpi/run.sh PREFIX openmpi mpich        all
#   ONLY=perf tests/mpi/run.sh PREFIX openmpi    those whose name contains a word
#   VERBOSE=1 ...                                show what they print even when they pass
#   AT_A_TIME=1 ...                              one after the other, not two: most of them wait
#   KOLO_TEST_FULL=1 ...                         the whole of large grids, not a part that is drawn
#
# A test is an executable script NAME.sh. It starts in an empty folder and passes when its exit
# status is 0. A line `# limit: 120 s` changes its time limit of 60 s, which counts double where
# two run at a time; those with the longest limits begin first, so that none of them is left over
# at the end. A line `# mpi: openmpi` confines it. Tests whose names begin with fortran_ run once
# for each Fortran compiler. They find in their environment:
#   MPI     openmpi or mpich                PREFIX   where kolo is installed
#   MPIRUN  starts ranks: $MPIRUN -n 4 ...  KOLO     the command kolo
#   YIELDS  what lets MPICH's ranks yield while they wait, behind a colon: where a test sets
#           LD_PRELOAD it belongs to that, elsewhere MPIRUN does so; empty for Open MPI
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
export FULL=${KOLO_TEST_FULL:-}
for name in $(compgen -e | grep -E '^(KOLO|NCCL)_' || true); do unset "$name"; done
# What is asked of the drop-in is what kolo runs, also where an MPI is faster.
export KOLO_PMPI_TABLE=none

# Containers and chroots run tests as root, and two cores run eight ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1

FLANG=
for one in flang-new-19 flang-19 flang-new-18 flang-new flang; do
    FLANG=${FLANG:-$(command -v $one || true)}
done
export FLANG FC
if [ -z "$FLANG" ]; then
    "$SOURCE/tests/skip/skip.sh" fortran-flang "there is no flang" || exit 1
fi

at_a_time=${AT_A_TIME:-2}
scratch=$(mktemp -d)
# After an interruption: whoever still runs is ended with what it has started.
finish() {
    for job in $(jobs -p); do pkill -TERM -P "$job" || true; done
    wait
    rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM
# A flat home for mpirun: shorter socket paths, and no settings of the user.
export HOME=$scratch/home XDG_CONFIG_HOME=$scratch/home/.config
mkdir -p "$HOME"
passed=0
failed=0
started=0
running=0

# The limit of a test in seconds, where it runs alone.
limit_of() { # SCRIPT
    local limit
    limit=$(sed -n 's/^# limit: \([0-9]*\) s$/\1/p' "$1")
    echo "${limit:-60}"
}

# The chosen tests.
scripts() {
    for script in "$SOURCE"/tests/mpi/*.sh; do
        [ "$script" != "$SOURCE/tests/mpi/run.sh" ] || continue
        [[ $(basename "$script") == *"${ONLY:-}"* ]] || continue
        printf '%s\t%s\n' "$(limit_of "$script")" "$script"
    done | sort -s -k 1,1nr | cut -f 2-
}

# One test, in a folder of its own. All that is to be said of it goes to its file `said`, which is
# there when it has ended; the last letter of its name is that of the verdict.
run_one() { # NUMBER, SCRIPT, LABEL
    local own=$scratch/$1 name=$3 limit start busy status=0 verdict=p
    limit=$(($(limit_of "$2") * at_a_time))
    start=$SECONDS
    mkdir -p "$own/work" "$own/tmp"
    (cd "$own/work" && TMPDIR=$own/tmp exec timeout --kill-after=5 "$limit" "$2") \
        </dev/null >"$own/log" 2>&1 || status=$?
    # Seconds of the processor: what it costs beside others, for this shell has no other child.
    times >"$own/times"
    busy=$(awk -F '[ms ]+' 'NR == 2 { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' "$own/times")
    {
        case $status in
            0) echo "ok    $MPI $name ($((SECONDS - start)) s, busy $busy s)" ;;
            124 | 137) echo "FAIL  $MPI $name: not finished after $limit s" ;;
            *) echo "FAIL  $MPI $name: exit status $status" ;;
        esac
        if [ $status != 0 ]; then
            verdict=f
            sed -n '/^SEED=[0-9]*$/ { s/^/      /p; q }' "$own/log"
            tail -n 60 "$own/log" | sed 's/^/      /'
        elif [ -n "${VERBOSE:-}" ]; then
            sed 's/^/      /' "$own/log"
        fi
    } >"$own/unsaid"
    mv "$own/unsaid" "$scratch/said.$1.$verdict"
    rm -rf "$own"
}

# Waits for one of those that run, and says how it went.
hear() {
    wait -n || true
    running=$((running - 1))
    for said in "$scratch"/said.*; do
        [ -e "$said" ] || continue
        cat "$said"
        case $said in *.p) passed=$((passed + 1)) ;; *) failed=$((failed + 1)) ;; esac
        rm "$said"
    done
}

start() { # SCRIPT, LABEL
    local confined
    confined=$(sed -n 's/^# mpi: \([a-z]*\)$/\1/p' "$1")
    if [ -n "$confined" ] && [ "$confined" != "$MPI" ]; then return; fi
    [ $running -lt "$at_a_time" ] || hear
    started=$((started + 1))
    running=$((running + 1))
    run_one $started "$1" "$2" &
}

mapfile -t chosen <<<"$(scripts)"
[ -n "${chosen[0]}" ] || { echo "run.sh: no test has ${ONLY:-} in its name" >&2; exit 2; }
for MPI in "$@"; do
    MPICC=mpicc.$MPI
    MPIFC=mpifort.$MPI
    YIELDS=
    case $MPI in
        openmpi) MPIRUN="mpirun.openmpi --oversubscribe" ;;
        mpich)
            YIELDS=:$scratch/yields.so
            cc -shared -fPIC -O1 -Wall -Wextra -Werror "$SOURCE/tests/mpi/mpich/yields.c" \
                -o "${YIELDS#:}" -ldl || exit 2
            MPIRUN="mpirun.mpich -genv LD_PRELOAD ${YIELDS#:}"
            ;;
        *) echo "run.sh: '$MPI' is neither openmpi nor mpich" >&2; exit 2 ;;
    esac
    export MPI MPICC MPIFC MPIRUN YIELDS
    for script in "${chosen[@]}"; do
        name=$(basename "$script" .sh)
        if [[ $name == fortran_* ]]; then
            FC=gfortran start "$script" "$name gfortran"
            if [ -n "$FLANG" ]; then FC=$FLANG start "$script" "$name flang"; fi
        else
            FC=gfortran start "$script" "$name"
        fi
    done
done

while [ $running -gt 0 ]; do hear; done

echo "$passed passed, $failed failed"
# One that has said nothing has not passed.
[ "$failed" = 0 ] && [ "$passed" -gt 0 ] && [ "$passed" = "$started" ]
