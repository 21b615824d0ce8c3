#!/bin/sh
# limit: 90 s
# Communicators on several nodes, made of the ranks of this one: by kolo's network, by kolo on each
# node and MPI between them, and by MPI alone, results are MPI's.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin.c" -o drawn
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin_spans.c" -o spans
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

run() { # NAME, RANKS, WORDS BEFORE THE PROGRAM...
    name=$1 ranks=$2
    shift 2
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n "$ranks" "$@" ./drawn "$SEED" 300 ${tell:-} >"$name.raw" 2>"$name.err" ||
        fail "$name, $ranks ranks, SEED=$SEED: $(cat "$name.err")"
    grep -E '^[0-9]+: [0-9a-f]{16}$' "$name.raw" | sort >"$name.out"
    [ "$(wc -l <"$name.out")" = "$ranks" ] || fail "$name, SEED=$SEED: $(cat "$name.raw")"
}

preloaded="LD_PRELOAD=$preload KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 KOLO_SOCKET_IFNAME==lo"
# The ranks that are on the nodes $3, by the way $2: as many calls as $4 run on kolo.
across() { # RANKS, WAY, PLACES, CALLS
    # shellcheck disable=SC2086
    run "$2" "$1" env PLACES="$3" $preloaded KOLO_PMPI_NODES="$2" ./placed
    cmp -s plain.out "$2.out" ||
        fail "$2, ranks on nodes $3, SEED=$SEED: $(diff plain.out "$2.out")"
    [ "$(grep -c " $4 of 300 collectives ran on kolo" "$2.err")" = "$1" ] ||
        fail "$2, ranks on nodes $3, SEED=$SEED, $4 calls expected: $(cat "$2.err")"
}

# Calls that are made of calls on each node and between the nodes: barrier, bcast, and where the
# ranks of each node follow each other reduce, allreduce and allgather; elsewhere the first two of
# these, unless their operation does not commute.
in_levels() { # PLACES
    broken=$(echo "$1" | tr ' ' '\n' | uniq | sort | uniq -d | wc -l)
    awk -v broken="$broken" '/^0: call / {
        what = $5; weaving = $9
        if (what <= 1 || (what == 4 && !broken)) n++
        if ((what == 10 || what == 11) && (!broken || !weaving)) n++
    } END { print n + 0 }' told
}

drawn_places() { # RANKS
    awk -v seed="$SEED" -v ranks="$1" 'BEGIN {
        srand(seed)
        places = "0"
        for (i = 1; i < ranks; i++) places = places " " int(3 * rand())
        # The last one is elsewhere than the first.
        print places " 3"
    }'
}

plan() { # RANKS
    tell=tell
    run plain "$1"
    tell=
    grep ': call ' plain.raw >told
}

# Fewer of these under MPICH, whose ranks take longer to give a core away.
plan 4
[ "$MPI" = mpich ] || across 4 off '0 0 1 1' 0
across 4 auto '0 0 1 1' 300
across 4 mpi '0 0 1 1' "$(in_levels '0 0 1 1')"
SEED=$((SEED + 1))
plan 3
across 3 mpi '0 1 0' "$(in_levels '0 1 0')"
[ "$MPI" = mpich ] || across 3 mpi '0 1 2' "$(in_levels '0 1 2')"
SEED=$((SEED + 1))
plan 5
places=$(drawn_places 4)
[ "$MPI" = mpich ] || across 5 kolo "$places" 300
across 5 mpi "$places" "$(in_levels "$places")"

# Of communicators that are alive together no more than 64 are attached. And what is made of MPI's
# is freed, as MPICH has numbers for 2,048 alone.
cat >counts.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
static int made, freed;
int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *new)
{
    int (*next)(MPI_Comm, int, int, MPI_Comm *);
    *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Comm_split");
    const int code = next(comm, color, key, new);
    made += *new != MPI_COMM_NULL;
    return code;
}
int PMPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *new)
{
    int (*next)(MPI_Comm, int, int, MPI_Info, MPI_Comm *);
    *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Comm_split_type");
    made++;
    return next(comm, type, key, info, new);
}
int PMPI_Comm_free(MPI_Comm *comm)
{
    int (*next)(MPI_Comm *);
    *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Comm_free");
    freed++;
    return next(comm);
}
__attribute__((destructor)) static void tell(void)
{
    if (made) fprintf(stderr, "kolo made %d communicators and freed %d\n", made, freed);
}
C
"mpicc.$MPI" -shared -fPIC -O1 counts.c -o counts.so -ldl
of() { # WAY, ALTOGETHER, ALIVE, WORDS OF THE REPORT...
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n 3 env PLACES='0 0 1' $preloaded KOLO_PMPI_NODES="$1" \
        LD_PRELOAD="$preload $PWD/counts.so" ./placed ./spans "$2" "$3" >spans.out 2>spans.err ||
        fail "$2 of $1: $(cat spans.out spans.err)"
    [ "$(grep -c '^rank [0-9]: done' spans.out)" = 3 ] || fail "$2 of $1: $(cat spans.out)"
    shift 3
    for words in "$@"; do
        [ "$(grep -c "$words" spans.err)" = 3 ] || fail "'$words' expected: $(cat spans.err)"
    done
}
of mpi 66 66 ' 256 of 264 collectives' '2 communicators for which kolo may take no more'
# Each of the 64 has a node on all ranks and leaders on two; and one more told who is on the node.
made=$(sed -n 's/^kolo made \([0-9]*\) communicators and freed \1$/\1/p' spans.err |
    awk '{ sum += $1 } END { print NR, sum }')
[ "$made" = "3 $((64 * (3 + 2) + 3))" ] || fail "what was made is not freed: $(cat spans.err)"
of kolo 6 2 ' 16 of 16 collectives ran on kolo' '6 communicators attached'

# A call of kolo that fails on one node ends the job: the other node waits for it in MPI.
cat >late.c <<'C'
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, mine = 1, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1) sleep(30);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
C
"mpicc.$MPI" -O1 -Wall -Wextra -Werror late.c -o late
status=0
# shellcheck disable=SC2086
timeout -s KILL 20 $MPIRUN -n 3 env PLACES='0 0 1' $preloaded KOLO_PMPI_NODES=mpi KOLO_TIMEOUT=1 \
    ./placed ./late >late.out 2>late.err || status=$?
[ $status != 0 ] && [ $status != 137 ] && grep -q 'kolo: the job ends, for other' late.err ||
    fail "a call that failed on one node: status $status: $(cat late.out late.err)"
echo "$test_name ($MPI): ok"
