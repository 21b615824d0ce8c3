#!/usr/bin/env bash
# Algorithms forced in turn, over processes, on one node and on imagined ones: of each a collective.
# limit: 300 s
# They know nothing of the MPI that started the ranks; perf_collectives runs under both.
# mpi: openmpi
set -euo pipefail
. "$SOURCE/tests/mpi/perf/table.sh"

# forced ALGORITHM RANKS_PER_NODE COLLECTIVE...
forced() {
    local algorithm=$1 per_node=$2
    shift 2
    export KOLO_ALGO=$algorithm KOLO_RANKS_PER_NODE=$per_node
    drawn 1 "$@"
    for collective in "${words[@]}"; do
        right 5 "$collective" 2 -b 24 -e 192K -f 8192 -n 2 -w 1
    done
    unset KOLO_ALGO KOLO_RANKS_PER_NODE
}

forced ring auto all_reduce reduce_scatter
forced oneshot auto all_reduce
forced tree 1 all_reduce broadcast reduce
forced tree 2 all_reduce
forced twoshot auto all_reduce reduce_scatter all_gather broadcast reduce
forced rd auto all_reduce all_gather
forced binomial auto broadcast reduce gather scatter
forced chain 2 broadcast reduce
forced dissemination auto all_gather
forced pairwise auto alltoall
forced hd auto all_reduce reduce_scatter all_gather
forced bruck auto alltoall all_gather
forced pat auto reduce_scatter all_gather
forced nvls auto all_reduce all_gather broadcast
forced nvlstree 2 all_reduce
forced collnet 2 all_reduce
forced leader 2 all_reduce
forced hier 2 all_reduce broadcast reduce all_gather reduce_scatter

# Flagged lines, forced.
for protocol in ll ll128; do
    export KOLO_PROTO=$protocol
    forced ring auto all_reduce broadcast
    forced tree 2 all_reduce
    forced twoshot auto reduce_scatter
    forced bruck auto alltoall
    unset KOLO_PROTO
done
