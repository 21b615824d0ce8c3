#!/bin/sh
# A program whose default integer has 8 bytes, beside an MPI whose own have 4.
. "$(dirname "$0")/common"
FC="$FC -fdefault-integer-8"
compile_fortran wide
for nranks in 1 3; do run_ok $nranks wide; done
echo "$test_name ($MPI, $FC): ok"
