#!/bin/sh
# limit: 90 s
# Programs that know nothing of kolo run on it, and what they compute is what MPI computes.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0
[ -e "$preload" ] || fail "there is no $preload"
needed=$(readelf -d "$preload" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
! echo "$needed" | grep -v '^lib\(c\|dl\|pthread\)\.so' | grep -v '^ld-linux' ||
    fail "libkolo_pmpi.so needs more than the C library"

"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin.c" -o drawn
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"

# The lines of the ranks, in their order, go to NAME.out.
run() { # NAME, RANKS, WORDS BEFORE THE PROGRAM...
    name=$1 ranks=$2
    shift 2
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n "$ranks" "$@" ./drawn "$SEED" 300 >"$name.raw" 2>"$name.err" ||
        fail "$name, $ranks ranks, SEED=$SEED: $(cat "$name.err")"
    # MPICH's UCX tells of messages that nobody has received, which a rank without the library has.
    grep -E '^[0-9]+: [0-9a-f]{16}$' "$name.raw" | sort >"$name.out"
    [ "$(wc -l <"$name.out")" = "$ranks" ] || fail "$name, SEED=$SEED: $(cat "$name.raw")"
}

# All calls that the library may take are taken: those that MPI ran were early.
all_taken() { # NAME, RANKS, EARLY CALLS OF EACH COMMUNICATOR
    lines=$(grep -c 'collectives ran on kolo' "$1.err" || true)
    [ "$lines" = "$2" ] || fail "$1: $lines lines of $2 ranks: $(cat "$1.err")"
    sed -n 's/^kolo: rank [0-9]*: \([0-9]*\) of \([0-9]*\) collectives.*/\1 \2/p' "$1.err" |
        while read -r taken calls; do
            [ "$calls" = 300 ] || fail "$1: $calls calls were seen: $(cat "$1.err")"
            [ $((calls - taken)) = $((3 * $3)) ] || fail "$1: $taken taken: $(cat "$1.err")"
        done
}

for ranks in 2 3 4; do
    run plain $ranks
    for attach in 0 7; do
        run kolo $ranks env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=$attach KOLO_REPORT=1
        cmp -s plain.out kolo.out ||
            fail "$ranks ranks, after $attach: SEED=$SEED: $(diff plain.out kolo.out)"
        all_taken kolo $ranks $attach
    done
    SEED=$((SEED + 1))
done

# One rank without the library: the others say which, once, and the job runs on MPI alone.
run plain 3
for without in 0 2; do
    cat >some <<S
#!/bin/sh
[ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-}}" = $without ] || export LD_PRELOAD=$preload
exec "\$@"
S
    chmod +x some
    run some 3 env KOLO_PMPI_ATTACH=0 KOLO_PMPI_TIMEOUT=1 ./some
    cmp -s plain.out some.out || fail "without on rank $without: $(diff plain.out some.out)"
    [ "$(grep -c "^kolo: .*rank $without does not answer" some.err)" = 1 ] &&
        [ "$(grep -c kolo: some.err)" = 1 ] || fail "said of $without: $(cat some.err)"
done

# Settings: MPI keeps all, and a wrong one is told once.
run off 2 env LD_PRELOAD="$preload" KOLO_PMPI=off KOLO_REPORT=1
run plain 2
cmp -s plain.out off.out || fail "off: $(diff plain.out off.out)"
! grep kolo: off.err || fail "KOLO_PMPI=off takes calls"
run wrong 2 env LD_PRELOAD="$preload" KOLO_PMPI_MIN_RANKS=many
cmp -s plain.out wrong.out || fail "a wrong setting: $(diff plain.out wrong.out)"
[ "$(grep -c 'kolo: .*KOLO_PMPI_MIN_RANKS' wrong.err)" = 1 ] || fail "said: $(cat wrong.err)"
run few 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_PMPI_MIN_RANKS=3 KOLO_REPORT=1
[ "$(grep -c ' 0 of 300 collectives ran on kolo' few.err)" = 2 ] || fail "few: $(cat few.err)"

# Between two groups arguments mean other things: MPI has these calls, unread.
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin_groups.c" -o groups
for ranks in 2 5; do
    timeout 60 $MPIRUN -n $ranks env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 ./groups ||
        fail "collectives between two groups of $ranks ranks"
done

# What is no MPI program meets nothing of it.
said=$(LD_PRELOAD="$preload" bash -c true 2>&1) || fail "bash does not run under it"
[ -z "$said" ] || fail "under bash it says: $said"
echo "$test_name ($MPI): ok"
