#!/usr/bin/env python3
"""Instructions of small calls outside of waiting loops, counted by callgrind.

    benches/instructions/instructions.py PREFIX...    installations of kolo, say of two versions

Prints a line a collective: instructions of a call of 8 bytes on 2 ranks, for each installation, and
the last figure divided by the first. The rank that is counted comes last and never waits.
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


def counted(program, collective, count):
    """Instructions of so many calls."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--fair-sched=yes", "--toggle-collect=measured",
             "--callgrind-out-file=" + os.path.join(folder, "out"),
             program, collective, str(count)],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return int(re.search(r"Collected *: *(\d+)", run.stderr).group(1))


def per_call(prefix, collective):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "calls")
        subprocess.run(["cc", "-O1", os.path.join(HERE, "calls.c"), "-I", prefix + "/include",
                        "-L", prefix + "/lib", "-lkolo", "-Wl,-rpath," + prefix + "/lib",
                        "-pthread", "-o", program], check=True)
        pairs = [[counted(program, collective, count) for count in COUNTS] for _ in range(PAIRS)]
    few, many = (min(pair[at] for pair in pairs) for at in (0, 1))
    return (many - few) / (COUNTS[1] - COUNTS[0])


def main():
    prefixes = [os.path.abspath(prefix) for prefix in sys.argv[1:]]
    if not prefixes:
        sys.exit(__doc__.strip())
    for collective in COLLECTIVES:
        figures = [per_call(prefix, collective) for prefix in prefixes]
        print("%-12s" % collective + "".join("%10.1f" % figure for figure in figures) +
              "   ratio %.3f" % (figures[-1] / figures[0]))


main()
