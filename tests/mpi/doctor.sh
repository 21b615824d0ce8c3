#!/bin/sh
# kolo doctor ./program: the MPI that a program loads, whatever brings it, against its launcher.
# limit: 120 s
exec python3 "$SOURCE/tests/mpi/doctor/programs.py"
