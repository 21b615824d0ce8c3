"""Devices of several nodes, made of software: data through memory of the host and sockets."""
import time

from harness import case

RIGHT = "Out of bounds values : 0 OK"


def perf(cluster, *words):
    """kolo perf on two devices of each node."""
    return [cluster.kolo, "softgpu", "-n", "2", "--", cluster.kolo, "perf", "all_reduce",
            "--device", "cuda", *words]


@case(slurm=True, limit=150)
def devices_of_two_nodes(cluster):
    size = 1 << 17
    for kind in ("pmix", "none"):
        with cluster.moved("node2") as m:
            run = cluster.srun(["-N2", "-n4", "--mpi=" + kind],
                               perf(cluster, "-b", "8", "-e", str(size), "-f", str(size // 8),
                                    "-n", "2", "-w", "1"))
            run.ok().says(RIGHT, "among 4 ranks of 2 nodes", "executed == planned")
        assert m.sent > size and m.received > size, (kind, vars(m))


@case(slurm=True, limit=150)
def graphs_of_devices_of_two_nodes(cluster):
    run = cluster.srun(["-N2", "-n2"], perf(cluster, "-b", "1K", "-e", "64K", "-f", "8", "-n", "5",
                                            "-G", "20"))
    run.ok().says(RIGHT)


@case(nodes=2, limit=90)
def the_death_of_a_rank_ends_kernels_on_another_node(cluster):
    ranks = cluster.start_ranks([1, 1], perf(cluster, "-b", "64K", "-e", "64K", "-n", "1000000"))
    with cluster.moved("node2") as m:
        time.sleep(8)
    assert m.sent > 1 << 18, ("they sum", vars(m), ranks[0].text())
    start = time.monotonic()
    cluster.sh("node2", "pkill -9 -n kolo")
    ranks[0].wait(30).failed().says("rank 1", "node2")
    assert time.monotonic() - start < 10, "kernels have left"
