#!/usr/bin/env python3
"""Two installed versions of kolo beside each other, on a machine whose speed changes.

    benches/turns/turns.py BEFORE AFTER            prefixes of the two installations
    benches/turns/turns.py BEFORE AFTER --turns 5  fewer turns: only to see that it works

An all-reduce of each size is timed by turns: before, after, and before once more, the other way
round in every second turn, so that what slows the machine for a while strikes all three. Prints a
line a size: the median time of the first, and medians, least and greatest of the second's time over
the first's, and of the first's over its own. The last is the spread that a difference must exceed.
"""
import argparse
import os
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Ranks, bytes, calls a turn.
SIZES = ((2, 64 << 10, 300), (2, 16 << 20, 12), (8, 8, 200), (8, 64 << 10, 100), (8, 1 << 20, 20))
ORDER = ("before", "after", "again")
SECONDS = 120


def timed(program, prefix, size):
    """Microseconds of a call, the median of one process."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
    env["LD_LIBRARY_PATH"] = os.path.join(prefix, "lib")
    run = subprocess.run([program, *map(str, size)], env=env, check=True, stdout=subprocess.PIPE,
                         text=True, timeout=SECONDS)
    return float(run.stdout)


def shown(ratios):
    return "%.3f [%.2f, %.2f]" % (statistics.median(ratios), min(ratios), max(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--turns", type=int, default=45)
    told = parser.parse_args()
    prefixes = {"before": os.path.abspath(told.before), "after": os.path.abspath(told.after)}
    prefixes["again"] = prefixes["before"]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "turns")
        subprocess.run(["cc", "-O2", os.path.join(HERE, "turns.c"), "-pthread", "-o", program,
                        "-I", prefixes["before"] + "/include",
                        "-L", prefixes["before"] + "/lib", "-lkolo"], check=True)
        for size in SIZES:
            rows = []
            for turn in range(told.turns):
                order = ORDER if turn % 2 == 0 else ORDER[::-1]
                rows.append({name: timed(program, prefixes[name], size) for name in order})
            print("%d ranks %9d B  before %.1f us  after/before %s  before/before %s" % (
                *size[:2], statistics.median(row["before"] for row in rows),
                shown([row["after"] / row["before"] for row in rows]),
                shown([row["again"] / row["before"] for row in rows])), flush=True)


main()
