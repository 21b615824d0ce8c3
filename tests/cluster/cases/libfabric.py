"""Jobs whose nodes are joined by libfabric, over its provider tcp: results, deaths, cut links."""
import time

from harness import case

OVER = {"KOLO_NET": "ofi", "KOLO_OFI_PROVIDER": "tcp", "KOLO_NET_LINK_TIMEOUT": "6"}


def together(cluster, layout):
    """Ranks that sum without end, each on its way over libfabric."""
    ranks = cluster.start_ranks(layout, [cluster.compile("steady.c")], OVER)
    for rank in ranks:
        rank.wait_for("together")
    return ranks


@case(nodes=2, limit=120)
def libfabric_carries_collectives_between_nodes(cluster):
    for collective in ("all_reduce", "alltoall", "scan"):
        words = [cluster.kolo, "perf", collective, "-b", "8", "-e", "2M", "-f", "512", "-n", "3"]
        with cluster.moved("node2") as m:
            ranks = cluster.start_ranks([2, 1], words, {**OVER, "KOLO_DEBUG": "info"})
            carried = "eth0 port 1 by the libfabric provider tcp"
            ranks[0].wait(60).ok().says("Out of bounds values : 0 OK", carried)
            for rank in ranks[1:]:
                rank.wait(60).ok()
        assert m.received > 1 << 20, vars(m)


@case(nodes=2, limit=60, alone=True)
def a_rank_that_is_killed_is_named_over_libfabric(cluster):
    ranks = together(cluster, [1, 1])
    cluster.sh("node2", "pkill -9 -n steady")
    start = time.monotonic()
    ranks[0].wait(30).failed().says("rank 1", "node2")
    assert time.monotonic() - start < 5, "at once"


@case(nodes=2, limit=60, alone=True)
def a_link_that_stays_away_is_an_error_over_libfabric(cluster):
    ranks = together(cluster, [2, 1])
    start = time.monotonic()
    cluster.link("node2", "down")
    for rank in ranks[:2]:
        rank.wait(30).failed().says("rank 2", "node2")
    assert time.monotonic() - start < 15, "twice the bound and a little"
    ranks[2].wait(30).failed()
