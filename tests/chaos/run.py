#!/usr/bin/env python3
"""Random calls under random faults, against an installed kolo, each round drawn from its seed.

    tests/chaos/run.py PREFIX                      rounds until interrupted
    tests/chaos/run.py PREFIX --seconds 600        for so long, from a start seed that it prints
    tests/chaos/run.py PREFIX --rounds 30          at most so many
    tests/chaos/run.py PREFIX --seed 123           round 123 again; round k of a run has the seed
                                                   START + k
    ... --over ofi                                 over that network alone: socket, ofi or mpi
    ... --here                                     on this machine alone, without root: shared
                                                   memory and loopback, kills and stops

README.md beside this file says what is drawn, and what every round must come to. The exit status
is 0 if all rounds came to that.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True      # run as root, it would leave root's files in the tree
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "skip")]
import places  # noqa: E402
import state  # noqa: E402
from draw import NETWORKS, draw, networks, script, words  # noqa: E402
from judge import said  # noqa: E402
from play import Match, Wrong  # noqa: E402
from skip import skip  # noqa: E402


def compile_ranks(prefix, folder, mpis):
    """The rank program, plain and for each MPI; all are called chaos-rank."""
    programs, lib = {}, os.path.join(prefix, "lib")
    for start in ["plain"] + mpis:
        os.makedirs(os.path.join(folder, start))
        programs[start] = os.path.join(folder, start, "chaos-rank")
        argv = ["cc" if start == "plain" else "mpicc." + start, "-Wall", "-Wextra", "-Werror",
                "-O2", os.path.join(HERE, "rank.c"), "-o", programs[start],
                "-I", os.path.join(prefix, "include")]
        if start != "plain":
            own = os.path.join(lib, "kolo", start)
            argv += ["-DCHAOS_MPI", "-L", own, "-lkolo_mpi", "-Wl,-rpath," + own]
        argv += ["-L", lib, "-lkolo", "-Wl,-rpath," + lib]
        done = subprocess.run(argv, text=True, stderr=subprocess.PIPE)
        if done.returncode:
            sys.exit("the rank program does not compile:\n" + done.stderr)
    return programs


def make_place(prefix, folder, here):
    """Two emulated nodes, or this machine alone where these cannot be made."""
    if here:
        return places.Here(prefix, folder)
    reason = "this is not root" if os.geteuid() else places.harness.why_not()
    if reason:
        if skip("chaos-nodes", "no rounds on nodes with links, but on this machine: " + reason):
            sys.exit(1)
        return places.Here(prefix, folder)
    nodes = places.Nodes(prefix, folder)
    for able in ("loss", "ofi", "openmpi", "mpich"):
        if able not in nodes.can and skip("chaos-" + able, "this machine cannot do it"):
            nodes.down()
            sys.exit(1)
    return nodes


def become_root():
    """Starts anew through sudo, where that needs no password."""
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], stderr=subprocess.DEVNULL).returncode == 0:
        os.execv(sudo, [sudo, "-n", "env", "PATH=" + os.environ["PATH"],
                        "CI=" + os.environ.get("CI", ""), sys.executable, *sys.argv])


def play(seed, over, place, programs, scratch, verbose):
    """One round; whether it came to what it must."""
    drawn = draw(seed, place.can, over)
    folder = os.path.join(scratch, "round")
    os.makedirs(folder)
    begin = time.monotonic()
    if verbose:
        print("env %s\n%s%s" % (drawn.env, script(drawn), "\n".join(map(str, drawn.faults))))
    match = Match(drawn, place, folder, programs)
    try:
        match.play()
        bad = None
    except Wrong as wrong:
        bad = str(wrong)
    finally:
        place.mend()
    print("%s  seed %d: %s (%.1f s)" % ("FAIL" if bad else "ok  ", seed, words(drawn),
                                        time.monotonic() - begin), flush=True)
    if bad or verbose:
        told = ["  rank %d: %s %s" % (rank, *said(folder, rank)) for rank in range(match.nranks)]
        for line in (bad or "").splitlines() + told + state.outputs(match).splitlines():
            print("      " + line)
    if bad:
        words_over = " OVER=" + over if over else ""
        words_here = "" if "nodes" in place.can else " HERE=1"
        print("      env %s\n      again: make chaos SEED=%d%s%s" % (
            drawn.env, seed, words_over, words_here), flush=True)
    shutil.rmtree(folder)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prefix")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--start", type=int, help="the first seed of a run")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--over", choices=NETWORKS, help="the network of all rounds")
    parser.add_argument("--go-on", action="store_true", help="also after a round that failed")
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    if os.geteuid() and not a.here:
        become_root()
    prefix = os.path.realpath(a.prefix)
    start = a.start if a.start is not None else random.SystemRandom().randrange(10 ** 9)
    scratch = tempfile.mkdtemp(prefix="chaos.")
    os.chmod(scratch, 0o755)
    played, failed, begin, place = 0, 0, time.monotonic(), None
    try:
        place = make_place(prefix, scratch, a.here)
        if a.over and a.over not in networks(place.can):
            sys.exit("this machine has no rounds over %s" % a.over)
        mpis = sorted(place.can & {"openmpi", "mpich"})
        programs = compile_ranks(prefix, scratch, mpis)
        if a.seed is None:
            print("the first seed is %d" % start, flush=True)
        while True:
            seed = a.seed if a.seed is not None else start + played
            failed += not play(seed, a.over, place, programs, scratch, a.seed is not None)
            played += 1
            enough = a.rounds is not None and played >= a.rounds
            late = a.seconds is not None and time.monotonic() - begin >= a.seconds
            if a.seed is not None or enough or late or (failed and not a.go_on):
                break
    finally:
        try:
            if place:
                place.down()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    print("%d rounds, %d failed" % (played, failed))
    return 1 if failed or not played else 0


if __name__ == "__main__":
    sys.exit(main())
