#!/usr/bin/env python3
"""Measures kolo beside other MPIs on this machine: Open MPI 4 and 5, MPICH 4 and 5, Intel MPI.

    benches/peers/peers.py --kolo PREFIX          every collective on 2, 4 and 8 ranks
    benches/peers/peers.py --kolo PREFIX --np 2 --collective all_reduce --sizes 64K,1M --quick

Installs the libraries into build/peers (by apt and pip), and compiles one program with each. First
each configuration of each library is tried once, and the best one of each point (ranks, collective,
size) is written down in build/peers/best-NP-STATE.json; it is tried again with --try only. Then the
chosen ones and kolo run by turns. Prints a table: medians of the turns, least and greatest in
brackets; ratio is the time of the best peer over kolo's in the same turn, above 1 kolo is faster.

The host of a virtual machine may move its cores between processors, and then everything changes. So
the time of a cache line from core to core is measured before and after each run, and only runs in
one state count (--state): `together`, where cores share a cache, `apart`, or `siblings`, threads of
one core. Others are repeated, and so are runs during which other programs used the cores.

    benches/peers/peers.py --kolo PREFIX --dropin --peers openmpi4,mpich4

runs each of these MPIs with and without libkolo_pmpi.so, by turns; it must be installed for them. A
cell is lost if the drop-in is slower in the median of the turns and in a second series: by more
than 5 % on ranks with cores of their own, by more than 20 % where ranks share cores.

Size is that of the larger buffer of a rank: all blocks of an all_gather together. Time is that
of the slowest rank, from a common start, the median of the calls of a run. Sources are rewritten
before each call and results are checked. One core a rank up to as many ranks as cores; beyond that
the system places them, and all libraries are told to yield.
"""
import argparse
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import dropin  # noqa: E402
import libraries  # noqa: E402
import report  # noqa: E402

# Seconds after which a batch begins no further run, and a run is ended.
BATCH, LIMIT = 80, 60
# Sizes that one process measures; the largest have one of their own.
LARGE = 8 << 20
HUGE = 128 << 20
# Nanoseconds of a line from core to core: less is siblings, more is apart.
SIBLINGS, APART = 35, 120
# Part of the cores that other programs may use during a run.
FOREIGN = 0.05
# Runs in the wrong state are repeated so often, and the state is awaited so many seconds before.
REPEATS, PATIENCE = 3, 6
# A configuration that takes so much longer for the next smaller size is not tried for a huge one.
HOPELESS = 1.25


def cores():
    return len(os.sched_getaffinity(0))


# ---- Batches: what runs without a break, and may be wrapped by a command of the caller ----

def run_batch(path):
    """Runs what the file names and writes the results beside it; what no time is left for, it
    leaves out."""
    with open(path) as file:
        runs = json.load(file)
    begin, results = time.monotonic(), []
    for run in runs:
        if results and time.monotonic() - begin > BATCH - run["expected"]:
            break
        results.append(in_state(run, begin + BATCH))
    with open(path + ".out", "w") as file:
        json.dump(results, file)


def state():
    """How the two first cores are to each other now."""
    if cores() < 2:
        return "together"
    found = subprocess.run([libraries.PROBE], check=True, stdout=subprocess.PIPE, text=True)
    transit = float(found.stdout)
    return "siblings" if transit < SIBLINGS else "apart" if transit > APART else "together"


def usual_state():
    seen = [state() for _ in range(9)]
    return max(seen, key=seen.count)


def in_state(run, end):
    """The result of a run during which the cores stayed where the run wants them, and did nothing
    else; `spoiled` says why there was none before the batch had to end."""
    result = None
    for _ in range(REPEATS):
        if result and time.monotonic() > end - run["expected"]:
            break
        until = min(time.monotonic() + PATIENCE, end)
        while run["state"] and state() != run["state"] and time.monotonic() < until:
            time.sleep(0.2)
        result = one_run(run)
        if run["state"] and state() != run["state"]:
            result["spoiled"] = "the cores were moved"
        if result["code"] != 0 or not result["spoiled"]:
            break
    return result


