#!/usr/bin/env bash
# Ranks in the order of a graph file: right results, and one error on all ranks where files differ.
# limit: 120 s
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"

# graph ORDER CHAIN: a graph file for four ranks
graph() {
    printf 'version = 1\nranks = 4\nring_bandwidth = 8.0\ntree_bandwidth = 8.0\n'
    printf '[[ring]]\norder = %s\n[[tree]]\nchain = %s\n' "$1" "$2"
}
graph '[0, 2, 1, 3]' '[3, 0, 2, 1]' >one.toml
graph '[0, 3, 1, 2]' '[3, 0, 2, 1]' >other.toml

export KOLO_GRAPH_FILE=$PWD/one.toml
for algorithm in ring tree; do
    export KOLO_ALGO=$algorithm
    for collective in all_reduce broadcast reduce; do
        right 4 "$collective" 2 -b 24 -e 192K -f 8192 -n 2 -w 1
    done
done
unset KOLO_ALGO

# What init writes is what it read.
KOLO_GRAPH_DUMP_FILE=$PWD/dump.toml $MPIRUN -n 4 "$KOLO" perf barrier -n 1 -w 0 >table
grep -q '^order = \[0, 2, 1, 3\]$' dump.toml || { cat dump.toml; exit 1; }

status=0
$MPIRUN -n 3 "$KOLO" perf all_reduce -b 8 -e 8 -n 1 -w 0 : \
    -n 1 env KOLO_GRAPH_FILE="$PWD/other.toml" "$KOLO" perf all_reduce -b 8 -e 8 -n 1 -w 0 \
    >out 2>&1 || status=$?
[ "$status" != 0 ] || { echo 'different graph files went through'; cat out; exit 1; }
grep -q '`graph_file` is .*one.toml.* but .*rank 3 .*other.toml' out || { cat out; exit 1; }
