#!/bin/sh
# limit: 90 s
# `kolo tune --mpi` writes what MPI does faster, and the drop-in leaves that to MPI.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
case $MPI in openmpi) library='Open MPI 4' ;; *) library='MPICH 4' ;; esac

# The command measures what it is told to, twice, and adds to what is there.
tune() { # RANKS, OPTIONS...
    ranks=$1
    shift
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n "$ranks" "$KOLO" tune --mpi -t 2 -o written "$@" >said 2>said.err ||
        fail "kolo tune --mpi $*: $(cat said said.err)"
}
tune 2 -c bcast,gather_v,barrier -e 64 -f 4
grep -q "^\[$library\.[0-9]*, 2 ranks, $(getconf _NPROCESSORS_ONLN) cpus\]$" written ||
    fail "the section: $(cat written)"
for name in barrier bcast gatherv; do
    grep -q "^$name stays=[^ ]* us=" written || fail "$name is missing: $(cat written)"
done
[ "$(grep -c ' stays=' written)" = 3 ] || fail "more than three: $(cat written)"
grep -q '^bcast .* us=8:[0-9.]*/[0-9.]*,32:[0-9.]*/[0-9.]*$' written || fail "$(cat written)"
tune 2 -c MPI_Reduce_scatter_block,reduce_scatter_v,alltoall -e 32
[ "$(grep -c '^\[' written)" = 1 ] && [ "$(grep -c ' stays=' written)" = 6 ] ||
    fail "after a second run: $(cat written)"
tune 3 -c alltoall -e 8 --json
[ "$(grep -c '^\[' written)" = 2 ] || fail "for 3 ranks: $(cat written)"
grep -q '"ranks": *3' said && grep -q '"collective": *"alltoall"' said || fail "$(cat said)"
"$KOLO" config check written >said || fail "it is refused: $(cat said)"
grep -q '2 sections, no mistake' said || fail "$(cat said)"
! "$KOLO" tune --mpi -o written >said 2>&1 || fail "without ranks"
grep -q 'there is no MPI to measure' said || fail "without ranks: $(cat said)"

# A program follows a table: 10 of its broadcasts lie in the range, and gatherv stays whole.
cat >calls.c <<'C'
#include <mpi.h>
#include <string.h>
static char out[64 << 10], in[128 << 10];
int main(int argc, char **argv)
{
    int rank, wrong = 0, counts[2] = {8, 8}, places[2] = {0, 8};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 10; i++)
        for (int bytes = 16; bytes <= 64 << 10; bytes *= 64) {
            memset(out, rank ? 99 : i + bytes % 7, bytes);
            MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
            wrong += out[0] != i + bytes % 7 || out[bytes - 1] != i + bytes % 7;
        }
    for (int i = 0; i < 5; i++) {
        memset(out, i + rank, 8);
        memset(in, 99, 16);
        MPI_Gatherv(out, 8, MPI_BYTE, in, counts, places, MPI_BYTE, 0, MPI_COMM_WORLD);
        wrong += rank == 0 && (in[0] != i || in[15] != i + 1);
    }
    for (int i = 0; argc > 1 && i < 35; i++) {
        int own[2] = {3 + i % 2, 5}, of_all[9], mine[5];
        for (int e = 0; e < 9; e++) of_all[e] = e + i * (rank + 1);
        MPI_Reduce_scatter(of_all, mine, own, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int e = 0; e < own[rank]; e++) wrong += mine[e] != 2 * (e + rank * own[0]) + 3 * i;
    }
    MPI_Finalize();
    return wrong != 0;
}
C
"mpicc.$MPI" -O1 calls.c -o calls
more=
run() { # NAME, WORDS BEFORE THE PROGRAM...
    name=$1
    shift
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 "$@" \
        ./calls $more >"$name.out" 2>"$name.err" || fail "$name: $(cat "$name.err")"
}
follows() { # NAME, TAKEN, BECAUSE OF THE TABLE, BECAUSE OF THE SETTINGS
    taken=$(grep -c " $2 of 35 collectives ran on kolo" "$1.err" || true)
    faster=$(grep -c "MPI ran $3 because it is faster" "$1.err" || true)
    listed=$(grep -c "MPI ran $4 that the settings leave to it" "$1.err" || true)
    is() { [ "$1" = 0 ] && echo 0 || echo 2; }
    [ "$taken $faster $listed" = "2 $(is "$3") $(is "$4")" ] || fail "$1: $(cat "$1.err")"
}
section=$(grep -m 1 '^\[.* 2 ranks' written)
plant() { printf 'format 1\n%s\n%s\n' "$section" "$1" >planted; }
plant 'bcast stays=1K-2K
gatherv stays=all'
run planted KOLO_PMPI_TABLE=planted
follows planted 20 15 0
! grep -q ' saved on ' planted.err || fail "nothing was measured: $(cat planted.err)"
# Its times say what was saved: each of 10 calls of 16 bytes a second.
plant 'bcast stays=1K-2K us=16:1000000.0/2000000.0
gatherv stays=all us=8:1.0/9.0'
run saved KOLO_PMPI_TABLE=planted
follows saved 20 15 0
[ "$(grep -c '; 10.000 s saved on 10 of them, by the times of pmpi_table' saved.err)" = 2 ] ||
    fail "saved: $(cat saved.err)"
