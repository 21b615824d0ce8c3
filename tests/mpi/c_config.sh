#!/bin/sh
# koloCommInitMPIConfig, in C and in C++.
. "$(dirname "$0")/common"
headers="-I $include -I $(folder_of kolo_mpi.h "")"
cd "$work"
cc -std=c99 -Wall -Wextra -Werror "$top/tests/mpi/c_config.c" $headers $(compile_flags "$MPICC") \
    $link $(link_flags "$MPICC") -o c_config || fail "c_config.c does not compile"
for nranks in 1 3; do run_ok $nranks c_config; done
echo '#include <kolo_mpi.h>' >header.cpp
c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only header.cpp \
    -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $headers $(compile_flags "$MPICC") ||
    fail "kolo_mpi.h is no C++"
echo "$test_name ($MPI): ok"
