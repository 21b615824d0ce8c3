"""The emulated cluster does what the other tests rely on: nodes, ranks, counters, faults."""
import time

from harness import MPIS, case, layout


@case()
def nodes_look_like_machines_of_their_own(cluster):
    kinds = ("hostname", "cat /proc/sys/kernel/random/boot_id", "cat /etc/machine-id")
    for kind in kinds:
        assert len({cluster.sh(node, kind) for node in cluster.nodes}) == 2, kind
    cluster.sh("node1", "touch /dev/shm/mine /tmp/mine")
    assert "mine" not in cluster.sh("node2", "ls /dev/shm /tmp")


@case(nodes=3)
def mpirun_places_uneven_ranks(cluster):
    for mpi in MPIS:
        out = cluster.mpirun(mpi, [3, 1, 2], ["hostname"]).ok().out
        assert sorted(out.split()) == layout([3, 1, 2]), (mpi, out)
        env = {"KOLO_PROBE": "seen"}
        for _ in range(3):
            probe = cluster.mpirun(mpi, [1, 0, 1], ["printenv", "KOLO_PROBE"], env)
            # MPICH's mpirun may be ended by SIGPIPE where processes end as soon as they began.
            if probe.status != 128 + 13:
                break
        out = probe.ok().out
        assert out.split() == ["seen"] * 2, (mpi, out)


@case()
def ranks_without_launcher_know_who_they_are(cluster):
    words = ["sh", "-c", "echo $(hostname) $KOLO_RANK $KOLO_NRANKS $KOLO_COMM_ID"]
    lines = [result.ok().out.split() for result in cluster.ranks([1, 2], words)]
    for rank, (line, node) in enumerate(zip(lines, layout([1, 2]))):
        assert line == [node, str(rank), "3", "10.77.0.1:4777"], line


def send(cluster, address, size, limit=30, to="node2"):
    """Sends `size` bytes from node1 to an address of another node with iperf3; the seconds."""
    server = cluster.start(to, ["iperf3", "-s", "-1", "-B", address])
    deadline = time.monotonic() + 10
    while (address, 5201) not in cluster.listening(to):
        assert time.monotonic() < deadline
    begin = time.monotonic()
    cluster.run("node1", ["iperf3", "-c", address, "-n", str(size), "-O", "0"], limit=limit).ok()
    seconds = time.monotonic() - begin
    server.wait(10).ok()
    return seconds


@case(rails=2)
def counters_show_which_rail_carried_the_bytes(cluster):
    size = 16 << 20
    for rail, other in ((0, 1), (1, 0)):
        with cluster.moved("node1", rail) as used, cluster.moved("node1", other) as idle, \
                cluster.moved("node2", rail) as peer:
            send(cluster, cluster.address("node2", rail), size)
        # iperf3 throws away what is still in its socket when it has written enough.
        for count in (used.sent, peer.received):
            assert size * 0.6 < count < size * 1.5, vars(used)
        assert idle.sent < size // 100, vars(idle)


@case(rate="100mbit")
def a_shaped_link_is_as_slow_as_asked(cluster):
    size = 5 << 20                     # 0.42 s at 100 Mbit/s
    slow = send(cluster, cluster.address("node2"), size)
    assert slow > 0.35, slow


@case(nodes=4, switches=2)
def a_slow_uplink_slows_what_crosses_it(cluster):
    cluster.rate("switch1", "20mbit")
    size = 2 << 20                     # 0.84 s at 20 Mbit/s, less what the buckets hold
    slow = send(cluster, cluster.address("node3"), size, to="node3")
    assert slow > 0.45, slow


def reaches(cluster, seconds=1):
    """Whether node1 can open a connection to node2 (port 22 refuses, and so answers)."""
    script = ("import socket\ns = socket.socket()\ns.settimeout(%d)\n"
              "try:\n    s.connect(('10.77.0.2', 22))\n"
              "except ConnectionRefusedError:\n    print('there')\n"
              "except OSError as e:\n    print('lost', e)\n" % seconds)
    return "there" in cluster.run("node1", ["python3", "-c", script]).ok().out


@case()
def links_are_pulled_and_plugged(cluster):
    assert reaches(cluster)
    cluster.link("node2", "down")
    assert not reaches(cluster)
    cluster.link("node2", "up")
    assert reaches(cluster, 10)


@case()
def a_killed_node_is_gone_until_it_boots(cluster):
    sleeper = cluster.start("node2", ["sleep", "1000"])
    cluster.sh("node1", "true")
    cluster.kill_node("node2")
    assert sleeper.wait(10).status not in (0, None)
    assert not reaches(cluster)
    cluster.boot_node("node2")
    assert reaches(cluster, 10)


@case(slurm=True)
def srun_starts_tasks_on_the_nodes(cluster):
    out = cluster.srun(["-N2", "-n4", "--mpi=none"], ["hostname"]).ok().out
    assert sorted(set(out.split())) == ["node1", "node2"] and len(out.split()) == 4, out
