# Reads the table that kolo perf prints. Sourced by the tests whose names begin with perf_.
collectives="all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv
hypercube"
# Of blocks of different sizes, along the ring, and scans.
more="scan exscan all_gather_v gather_v scatter_v reduce_scatter_v alltoall_v neighbor_allgather
neighbor_allgather_v neighbor_alltoall neighbor_alltoall_v"

# Where a test has a large grid it draws a part of it; FULL=1 (make test-full) takes all of it, and
# SEED=123 draws the same again.
SEED=${SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
RANDOM=$SEED
echo "SEED=$SEED"

# drawn COUNT WORD...: so many of the words in `words`, or all.
drawn() {
    local count=$1 at
    shift
    words=("$@")
    [ -z "${FULL:-}" ] || return 0
    while [ ${#words[@]} -gt "$count" ]; do
        at=$((RANDOM % ${#words[@]}))
        words=("${words[@]:0:at}" "${words[@]:at+1}")
    done
}

# right N COLLECTIVE LINES OPTIONS...: run it on N ranks; the table has at least LINES lines of
# results, and each counts 0 wrong elements twice (out of place, in place). N/A is not an answer.
right() {
    local n=$1 collective=$2 lines=$3
    shift 3
    if [ "$collective" = hypercube ] && [ $((n & (n - 1))) != 0 ]; then return; fi
    echo "== $n ranks: kolo perf $collective $*"
    $MPIRUN -n "$n" "$KOLO" perf "$collective" "$@" >table || { cat table; return 1; }
    awk -v lines="$lines" -v collective="$collective" '
        $1 ~ /^[0-9]+$/ && NF >= 13 {
            seen++
            # In place there is nothing to compare for an exchange of other data.
            if ($9 != "0" || ($13 != "0" && $13 != "N/A") ) { print "wrong: " $0; bad++ }
            if ($13 == "N/A") missing++
        }
        END {
            print seen + 0 " lines, " bad + 0 " of them wrong"
            apart = collective ~ /alltoall|sendrecv|neighbor/
            exit bad > 0 || seen < lines || (missing == seen && !apart)
        }' table || { cat table; return 1; }
}
