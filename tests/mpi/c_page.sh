#!/usr/bin/env bash
# The page for C (docs/c.md): its program, built and started as it is printed there, gives what the
# same rod gives without ranks; its other pieces compile in one program and run.
# limit: 90 s
set -euo pipefail
page=$SOURCE/docs/c.md
fail() { echo "c_page ($MPI): $*" >&2; exit 1; }
mkdir bin
for name in mpicc mpirun; do
    printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v $name.$MPI)" >bin/$name
    chmod 755 bin/$name
done
export PATH=$PWD/bin:$PATH OMPI_MCA_rmaps_base_oversubscribe=1

# Block by block: 1.c is the program.
awk '/^```c$/ { on = ++block; next } /^```$/ { on = 0 } on { print >on ".c" }' "$page"
mv 1.c rod.c
typed=$(sed -n '1s,^/\* \(.*\) \*/$,\1,p' rod.c)
[ -n "$typed" ] || fail "no command in the first line of its program"
bash -euo pipefail -c "${typed//kolo-mpi-openmpi/kolo-mpi-$MPI}" >out 2>err || fail "$(cat out err)"
alone=$(awk 'BEGIN {
    cells = 64; now[0] = 1000; now[cells + 1] = 0
    for (step = 0; step < 2000; step++) {
        heat = 0
        for (i = 1; i <= cells; i++) {
            heat += now[i]
            next_[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1])
        }
        for (i = 1; i <= cells; i++) now[i] = next_[i]
    }
    printf "%.3f", heat
}')
[ "$(cat out)" = "4 ranks: the rod holds $alone" ] || fail "not $alone: $(cat out err)"

# A function that a piece begins with stands before main, all else in it.
function_of() { awk '/^void/ { on = 1 } on { print } /^}/ { exit }' "$1"; }
{
    cat <<'C'
#include <kolo_mpi.h>
#include <math.h>
#include <stdio.h>
static void compute_a_little(void) {}
#define OK(call) if ((call) != koloSuccess) MPI_Abort(MPI_COMM_WORLD, 1)
C
    for piece in [0-9]*.c; do function_of "$piece"; done
    cat <<'C'
int main(int argc, char **argv) {
    double x[2] = {3, 4}, y[2] = {-1, -1}, z[2] = {-1, -1};
    const size_t n = 2;
    FILE *const log_file = stderr;
    koloComm_t comm;
    MPI_Init(&argc, &argv);
    OK(koloCommInitMPI(&comm, MPI_COMM_WORLD));
    int rank, nranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
C
    for piece in [0-9]*.c; do
        echo "{"
        tail -n "+$(($(function_of "$piece" | wc -l) + 1))" "$piece"
        echo '} printf("%.3f %.3f\n", y[0], y[1]);'
    done
    echo 'OK(koloCommDestroy(comm)); MPI_Finalize(); return 0; (void)z; }'
} >pieces.c
pieces=$(ls [0-9]*.c | wc -l)
[ "$pieces" = 4 ] || fail "$pieces pieces"
mpicc -Wall -Wextra -Wno-unused-parameter -Wno-dangling-else pieces.c \
    $(pkg-config --cflags --libs "kolo-mpi-$MPI") -lm -o pieces
mpirun -n 1 ./pieces >out 2>err || fail "$(cat out err)"
same=$(printf '3.000 4.000 %.0s' [0-9]*.c)
[ "$(tr '\n' ' ' <out)" = "$same" ] || fail "$(cat out err)"
mpirun -n 4 ./pieces >out 2>err || fail "$(cat out err)"
[ "$(grep -c '^12.000 16.000$' out)" = 12 ] || fail "sums of 4 ranks: $(cat out err)"
[ "$(grep -c '^6.000 8.000$' out)" = 4 ] || fail "lengths of 4 ranks: $(cat out err)"
echo "c_page ($MPI): ok"
