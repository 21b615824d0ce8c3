#!/bin/sh
# koloCommInitMPIConfig, in C and in C++.
. "$(dirname "$0")/common"
headers="-I $include -I $(folder_of kolo_mpi.h "")"
cd "$work"
# Where the function of the header is one by itself, and where it is taken into its caller.
for level in 0 2; do
    cc -std=c99 -g -O$level -Wall -Wextra -Werror "$top/tests/mpi/c_config.c" $headers \
        $(compile_flags "$MPICC") $link $(link_flags "$MPICC") -o c_config ||
        fail "c_config.c does not compile"
    KOLO_ERRORS=backtrace run_ok $((1 + level)) c_config
done
echo '#include <kolo_mpi.h>' >header.cpp
c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only header.cpp \
    -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $headers $(compile_flags "$MPICC") ||
    fail "kolo_mpi.h is no C++"
echo "$test_name ($MPI): ok"
