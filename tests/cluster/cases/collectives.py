"""Collectives between nodes: right, and over the links that were meant."""
import time

from harness import MPIS, case

ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather",
       "scatter", "sendrecv", "scan", "barrier"]


def perf(cluster, mpi, layout, collective, *words, env=None, limit=40):
    """kolo perf, whose ranks check what they get."""
    argv = [cluster.kolo, "perf", collective, "-n", "3", "-w", "1", *words]
    program = cluster.start_mpirun(mpi, layout, argv, env)
    if mpi == "mpich":
        # Debian's MPICH may hang in MPI_Finalize between nodes, whatever ran before.
        program.wait_for("# steps: executed == planned", limit)
        assert "Out of bounds values : 0 OK" in "".join(program.text())
        program.end()
    else:
        program.wait(limit).ok().says("Out of bounds values : 0 OK", "executed == planned")


@case(nodes=3, limit=150)
def every_collective_on_uneven_nodes(cluster):
    for mpi, collective in zip(MPIS * len(ALL), ALL):
        with cluster.moved("node3") as m:
            perf(cluster, mpi, [2, 1, 2], collective, "-b", "8", "-e", "64K", "-f", "8192")
        # The ranks of node3 take part, and nothing but its link leads to them. The root of a gather
        # or a reduce is elsewhere: they send what they have.
        moved = m.sent if collective in ("gather", "reduce") else m.received
        assert moved > (1000 if collective == "barrier" else 64 << 10), (collective, vars(m))


@case(nodes=2, limit=90)
def two_nodes_with_every_type(cluster):
    for mpi in MPIS:
        with cluster.moved("node2") as m:
            perf(cluster, mpi, [2, 2], "all_reduce", "-b", "8", "-e", "8", "-d", "all", "-o", "all")
        assert m.received > 1000, vars(m)


@case(nodes=2, limit=150)
def buffers_are_read_where_they_lie_inside_the_nodes(cluster):
    """Those that were registered, or come from koloMemAlloc; the table says so, and results are
    right. Private ones pass slots."""
    for kind, is_read in (("mapped", True), ("registered", True), ("private", False)):
        words = [cluster.kolo, "perf", "all_reduce", "--buffers", kind, "-b", "256K", "-e", "4M",
                 "-f", "4", "-n", "3", "-w", "1", "--wide"]
        out = cluster.mpirun("openmpi", [2, 2], words).ok().out
        assert "Out of bounds values : 0 OK" in out and "executed == planned" in out, out
        rows = [line.split()[-1] for line in out.splitlines() if line.strip()[:1].isdigit()]
        assert len(rows) == 3 and all(row.endswith("/near") == is_read for row in rows), out
    program = cluster.compile("../mpi/registered.c", "openmpi")
    assert cluster.mpirun("openmpi", [2, 2], [program], limit=90).ok().out == "all right\n"


@case(nodes=2, limit=60)
def registrations_that_nobody_reads_are_a_line_of_the_log(cluster):
    words = [cluster.kolo, "perf", "all_reduce", "--buffers", "registered", "-b", "256K", "-e",
             "256K", "-n", "1", "-w", "0"]
    for layout, env, why in (([1, 1], {}, "no other process of this node has a rank"),
                             ([2, 2], {"KOLO_DIRECT": "off"}, "the setting direct is off"),
                             ([2, 2], {"KOLO_ALGO": "allreduce:rd"}, "not read where they lie")):
        env = ["%s=%s" % it for it in env.items()]
        done = cluster.mpirun("openmpi", layout, ["env", "KOLO_DEBUG=info", *env] + words).ok()
        lines = [line for line in done.err.splitlines() if why in line]
        assert len(lines) == 1, (why, done.err)


@case(nodes=4, rate="1gbit", limit=120, alone=True)
def little_more_than_the_least_bytes_cross_each_link(cluster):
    """Each of n nodes must send and receive 2 (n - 1) / n of the data: so does the hierarchy."""
    size = 48 << 20
    words = ["env", "KOLO_ALGO=allreduce:hier", cluster.kolo, "perf", "all_reduce",
             "-b", str(size), "-e", str(size), "-w", "0", "-c", "0", "-n"]

    def bytes_of(calls):
        before = [cluster.counters(node) for node in cluster.nodes]
        cluster.mpirun("openmpi", [2, 2, 2, 2], words + [str(calls)], limit=100).ok()
        after = [cluster.counters(node) for node in cluster.nodes]
        return [b - a for old, new in zip(before, after) for a, b in zip(old, new)]

    # Two measurements, out of place and in place: an untimed call and a timed one, or an untimed
    # one, two timed ones, and two more whose single times are taken.
    few, many = bytes_of(1), bytes_of(2)
    least = 2 * 3 * size // 4
    ratios = [(more - less) / (2 * (5 - 2)) / least for less, more in zip(few, many)]
    print("bytes on each link, of the least: " + " ".join("%.3f" % ratio for ratio in ratios))
    assert all(0.99 < ratio <= 1.05 for ratio in ratios), ratios


@case(nodes=2, limit=60)
def ranks_that_come_late(cluster):
    """The highest rank first, and the others seconds apart."""
    program = cluster.compile("without_mpi.c")
    ranks, places = {}, ["node1", "node1", "node2"]
    for rank in (2, 1, 0):
        env = {"KOLO_RANK": str(rank), "KOLO_NRANKS": "3",
               "KOLO_COMM_ID": cluster.address("node1") + ":4777"}
        ranks[rank] = cluster.start(places[rank], [program, "env", "1"], env)
        time.sleep(5 if rank else 0)
    for rank in ranks:
        ranks[rank].wait(30).ok().says("%d of 3, sum 6" % rank)
