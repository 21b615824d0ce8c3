#!/usr/bin/env bash
# The C example, built outside the tree with nothing but pkg-config, adds the ranks.
set -euo pipefail
cp "$SOURCE/examples/c/hello.c" .
$MPICC -std=c99 -Wall -Wextra -Werror hello.c -o hello \
    $(pkg-config --cflags --libs "kolo-mpi-$MPI")
for n in 1 2 3 4 8; do
    $MPIRUN -n $n ./hello >out
    cat out
    [ "$(grep -c " of $n: the sum is $((n * (n + 1) / 2))\$" out)" = $n ]
done
