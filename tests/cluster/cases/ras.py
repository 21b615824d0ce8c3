"""kolo ras on any node of a job names who holds all of it up, on whichever node that is."""
import json
import time

from harness import case
from cases.faults import together


def first(cluster, node, words, limit=15):
    """The first line of kolo ras on that node, once it has all these words."""
    said, start = None, time.monotonic()
    while time.monotonic() - start < limit:
        begin = time.monotonic()
        said = cluster.run(node, [cluster.kolo, "ras"])
        took = time.monotonic() - begin
        line = said.out.splitlines()[0] if said.out else ""
        if all(word in line for word in words):
            return took
        time.sleep(0.3)
    raise AssertionError("%s: not said: %s\n%s%s" % (node, words, said.out, said.err))


@case(nodes=3, limit=90)
def a_stopped_rank_is_named_on_every_node(cluster):
    ranks = together(cluster, [2, 2, 1])
    # The youngest process of a node, and the oldest, which is its lookout, are any of its ranks.
    for which in ("-n", "-o"):
        cluster.sh("node2", "pkill -STOP %s steady" % which)
        pid = cluster.run("node2", ["pgrep", which, "steady"]).out.strip()
        for node in ("node2", "node1", "node3"):
            words = [" on node2 (pid %s)" % pid]
            # Where only the lookout knows of the others, a node does not hear why.
            first(cluster, node, words)
        first(cluster, "node2", ["its process is stopped"])
        cluster.sh("node2", "pkill -CONT %s steady" % which)
        time.sleep(0.5)
        for rank in ranks:
            assert rank.process.poll() is None, rank.text()
    # Nobody is blamed who is on time, and each rank tells of itself.
    said = json.loads(cluster.run("node3", [cluster.kolo, "ras", "--json"]).ok().out)
    rows = said["table"]["comms"][0]["rows"]
    assert [row["rank"] for row in rows] == [0, 1, 2, 3, 4], said
    places = [row["place"].split(" ")[0] for row in rows]
    assert places == ["node1", "node1", "node2", "node2", "node3"], said
    assert all(row["process"] is not None for row in rows), said


@case(nodes=3, limit=60)
def a_node_of_which_nothing_is_heard_is_named(cluster):
    together(cluster, [1, 2, 1], {"KOLO_NET_LINK_TIMEOUT": "60"})
    cluster.link("node3", "down")
    for node in ("node1", "node2"):
        first(cluster, node, ["rank 3 on node3", "nothing is heard from its process on node3"])