def one_run(run):
    board = "/dev/shm/peers-%d" % os.getpid()
    argv = [board if word == "{board}" else word for word in run["argv"]]
    begin, used, own = time.monotonic(), used_by_all(), used_by_children()
    child = subprocess.Popen(argv, env=run["env"], stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        err += "\nended after %d s" % LIMIT
    finally:
        if os.path.exists(board):
            os.unlink(board)
    seconds = time.monotonic() - begin
    foreign = (used_by_all() - used) - (used_by_children() - own)
    spoiled = "other programs took %.1f s of %.1f s" % (foreign, seconds)
    is_spoiled = not run.get("busy") and foreign > 0.1 + FOREIGN * seconds * cores()
    return {"code": child.returncode, "out": out, "err": err, "seconds": seconds,
            "spoiled": spoiled if is_spoiled else ""}


def used_by_all():
    """Seconds that the machine's cores have worked."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def used_by_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def performed(runs, run_by):
    """Results of all runs, in as many batches as they need."""
    results = []
    while len(results) < len(runs):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "batch")
            with open(path, "w") as file:
                json.dump(runs[len(results):], file)
            subprocess.run([*run_by, sys.executable, os.path.abspath(__file__), "--batch", path],
                           check=True)
            with open(path + ".out") as file:
                results += json.load(file)
    return results


# ---- What is run ----

class Plan:
    """What the options ask for."""

    def __init__(self, told):
        self.told = told
        self.milliseconds, self.fewest = (25, 3) if told.quick else (60, 5)
        self.known = {library.name: library for library in (*libraries.LIBRARIES, libraries.IDEAL)}
        self.peers = [self.known[name] for name in told.peers]
        self.kolo = libraries.kolo(os.path.abspath(told.kolo))

    def points(self, ranks, collectives=None):
        """Collectives with their sizes, in classes that one process measures each."""
        classes = {}
        for collective in collectives or self.told.collective:
            for size in (8,) if collective == "barrier" else self.told.sizes:
                at = 0 if size < LARGE else size
                classes.setdefault(at, {}).setdefault(collective, []).append(size)
        return [classes[at] for at in sorted(classes)]

    def run(self, variant, ranks, points):
        """A run of a variant, which is (library, configuration) or kolo with a kind of memory."""
        if variant in report.KOLO:
            library, tried, memory = self.kolo, self.kolo.configurations[0], variant
        else:
            library, memory = self.known[variant[0]], "private"
            tried = next(c for c in library.configurations if c.name == variant[1])
        argv, env = library.command(ranks, tried, cores(), memory, self.milliseconds, self.fewest,
                                    points)
        return {"argv": argv, "env": env, "expected": expected(ranks, points, self),
                "state": self.told.state, "busy": self.told.busy}

    def variants(self, ranks):
        """Everything that is tried: of the peers, and the ways of the ideal program."""
        ideal = ranks == 2 and cores() > 1 and not self.told.no_ideal
        return [(library.name, one.name) for library in (*self.peers, *[libraries.IDEAL][:ideal])
                for one in library.configurations]

    def can(self, variant, collective, size):
        """Whether a variant is worth a try at a point."""
        one = next(c for c in self.known[variant[0]].configurations if c.name == variant[1])
        if variant[0] == "ideal" and (variant[1] == "line") != (size <= libraries.LINED):
            return False
        return not one.only or collective in one.only


def expected(ranks, points, plan):
    """Seconds that a run will about take: it decides what fits into a batch."""
    seconds = 1.5
    for sizes in points.values():
        for size in sizes:
            bytes_ = size * ranks * (plan.fewest + 5)
            seconds += max(2.5 * plan.milliseconds * 1e-3, bytes_ / 2e9)
    return min(seconds, LIMIT)


def times_of(result, ranks, what, figure=1):
    """{point: microseconds} of a run; nothing where it failed or was spoiled, which is said."""
    found = report.parsed(result["out"])
    if result["code"] != 0:
        last = [line for line in result["err"].splitlines() if line.strip()][-3:]
        if "wrong" in result["err"]:
            sys.exit("%s: %s" % (what, result["err"]))
        print("%s: exit code %s: %s" % (what, result["code"], " / ".join(last)), file=sys.stderr)
    if result["spoiled"]:
        print("%s: left out, %s" % (what, result["spoiled"]), file=sys.stderr)
        return {}
    return {(ranks, *key): figures[figure] for key, figures in found.items()}


def tried(plan, ranks):
    """One time of each variant at each point; huge sizes only where the one before gives hope."""
    trial = {}
    for points in plan.points(ranks):
        wanted = []
        for variant in plan.variants(ranks):
            own = {c: [s for s in sizes if plan.can(variant, c, s)]
                   for c, sizes in points.items() if hopeful(trial, variant, c, sizes)}
            own = {c: sizes for c, sizes in own.items() if sizes}
            if own:
                wanted.append((variant, own))
        runs = [plan.run(v, ranks, own) for v, own in wanted]
        results = twice_if_failed(runs, performed(runs, plan.told.run_by), plan.told.run_by)
        for (variant, _), result in zip(wanted, results):
            what = "%s, %s" % variant
            trial.setdefault(variant, {}).update(times_of(result, ranks, what))
            print("tried on %d ranks: %s, %.1f s" % (ranks, what, result["seconds"]),
                  file=sys.stderr)
    return trial


def twice_if_failed(runs, results, run_by):
    """A configuration that a library takes may still hang now and then: it gets a second chance."""
    failed = [i for i, result in enumerate(results) if result["code"] != 0 or result["spoiled"]]
    for i, result in zip(failed, performed([runs[i] for i in failed], run_by)):
        results[i] = result
    return results


def hopeful(trial, variant, collective, sizes):
    if sizes[0] < HUGE or variant[0] == "ideal":
        return True
    smaller = {v: max((t for (_, c, s), t in times.items() if c == collective and s < sizes[0]),
                      default=None) for v, times in trial.items() if v[0] != "ideal"}
    known = [t for t in smaller.values() if t is not None]
    return not known or (smaller.get(variant) is not None
                         and smaller[variant] <= HOPELESS * min(known))


def best(plan, ranks):
    """The chosen variants of each point: from the file, or from trials that then write it.

    Two of them: that of all peers, and that of the ideal program where it knows the point."""
    name = "best-%d-%s.json" % (ranks, plan.told.state or "any")
    path = plan.told.best or os.path.join(libraries.BUILD, name)
    wanted = {(ranks, c, s) for points in plan.points(ranks) for c, own in points.items()
              for s in own}
    known, ideal = {}, {}
    if os.path.exists(path) and not plan.told.again:
        with open(path) as file:
            for entry in json.load(file):
                kind = ideal if entry["variant"][0] == "ideal" else known
                kind[tuple(entry["point"])] = tuple(entry["variant"])
    known = {point: v for point, v in known.items() if v[0] in plan.told.peers}
    if not wanted <= set(known):
        trial = tried(plan, ranks)
        known.update(report.chosen({v: t for v, t in trial.items() if v[0] != "ideal"}))
        ideal.update(report.chosen({v: t for v, t in trial.items() if v[0] == "ideal"}))
        listed = [{"point": p, "variant": v, "tried": {"%s, %s" % name: times[p] for name, times in
                                                       trial.items() if p in times}}
                  for p, v in sorted((*known.items(), *ideal.items()))]
        with open(path, "w") as file:
            json.dump(listed, file, indent=1)
    return [{point: variant for point, variant in kind.items() if point in wanted}
            for kind in (known, ideal)]


def one_turn(plan, ranks, choices, turn):
    """{(variant, point): microseconds}; every second turn goes the other way round."""
    wanted = []
    for points in plan.points(ranks):
        own = [(name, points) for name in report.KOLO]
        chosen = {}
        for collective, sizes in points.items():
            for size in sizes:
                for choice in choices:
                    variant = choice.get((ranks, collective, size))
                    if variant:
                        chosen.setdefault(variant, {}).setdefault(collective, []).append(size)
        own += chosen.items()
        wanted += own if turn % 2 == 0 else own[::-1]
    results = performed([plan.run(v, ranks, points) for v, points in wanted], plan.told.run_by)
    found = {}
    for (variant, _), result in zip(wanted, results):
        times = times_of(result, ranks, "%s, turn %d" % (variant, turn + 1),
                         0 if plan.told.least else 1)
        name = "ideal" if variant[0] == "ideal" else variant
        found.update({(name, point): time_ for point, time_ in times.items()})
    return found


def saved(path, plan, turns, choice):
    listed = [[{"variant": v, "point": p, "us": t} for (v, p), t in turn.items()] for turn in turns]
    with open(path, "w") as file:
        json.dump({"machine": machine(), "options": vars(plan.told), "turns": listed,
                   "best": [{"point": p, "variant": v} for p, v in sorted(choice.items())]},
                  file, indent=1)


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return "%d cores, %s" % (cores(), names[0] if names else "unknown")


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [library.name for library in libraries.LIBRARIES]
    commas = lambda kind: lambda text: tuple(kind(word) for word in text.split(","))  # noqa: E731
    parser.add_argument("--kolo", metavar="PREFIX", default=os.path.join(libraries.ROOT, "build",
                                                                        "stage"))
    parser.add_argument("--np", type=commas(int), default=(2, 4, 8))
    parser.add_argument("--collective", type=commas(str), default=report.COLLECTIVES)
    parser.add_argument("--sizes", type=commas(report.size_of), default=report.SIZES)
    parser.add_argument("--peers", type=commas(str), default=tuple(names),
                        help="some of " + ",".join(names))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="less time for each size")
    parser.add_argument("--try", dest="again", action="store_true",
                        help="try all configurations again")
    parser.add_argument("--best", metavar="FILE", help="the results file of the trials")
    parser.add_argument("--state", choices=("together", "apart", "siblings", "any"),
                        help="where cores are to be (default: where they mostly are)")
    parser.add_argument("--least", action="store_true",
                        help="the least time of a run instead of the median: on a busy machine")
    parser.add_argument("--no-ideal", action="store_true",
                        help="without ideal.c (as on machines without AVX2)")
    parser.add_argument("--json", metavar="FILE", help="write all times")
    parser.add_argument("--svg", metavar="FILE", help="draw the ratios")
    parser.add_argument("--run-by", metavar="'COMMAND'", type=shlex.split,
                        default=shlex.split(os.environ.get("PEERS_RUN_BY", "")),
                        help="put before each batch of runs, which takes at most 90 s")
    parser.add_argument("--dropin", action="store_true",
                        help="the peers themselves, with and without libkolo_pmpi.so")
    parser.add_argument("--table", metavar="FILE", default="built-in",
                        help="pmpi_table of the drop-in: none, built-in, or one of kolo tune --mpi")
    parser.add_argument("--busy", action="store_true",
                        help="count runs beside other programs too (ratios are rough then)")
    parser.add_argument("--install", action="store_true", help="only fetch the libraries")
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    told = parser.parse_args()
    for name, known in (("collective", report.COLLECTIVES), ("peers", names)):
        strange = [word for word in getattr(told, name) if word not in known]
        if strange:
            parser.error("--%s: %s is not one of %s" % (name, strange[0], ", ".join(known)))
    return told


def main():
    told = options()
    if told.batch:
        run_batch(told.batch)
        return
    told.no_ideal = told.no_ideal or not libraries.ideal_can()
    plan = Plan(told)
    for library in plan.peers:
        libraries.install(library)
    if told.install:
        return
    if told.dropin:
        told.state = "" if told.state in (None, "any") else told.state
        sys.exit(dropin.main(plan, told))
    for library in (*plan.peers, plan.kolo, *(() if told.no_ideal else (libraries.IDEAL,))):
        libraries.compile_for(library)
    libraries.compile_probe()
    told.state = {"any": "", None: usual_state()}.get(told.state, told.state)
    print("cores are to be %s" % (told.state or "anywhere"), file=sys.stderr)
    choice, ideal = {}, {}
    for ranks in told.np:
        for all_, own in zip((choice, ideal), best(plan, ranks)):
            all_.update(own)
    turns = [{} for _ in range(told.turns)]
    for ranks in told.np:
        for at in range(told.turns):
            turns[at].update(one_turn(plan, ranks, (choice, ideal), at))
            print("turn %d of %d on %d ranks" % (at + 1, told.turns, ranks), file=sys.stderr)
            if told.json:
                saved(told.json, plan, turns, choice)
    rows = report.rows_of(turns, choice)
    print("\n".join(report.table(rows)))
    if told.svg:
        title = "Time of the best peer over that of kolo: " + machine()
        with open(told.svg, "w") as file:
            file.write(report.picture(rows, title))


if __name__ == "__main__":
    main()
