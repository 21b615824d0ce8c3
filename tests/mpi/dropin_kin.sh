#!/bin/sh
# limit: 90 s
# mpi: mpich
# MPIs that have MPICH's binary interface, and for which nothing of kolo was built: MPICH 5 and
# Intel MPI. Programs in C, and one in Fortran by mpif.h, run on it and find what MPI alone finds.
. "$(dirname "$0")/common"
. "$top/tests/mpi/dropin/judge.sh"
faces=$top/tests/mpi/dropin/faces
mpich=$top/build/mpi-abi intel=$judges/impi
if [ ! -e "$mpich/bin/mpirun" ]; then
    "$top/tests/skip/skip.sh" kin 'make test-abi has not fetched MPICH 5 from PyPI'
    exit
fi
# Ranks that wait yield, and wait in shared memory alone.
export MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1 \
    MPIR_CVAR_POSIX_POLL_FREQUENCY=1
export I_MPI_ROOT="$intel" I_MPI_PIN=0 I_MPI_WAIT_MODE=1 I_MPI_FABRICS=shm
"$mpich/bin/mpicc" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin.c" -o drawn
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"

run() { # NAME, RANKS, WORDS BEFORE THE PROGRAM...
    name=$1 ranks=$2
    shift 2
    LD_LIBRARY_PATH=$folder/lib timeout 60 "$folder/bin/$launcher" -n "$ranks" "$@" ./drawn \
        "$SEED" 300 >raw 2>"$name.err" || fail "$folder, $name, SEED=$SEED: $(cat "$name.err")"
    grep -E '^[0-9]+: [0-9a-f]{16}$' raw | sort >"$name.out"
    [ "$(wc -l <"$name.out")" = "$ranks" ] || fail "$folder, $name, SEED=$SEED: $(cat raw)"
}
for ranks in 2 3; do
    for folder in "$mpich" "$intel"; do
        launcher=mpirun
        [ "$folder" = "$mpich" ] || launcher=mpiexec.hydra
        run plain $ranks
        # shellcheck disable=SC2086
        run kolo $ranks $on_kolo
        cmp -s plain.out kolo.out || fail "$folder, SEED=$SEED: $(diff plain.out kolo.out)"
        [ "$(grep -c ' 300 of 300 collectives ran on kolo' kolo.err)" = $ranks ] ||
            fail "$folder, SEED=$SEED: $(cat kolo.err)"
    done
done

# Debian's mpif.h is MPICH's, and so is Intel's.
. "$faces/build.sh"
mkdir "$work/face" && cd "$work/face"
build_face 1 "$intel/lib/libmpifort.so.12" "$intel/lib/libmpi.so.12" -Wl,-rpath,"$intel/lib"
for ranks in 2 3; do
    # shellcheck disable=SC2086
    timeout 60 "$intel/bin/mpiexec.hydra" -n $ranks $on_kolo ./main "$SEED" >out 2>err ||
        fail "mpif.h, $ranks ranks, SEED=$SEED: $(cat out err)"
    all_taken "mpif.h, $ranks ranks" $ranks
done
echo "$test_name ($MPI): ok"
