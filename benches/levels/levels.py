#!/usr/bin/env python3
"""What levels of caches and sockets gain on this node: calls with and without them, by turns.

    benches/levels/levels.py                       as many ranks as cores, kolo and mpirun of PATH
    benches/levels/levels.py --np 64 --turns 3
    benches/levels/levels.py --launch 'srun --cpu-bind=cores -n {np}'

Ranks must be bound, each to its core, or there are no levels: the first line says what was found.
Each turn runs `kolo perf` once with KOLO_LEVELS=on and once with off, the other way round in every
second turn, and checks every element. Prints a line a size: the median time with levels, and the
median, least and greatest of the time without them over it. Above 1 levels are faster.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

CALLS = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "barrier")
SECONDS = 900


def times(launch, call, levels, told):
    """Microseconds by size, of the slowest rank."""
    sizes = [] if call == "barrier" else ["-b", "8", "-e", told.end, "-f", "8"]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = launch + [told.kolo, "perf", call, "--json", file.name] + sizes
        env = dict(os.environ, KOLO_LEVELS=levels)
        run = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, timeout=SECONDS)
        if run.returncode:
            sys.exit("%s: exit %d" % (shlex.join(command), run.returncode))
        rows = json.load(file)["results"]
    return {row["size"]: row["out_of_place"]["time_us"] for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--np", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--end", default="16M", help="the greatest size")
    parser.add_argument("--calls", default=",".join(CALLS))
    parser.add_argument("--kolo", default="kolo")
    parser.add_argument("--launch", default="mpirun --bind-to core --map-by core -n {np}")
    told = parser.parse_args()
    launch = shlex.split(told.launch.format(np=told.np))
    seen = subprocess.run(launch + [told.kolo, "perf", "barrier"], stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, text=True, timeout=SECONDS,
                          env=dict(os.environ, KOLO_DEBUG="info"))
    found = [line for line in seen.stderr.splitlines() if "levels:" in line]
    print(found[0] if found else "no line says which levels were found")
    for call in told.calls.split(","):
        turns = []
        for turn in range(told.turns):
            order = ("on", "off") if turn % 2 == 0 else ("off", "on")
            turns.append({levels: times(launch, call, levels, told) for levels in order})
        for size in sorted(turns[0]["on"]):
            on = statistics.median(turn["on"][size] for turn in turns)
            ratios = [turn["off"][size] / turn["on"][size] for turn in turns]
            print("%-14s %10d B  %10.2f us  off/on %.2f [%.2f, %.2f]" % (
                call, size, on, statistics.median(ratios), min(ratios), max(ratios)), flush=True)


main()
