#!/usr/bin/env python3
"""Measures kolo between two emulated nodes, beside what the system and MPI do in the same run.

    benches/nodes/nodes.py PREFIX [wire] [p2p] [latency] [openmpi] [mpich] [shared]
    benches/nodes/nodes.py PREFIX before=PREFIX    beside another version of kolo

wire: sendrecv of 1 to 64 MiB, kolo beside the simplest program over sockets (wire.c), by turns in
one process a node, each on a core of its own. The ratio is that of their rates.
p2p: `kolo perf sendrecv` and `iperf3 --bidir` with one stream, by turns, in GB/s each way.
latency: an all-reduce of 8 bytes on 2 x 1 ranks, and a round trip of 8 bytes over TCP.
openmpi: all-reduce on 2 x 2 ranks, as the ratio of MPI's time to kolo's. As the nodes of a cluster
share no cores, all ranks of a node have one core here that no other node uses.
shared: the same, but the system places all ranks on all cores, and both libraries are to yield.
mpich: as shared, in a single run: MPICH spins.
before: all-reduce on 2 x 2 ranks as for openmpi, as the ratio of the other version's time to this
one's, by turns; below 1 this one is slower.
Medians of RUNS runs, and in brackets the least and the greatest.
"""
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "cluster"))
import harness  # noqa: E402

RUNS = 5
# The best that is known of Open MPI here: TCP between nodes, shared memory inside, and yielding.
PEERS = {"openmpi": ["env", "OMPI_MCA_btl=tcp,self,vader", "OMPI_MCA_pml=ob1"], "mpich": []}
# Starts a program on the core that belongs to its node.
CORES = sorted(os.sched_getaffinity(0))
BOUND = ["sh", "-c", 'case $(hostname) in node1) exec taskset -c %d "$@";; esac; '
         'exec taskset -c %d "$@"' % (CORES[0], CORES[-1]), "sh"]
# Calls of each round, and the sizes in MiB.
WIRE = ((40, (1, 2, 4)), (8, (8, 16, 32, 64)))
SIZES = {"openmpi": (["-b", "8", "-e", "64K", "-n", "500"], ["-b", "128K", "-e", "1M", "-n", "50"],
                     ["-b", "2M", "-e", "64M", "-n", "5"]),
         "mpich": (["-b", "8", "-e", "1M", "-n", "20"], ["-b", "2M", "-e", "64M", "-n", "5"])}


def shown(values, form="%.2f"):
    return "%s [%s, %s]" % tuple(form % f(values) for f in (statistics.median, min, max))


def rows(text):
    """The rows of kolo's table: words by size in bytes."""
    table = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0].isdigit():
            table[int(words[0])] = words
    return table


def wire(cluster):
    program, lib = os.path.join(cluster.folder, "wire"), os.path.join(cluster.prefix, "lib")
    subprocess.run(["cc", "-O2", "-Wall", "-o", program, os.path.join(HERE, "wire.c"),
                    "-I", os.path.join(cluster.prefix, "include"), "-L", lib, "-lkolo",
                    "-Wl,-rpath," + lib], check=True)
    at = [cluster.address("node1"), cluster.address("node2")]
    for count, sizes in WIRE:
        started = []
        for rank in (0, 1):
            words = BOUND + [program, at[rank], at[1 - rank], "9100", str(count)]
            env = dict(KOLO_RANK=str(rank), KOLO_NRANKS="2", KOLO_COMM_ID=at[0] + ":4777")
            words += [str(size << 20) for size in sizes]
            started.append(cluster.start("node%d" % (rank + 1), words, env))
        for line in [each.wait(300).ok().out for each in started][0].splitlines():
            size, *times = (float(word) for word in line.split())
            rates = [[size / time / 1e3 for time in times[first::2]] for first in (0, 1)]
            print("wire: sendrecv of %d MiB %s GB/s each way, the simple program %s, ratio %s" % (
                size / (1 << 20), shown(rates[0]), shown(rates[1]),
                shown([a / b for a, b in zip(*rates)])))


