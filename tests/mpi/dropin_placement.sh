#!/bin/sh
# limit: 60 s
# KOLO_REPRODUCIBLE=placement: sums of floats have the same bits wherever the ranks are, kolo runs
# them all, and a line tells where it cannot.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin_floats.c" -o floats -lm
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"

# Each rank is on the node that PLACES has for it.
cat >placed <<'S'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}
# shellcheck disable=SC2086
set -- $PLACES -- "$@"
shift "$rank"
export KOLO_HOSTID="node$1"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
S
chmod +x placed

run() { # NAME, PLACES, SETTINGS...
    name=$1 places=$2
    shift 2
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n 4 env PLACES="$places" LD_PRELOAD="$preload" KOLO_REPORT=1 \
        KOLO_SOCKET_IFNAME==lo "$@" ./placed ./floats "$SEED" 200 >"$name.raw" 2>"$name.err" ||
        fail "$name, SEED=$SEED: $(cat "$name.err")"
    grep -E '^[0-9]+: [0-9a-f]{16}$' "$name.raw" | sort >"$name.out"
    [ "$(wc -l <"$name.out")" = 4 ] || fail "$name, SEED=$SEED: $(cat "$name.raw")"
}
placement=KOLO_REPRODUCIBLE=placement
said='KOLO_REPRODUCIBLE=placement does not hold'

# All calls are kolo's from the first one on, whatever MPI does faster.
for places in '0 0 0 0' '0 0 1 1' '0 1 0 1' '0 1 1 2'; do
    run there "$places" $placement
    [ -e first.out ] || cp there.out first.out
    cmp -s first.out there.out ||
        fail "nodes $places, SEED=$SEED: $(diff first.out there.out)"
    [ "$(grep -c ' 200 of 200 collectives ran on kolo' there.err)" = 4 ] ||
        fail "nodes $places: $(cat there.err)"
    ! grep "$said" there.err || fail "nodes $places: a line too many"
done
run free '0 1 0 1' KOLO_PMPI_ATTACH=0
! cmp -s first.out free.out || fail "SEED=$SEED: other plans have the same bits"

# What stays with MPI all the same is told, once.
told() { # WORDS, SETTINGS...
    words=$1
    shift
    run told '0 0 1 1' $placement "$@"
    [ "$(grep -c "$said" told.err)" = 1 ] && grep -q "$said.*$words" told.err ||
        fail "$words: $(cat told.err)"
}
told 'KOLO_PMPI_COLLECTIVES' KOLO_PMPI_COLLECTIVES=^allreduce
told 'KOLO_PMPI_NODES' KOLO_PMPI_NODES=mpi
told 'KOLO_PMPI_MIN_RANKS' KOLO_PMPI_MIN_RANKS=5
echo "$test_name ($MPI): ok"
