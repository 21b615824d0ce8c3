#!/bin/sh
# limit: 90 s
# KOLO_PMPI=verify runs each call twice: it finds what is wrong, and nothing where all is right.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
# Whatever kolo can run it runs, also where MPI is known to be faster.
export KOLO_PMPI_TABLE=none
flags='-O1 -Wall -Wextra -Werror'
# shellcheck disable=SC2086
{
    "mpicc.$MPI" $flags "$top/tests/mpi/dropin.c" -o drawn
    "mpicc.$MPI" $flags "$top/tests/mpi/dropin_floats.c" -o floats -lm
    cc $flags -shared -fPIC "$top/tests/mpi/dropin_spoil.c" -o spoil.so -ldl
}
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"

run() { # NAME, RANKS, PROGRAM, WORDS BEFORE THE PROGRAM...
    name=$1 ranks=$2 program=$3
    shift 3
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n "$ranks" "$@" "./$program" "$SEED" "${CALLS:-200}" \
        >"$name.raw" 2>"$name.err" ||
        fail "$name, $ranks ranks, SEED=$SEED: $(cat "$name.err")"
    grep -E '^[0-9]+: [0-9a-f]{16}$' "$name.raw" | sort >"$name.out"
    [ "$(wc -l <"$name.out")" = "$ranks" ] || fail "$name, SEED=$SEED: $(cat "$name.raw")"
}
verify="env LD_PRELOAD=$preload KOLO_PMPI_ATTACH=0 KOLO_PMPI=verify"

# More ranks than cores take long under MPICH, so they have fewer calls.
# Nothing differs; sums of floats have other bits, and are not told of. The program gets MPI's.
for program in drawn floats; do
    for ranks in 2 3; do
        CALLS=$((320 - 100 * ranks))
        run plain $ranks $program
        # shellcheck disable=SC2086
        run verified $ranks $program $verify
        cmp -s plain.out verified.out ||
            fail "$program, SEED=$SEED: $(diff plain.out verified.out)"
        [ "$(grep -c kolo: verified.err)" = 1 ] &&
            grep -q '^kolo: verify: rank 0 compared [1-9].* coll.* none differed' verified.err ||
            fail "$program, $ranks ranks, SEED=$SEED: $(cat verified.err)"
    done
    SEED=$((SEED + 1))
done
CALLS=100
run kolo 3 floats env "LD_PRELOAD=$preload" KOLO_PMPI_ATTACH=0
run plain 3 floats
! cmp -s plain.out kolo.out || fail "sums of floats have MPI's bits: verify compared nothing"

# What is planted is found, each call of it, and named; the program gets MPI's results.
CALLS=80
spoiled() { # PROGRAM, KOLO'S FUNCTION, MPI'S NAME, WORDS...
    program=$1 function=$2 called=$3 rank=$((SEED % 3))
    shift 3
    calls=
    # Some draws have no such call.
    while [ -z "$calls" ]; do
        run plain 3 "$program"
        run spoiled 3 "$program" env "LD_PRELOAD=$preload $PWD/spoil.so" KOLO_PMPI_ATTACH=0 \
            KOLO_PMPI=verify "SPOIL=$function" SPOIL_RANK=$rank "$@"
        cmp -s plain.out spoiled.out || fail "$function, SEED=$SEED: $(diff plain.out spoiled.out)"
        calls=$(sed -n 's/^spoiled //p' spoiled.err)
        SEED=$((SEED + 1))
    done
    grep -q "^kolo: verify: rank $rank compared [0-9]* coll.* $calls differed" spoiled.err ||
        fail "$function, $calls spoiled on rank $rank, SEED=$SEED: $(cat spoiled.err)"
    lines=$(grep "^kolo: verify: MPI_" spoiled.err)
    [ -n "$lines" ] && [ "$(echo "$lines" | wc -l)" -le 10 ] || fail "$lines"
    world='\(MPI_COMM_WORLD\|MPI COMM.*\|a communicator without a name\)'
    value='[-0-9a-zA-Z_.(), +]*'
    values="is $value by kolo and $value by MPI"
    where="on $world, rank [0-2]: element [0-9]* of [0-9]*"
    ! echo "$lines" | grep -v "^kolo: verify: MPI_$called $where $values" ||
        fail "other words for $function: SEED=$SEED"
}
spoiled drawn koloAllReduce Allreduce
spoiled drawn koloBcast Bcast
spoiled drawn koloAllGather Allgather
spoiled drawn koloAllToAllV Alltoallv
# A sum that is wrong by a tenth in the first element.
spoiled floats koloAllReduce Allreduce SPOIL_BY=0.1
echo "$test_name ($MPI): ok"
