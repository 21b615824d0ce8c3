#!/bin/sh
# libkolo_mpi alone, against a double of libkolo: start-up calls, misuse, progress of MPI.
# limit: 240 s
exec "$SOURCE/tests/mpi_library/run.sh" "$MPI" "$PREFIX/lib/kolo/$MPI/libkolo_mpi.so"