run none KOLO_PMPI_TABLE=none
follows none 35 0 0
# The table that is built in: small reductions to blocks of different sizes, a core for each rank.
more=too
run built_in KOLO_PMPI_TABLE=built-in
[ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] && faster=35 || faster=0
[ "$(grep -c " $((70 - faster)) of 70 collectives ran on kolo" built_in.err)" = 2 ] &&
    { [ $faster = 0 ] || [ "$(grep -c "MPI ran 35 because it is faster" built_in.err)" = 2 ]; } ||
    fail "the table that is built in: $(cat built_in.err)"
more=
# The user's list wins: broadcasts are kolo's, all others are not.
run named KOLO_PMPI_TABLE=planted KOLO_PMPI_COLLECTIVES=bcast
follows named 30 0 5
run all_but KOLO_PMPI_TABLE=planted KOLO_PMPI_COLLECTIVES=^gatherv
follows all_but 20 10 5
# The table of rank 0 holds: another one elsewhere is not looked at.
cat >apart <<'S'
#!/bin/sh
table=planted
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 0 ] || table=missing
exec env KOLO_PMPI_TABLE=$table "$@"
S
chmod +x apart
run apart ./apart
follows apart 20 15 0
# That of other ranks, of another MPI, or of other cores does not hold.
own=$section
for section in "$(echo "$own" | sed 's/ 2 ranks/ 5 ranks/')" "[Other MPI 4.0, 2 ranks, 2 cpus]" \
    "$(echo "$own" | sed 's/[0-9]* cpus/999 cpus/')"; do
    plant 'bcast stays=all
barrier stays=none
gatherv stays=all'
    run other KOLO_PMPI_TABLE=planted
    follows other 35 0 0
done
section=$own
# One that cannot be used is told once, and MPI goes on.
plant 'bcast stays=1000-2000'
run wrong KOLO_PMPI_TABLE=planted
said="KOLO_PMPI_TABLE: planted: line 3: '1000-2000' is no range"
[ "$(grep -c "kolo: .*$said" wrong.err)" = 1 ] ||
    fail "said: $(cat wrong.err)"
! grep -q 'ran on kolo' wrong.err || fail "kolo takes calls under a wrong table"
! KOLO_PMPI_TABLE=planted "$KOLO" config check >said 2>&1 || fail "it is not refused"
grep -q "line 3: '1000-2000' is no range" said || fail "config check: $(cat said)"
echo "$test_name ($MPI): ok"
