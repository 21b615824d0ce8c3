"""Links that are pulled, nodes that die, and strangers, while a job runs."""
import time

from harness import case

# The least that a system's probes can tell.
BOUND = {"KOLO_NET_LINK_TIMEOUT": "6"}
JUNK = """
import os, socket, sys
for port in sys.argv[2:]:
    for junk in (b"", b"GET / HTTP/1.0\\r\\n\\r\\n", os.urandom(64), os.urandom(5000),
                 b"KOLOnet\\xf1" + os.urandom(200), b"kolotok2" + bytes(40)):
        try:
            with socket.create_connection((sys.argv[1], int(port)), 2) as stranger:
                stranger.sendall(junk)
        except OSError:
            pass
"""


def together(cluster, layout, env=None, words=()):
    """Ranks that sum without end."""
    ranks = cluster.start_ranks(layout, [cluster.compile("steady.c"), *words], env)
    for rank in ranks:
        rank.wait_for("together")
    return ranks


@case(nodes=2, limit=60)
def a_link_that_comes_back_is_survived(cluster):
    ranks = together(cluster, [2, 1])
    cluster.link("node2", "down")
    time.sleep(3)
    cluster.link("node2", "up")
    with cluster.moved("node2") as m:
        time.sleep(4)
    assert m.sent > 100_000, "they go on"
    for rank in ranks:
        assert rank.process.poll() is None, rank.text()


@case(nodes=3, limit=60, alone=True)
def a_link_that_stays_away_is_an_error_that_names_the_node(cluster):
    ranks = together(cluster, [1, 2, 1], BOUND)
    start = time.monotonic()
    cluster.link("node3", "down")
    for rank in ranks[:3]:
        rank.wait(30).failed().says("rank 3", "node3")
    assert time.monotonic() - start < 15, "twice the bound and a little"
    ranks[3].wait(30).failed().says("node3")


@case(nodes=3, limit=60)
def a_node_that_dies_is_named(cluster):
    ranks = together(cluster, [2, 1, 1], BOUND)
    cluster.kill_node("node3")
    for rank in ranks[:3]:
        rank.wait(30).failed().says("rank 3", "node3")


@case(nodes=3, limit=60, alone=True)
def a_process_that_dies_is_named_on_all_nodes(cluster):
    ranks = together(cluster, [1, 2, 2])
    cluster.sh("node2", "pkill -9 -n steady")
    start = time.monotonic()
    for rank in (ranks[0], ranks[3], ranks[4]):
        rank.wait(30).failed().says("node2")
    assert time.monotonic() - start < 5, "at once"


@case(nodes=2, limit=60, alone=True)
def a_process_that_dies_while_its_mate_reads_it_is_named(cluster):
    ranks = together(cluster, [2, 2], words=["400000"])
    time.sleep(0.5)
    cluster.sh("node2", "pkill -9 -n steady")
    start = time.monotonic()
    for rank in ranks[:2]:
        rank.wait(30).failed().says("node2")
    assert time.monotonic() - start < 5, "at once"
    told = ["node2" in rank.wait(30).out for rank in ranks[2:]]
    assert sum(told) == 1, "and its mate says so"


@case(nodes=2, limit=60)
def strangers_do_no_harm(cluster):
    ranks = together(cluster, [2, 1])
    for node, other in (("node1", "node2"), ("node2", "node1")):
        ports = sorted({str(port) for _, port in cluster.listening(node)})
        assert ports, "somebody listens"
        cluster.run(other, ["python3", "-c", JUNK, cluster.address(node), *ports]).ok()
    time.sleep(1)
    for rank in ranks:
        assert rank.process.poll() is None, rank.text()
        assert "wrong" not in "".join(rank.text())
