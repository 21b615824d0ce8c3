#!/bin/sh
# A wrong call without ierror ends the whole job, and standard error says why.
. "$(dirname "$0")/common"
compile_fortran stops
for nranks in 1 3; do
    if timeout 60 $MPIRUN -n $nranks "$work/stops" >"$work/out" 2>"$work/err"; then
        fail "the job on $nranks ranks ended well"
    elif [ $? -eq 124 ]; then
        fail "the job on $nranks ranks did not end"
    fi
    who="kolo: rank $((nranks - 1)): kolo_allreduce on communicator MPI_COMM_WORLD"
    for words in "$who: the operation KOLO_SUM does" "Remedy: "; do
        cat "$work/out" "$work/err" | grep -q "$words" || fail "no '$words' in: $(cat "$work/err")"
    done
    if grep -q survived "$work/out"; then fail "a rank went on"; fi
done
echo "$test_name ($MPI, $FC): ok"