def p2p(cluster):
    cluster.start("node2", ["iperf3", "-s", "--forceflush"]).wait_for("listening")
    iperf, kolo = [], {}
    for _ in range(RUNS):
        words = ["iperf3", "-c", cluster.address("node2"), "--bidir", "-t", "3", "-J"]
        end = json.loads(cluster.run("node1", words).ok().out)["end"]
        ways = [end[k]["bits_per_second"] / 8e9
                for k in ("sum_received", "sum_received_bidir_reverse")]
        iperf.append(sum(ways) / 2)
        words = [cluster.kolo, "perf", "sendrecv", "-b", "4M", "-e", "64M", "-f", "4",
                 "-n", "10", "-w", "2"]
        for size, row in rows(cluster.mpirun("openmpi", [1, 1], words, limit=100).ok().out).items():
            kolo.setdefault(size, []).append(float(row[6]))
    print("p2p: iperf3 --bidir %s GB/s each way" % shown(iperf))
    for size, rates in kolo.items():
        ratio = [a / b for a, b in zip(rates, iperf)]
        print("p2p: sendrecv of %d bytes %s GB/s, ratio %s" % (size, shown(rates), shown(ratio)))


def latency(cluster):
    program = os.path.join(cluster.folder, "pingpong")
    source = os.path.join(HERE, "pingpong.c")
    subprocess.run(["cc", "-O2", "-Wall", "-o", program, source], check=True)
    trips, sums = [], []
    for run in range(RUNS):
        port = str(9000 + run)
        cluster.start("node2", [program, "listen", port]).wait_for("listening")
        words = [program, cluster.address("node2"), port, "20000"]
        trips.append(float(cluster.run("node1", words).ok().out))
        words = [cluster.kolo, "perf", "all_reduce", "-b", "8", "-e", "8", "-n", "5000",
                 "-w", "500"]
        sums.append(float(rows(cluster.mpirun("openmpi", [1, 1], words).ok().out)[8][5]))
    print("latency: round trip %s us, all-reduce of 8 bytes %s us" % (shown(trips), shown(sums)))


def compare(cluster, mpi, bound=True):
    ratios = {}
    for _ in range(RUNS if mpi == "openmpi" else 1):
        for sizes in SIZES[mpi]:
            words = PEERS[mpi] + (BOUND if bound else ["env", "KOLO_WAIT=yield"])
            words += [cluster.kolo, "perf", "all_reduce", "-f", "2", "-w", "3",
                      "--compare", "mpi", "--wide"] + sizes
            program = cluster.start_mpirun(mpi, [2, 2], words)
            # MPI_Finalize may not return (tests/cluster/harness.py); what was measured is printed.
            program.wait_for("steps:", 600)
            for size, row in rows(program.text()[0]).items():
                ratios.setdefault(size, []).append(float(row[10]))
            program.wait(2 if mpi == "mpich" else 30)
    for size, values in ratios.items():
        print("%s%s: %d bytes %s" % (mpi, "" if bound else ", shared", size, shown(values)))


def versions(cluster, before):
    """Both versions by turns, the other way round in every second run."""
    ratios = {}
    kolos = [os.path.join(os.path.abspath(before), "bin", "kolo"), cluster.kolo]
    for run in range(RUNS):
        for sizes in SIZES["openmpi"]:
            times = {}
            for kolo in kolos if run % 2 == 0 else kolos[::-1]:
                words = [kolo, "perf", "all_reduce", "-f", "2", "-w", "3"] + sizes
                words = PEERS["openmpi"] + BOUND + words
                table = cluster.mpirun("openmpi", [2, 2], words, limit=600).ok().out
                times[kolo] = {size: float(row[5]) for size, row in rows(table).items()}
            for size, time_now in times[kolos[1]].items():
                ratios.setdefault(size, []).append(times[kolos[0]][size] / time_now)
    for size, values in ratios.items():
        print("before: %d bytes %s" % (size, shown(values)))


def main():
    if sys.argv[1:2] in (["--help"], ["-h"]):
        print(__doc__.strip())
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    prefix, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    parts = {"wire": wire, "p2p": p2p, "latency": latency,
             "openmpi": lambda c: compare(c, "openmpi"),
             "mpich": lambda c: compare(c, "mpich", False),
             "shared": lambda c: compare(c, "openmpi", False)}
    before = [word.removeprefix("before=") for word in wanted if word.startswith("before=")]
    if before:
        parts = {"before": lambda c: versions(c, before[0])}
        wanted = ["before"]
    for name, part in parts.items():
        if not wanted or name in wanted:
            with harness.make(prefix, harness.Options(2, 1, 1, "", False, 1800, True)) as cluster:
                part(cluster)
            sys.stdout.flush()
            time.sleep(1)


if __name__ == "__main__":
    main()
