#!/usr/bin/env python3
"""Instructions of small calls outside of waiting loops, counted by callgrind.

    benches/instructions/instructions.py PREFIX...         installations, say of two versions
    benches/instructions/instructions.py --dropin PREFIX   a call of MPI that the drop-in takes,
                                                           beside the call of kolo.h

Prints a line a collective: instructions of a call of 8 bytes on 2 ranks, for each installation, and
the last figure divided by the first; of the drop-in the all-reduce, under Open MPI, and what it
adds. The rank that is counted comes last and never waits.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
COLLECTIVES = ("all_reduce", "broadcast", "reduce", "gather", "scatter", "reduce_scatter",
               "alltoall", "sendrecv", "barrier")
# Two runs of different length: what happens only once is not counted. The difference is long, as
# some of it happens at a different time in each run: of 100 calls it was 1 % of what they take.
COUNTS = (50, 1050)
# On a busy machine the other rank may be late all the same: the least of several pairs counts.
PAIRS = 3


def counter(folder):
    """The words before a program that is counted."""
    return ["valgrind", "--tool=callgrind", "--fair-sched=yes", "--toggle-collect=measured",
            "--callgrind-out-file=" + os.path.join(folder, "out")]


def collected(words, environment):
    """Instructions that a run has told of."""
    run = subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                         text=True, env=environment)
    return int(re.search(r"Collected *: *(\d+)", run.stderr).group(1))


def least(count_calls):
    """Instructions of one call, where the function counts so many."""
    pairs = [[count_calls(count) for count in COUNTS] for _ in range(PAIRS)]
    few, many = (min(pair[at] for pair in pairs) for at in (0, 1))
    return (many - few) / (COUNTS[1] - COUNTS[0])


def per_call(prefix, collective):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "calls")
        subprocess.run(["cc", "-O1", os.path.join(HERE, "calls.c"), "-I", prefix + "/include",
                        "-L", prefix + "/lib", "-lkolo", "-Wl,-rpath," + prefix + "/lib",
                        "-pthread", "-o", program], check=True)
        return least(lambda count: collected(
            counter(folder) + [program, collective, str(count)], None))


def of_dropin(prefix):
    """Instructions of an MPI program's all-reduce by kolo.h, and by MPI's name."""
    lib = os.path.join(prefix, "lib")
    mpi_lib = os.path.join(lib, "kolo", "openmpi")
    own = ["-DBY_KOLO", "-I", prefix + "/include", "-L", mpi_lib, "-L", lib, "-lkolo_mpi", "-lkolo",
           "-Wl,-rpath," + mpi_lib, "-Wl,-rpath," + lib]
    preload = ["env", "LD_PRELOAD=" + os.path.join(lib, "libkolo_pmpi.so.0")]
    environment = dict(os.environ, KOLO_PMPI_ATTACH="0", KOLO_PMPI_TABLE="none",
                       OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    figures = []
    for flags, before in (own, []), ([], preload):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "dropin")
            subprocess.run(["mpicc.openmpi", "-O1", os.path.join(HERE, "dropin.c"), "-o", program,
                            *flags], check=True)
            figures.append(least(lambda count: collected(
                ["mpirun.openmpi", "--bind-to", "none", "-n", "1", *before, program, str(count),
                 ":", "-n", "1", *before, *counter(folder), program, str(count)], environment)))
    return figures


def main():
    if sys.argv[1:2] in (["--help"], ["-h"]):
        print(__doc__.strip())
        return
    dropin = sys.argv[1:2] == ["--dropin"]
    prefixes = [os.path.abspath(prefix) for prefix in sys.argv[2 if dropin else 1:]]
    if not prefixes:
        sys.exit(__doc__.strip())
    if dropin:
        own, taken = of_dropin(prefixes[0])
        print("all_reduce  %10.1f by kolo.h  %10.1f by MPI_Allreduce   %+.1f" % (
            own, taken, taken - own))
        return
    for collective in COLLECTIVES:
        figures = [per_call(prefix, collective) for prefix in prefixes]
        print("%-12s" % collective + "".join("%10.1f" % figure for figure in figures) +
              "   ratio %.3f" % (figures[-1] / figures[0]))


main()
