#!/bin/sh
# Every Fortran call on 1 to 4 ranks of an MPI program.
. "$(dirname "$0")/common"
for program in reductions moves errors described halo registered; do
    compile_fortran $program
    for nranks in 1 2 3 4; do run_ok $nranks $program; done
done
echo "$test_name ($MPI, $FC): ok"
