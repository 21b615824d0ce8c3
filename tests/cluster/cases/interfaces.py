"""What nodes have beside the network that joins them: bridges, tunnels, containers, dead cables,
several addresses. A job runs over what reaches, or says at its start which node lacks what."""
import os
import random

from harness import case

# Two channels take two rails where there are some.
TWO = {"KOLO_MIN_NCHANNELS": "2", "KOLO_ALGO": "allreduce:hier", "KOLO_START_TIMEOUT": "20"}
# Longer than any start may take, and shorter than a link that is waited for in vain.
LIMIT = 25


def veth(name, *commands):
    """An interface with a signal, and more commands for it."""
    peer = "p" + name[-12:]
    return ["ip link add %s type veth peer name %s" % (name, peer), "ip link set %s up" % peer,
            "ip link set %s up" % name, *commands]


def bridge(name, address, port=True):
    """A bridge as containers have them: with the host's end of one, or without a signal."""
    end = veth("veth" + name[-4:], "ip link set veth%s master %s" % (name[-4:], name))
    return ["ip link add %s type bridge" % name, "ip link set %s up" % name,
            "ip addr add %s dev %s" % (address, name), *(end if port else [])]


def plants(number):
    """What can be on node `number`: commands by names."""
    change = "ip -4 addr flush dev eth1; ip -6 addr flush dev eth1; "
    deaf = "nft add table inet t && nft 'add chain inet t i {type filter hook input priority 0;}'" \
        " && nft add rule inet t i iifname eth1 drop"
    return {
        "a container": veth("veth%02d" % number),
        "docker0 with containers": bridge("docker0", "172.17.0.1/16"),
        "docker0 without": bridge("docker0", "172.17.0.1/16", port=False),
        "a bridge": bridge("br-1f2e3d", "192.168.49.1/24"),
        "a tunnel": veth("tun0", "ip addr add 10.8.0.1/24 dev tun0"),
        "a tunnel that nobody holds": ["ip tuntap add dev tun1 mode tun", "ip link set tun1 up",
                                       "ip addr add 10.9.0.%d/24 dev tun1" % number],
        "the same address everywhere": veth("enp7s0", "ip addr add 192.168.50.1/24 dev enp7s0"),
        "a network of its own": veth("enp8s0", "ip addr add 192.168.10%d.5/24 dev enp8s0"
                                      % number),
        "another address before": [change + "ip addr add 172.30.%d.1/24 dev eth1 && ip addr add "
                                    "10.77.1.%d/24 dev eth1" % (number, number)],
        "no address but of the link": [change + "ip -6 addr add fe80::%d/64 dev eth1 nodad"
                                        % number],
        "IPv6 only": [change + "ip -6 addr add fd77:1::%d/64 dev eth1 nodad" % number],
        "a rail that is down": ["ip link set eth1 down"],
        "a rail that hears nothing": [deaf],
    }


def clear(cluster, nodes):
    """Takes back what was planted."""
    for node in nodes:
        number = int(node.removeprefix("node"))
        cluster.sh(node, "nft delete table inet t 2>/dev/null; for i in $(ls /sys/class/net); do "
                   "case $i in lo|eth?) ;; *) ip link del $i 2>/dev/null;; esac; done; "
                   "ip addr flush dev eth1; ip link set eth1 up; "
                   "ip addr add 10.77.1.%d/24 dev eth1; "
                   "ip -6 addr add fd77:1::%d/64 dev eth1 nodad" % (number, number))
        cluster.link(node, "up", rail=1)


def plant(cluster, node, names):
    """Puts these on a node."""
    known = plants(int(node.removeprefix("node")))
    cluster.sh(node, " && ".join("{ %s; }" % "; ".join(known[name]) for name in names))


def exchange(cluster, program, nodes, env=None, port=[4777]):
    """One rank on each of the nodes, over two channels, every element checked; the Results."""
    port[0] += 1
    words = [program, "all_reduce", "2", "8", str(1 << 20)]
    started = cluster.start_ranks([1] * nodes, words, dict(TWO, **(env or {})), port[0])
    return [one.wait(LIMIT) for one in started]


def runs(results, told):
    """Asserts that the ranks were right."""
    for result in results:
        assert result.status == 0, (told, [r.out + r.err for r in results])
        result.says("right")
    return "".join(result.out + result.err for result in results)


@case(nodes=2, rails=2, limit=100)
def what_containers_and_tunnels_bring_is_not_used(cluster):
    program = cluster.compile("exchange.c")
    for name in ("a container", "docker0 with containers", "a bridge", "a tunnel",
                 "the same address everywhere", "a tunnel that nobody holds"):
        for node in ("node1", "node2"):
            plant(cluster, node, [name])
        runs(exchange(cluster, program, 2), name)
        clear(cluster, ["node1", "node2"])


@case(nodes=2, rails=2, limit=100)
def a_rail_without_a_partner_is_left_out(cluster):
    program = cluster.compile("exchange.c")
    cluster.link("node2", "down", rail=1)
    said = runs(exchange(cluster, program, 2), "a pulled cable")
    assert said.count("eth1 of node2 has no signal") == 1, said
    cluster.link("node2", "up", rail=1)
    clear(cluster, ["node2"])
    plant(cluster, "node2", ["a rail that hears nothing"])
    said = runs(exchange(cluster, program, 2), "a filter")
    assert said.count("the data go over others") == 1, said
    assert "eth1 of node1 (10.77.1.1) does not reach eth1 of node2" in said, said


@case(nodes=2, rails=2)
def all_addresses_of_an_interface_count(cluster):
    program = cluster.compile("exchange.c")
    plant(cluster, "node1", ["another address before"])
    with cluster.moved("node2", rail=1) as m:
        runs(exchange(cluster, program, 2), "another address")
    assert m.sent > 1 << 18, vars(m)


@case(nodes=2, rails=2)
def an_exclusion_adds_to_the_usual_ones(cluster):
    """`^eth1` brings neither the loopback nor a bridge back."""
    program = cluster.compile("exchange.c")
    for node in ("node1", "node2"):
        plant(cluster, node, ["docker0 with containers"])
    runs(exchange(cluster, program, 2, {"KOLO_SOCKET_IFNAME": "^eth1"}), "^eth1")


@case(nodes=2, rails=2, limit=100)
def ranks_of_a_node_may_name_different_interfaces(cluster):
    """Where both lead to the others the job runs; where one does not, its start says whose."""
    program = cluster.compile("exchange.c")
    own = "KOLO_SOCKET_IFNAME==eth$((KOLO_RANK % 2)) exec \"$@\""
    words = ["sh", "-c", own, "sh", program, "all_reduce", "2", "8", str(1 << 20)]

    def results(port):
        started = cluster.start_ranks([2, 2], words, TWO, port)
        return [one.wait(LIMIT) for one in started]

    runs(results(4801), "two rails, both good")
    plant(cluster, "node2", ["a rail that hears nothing"])
    said = "".join(result.failed().err for result in results(4802))
    for words in ("no network joins", "rank 3 on node2 has eth1 10.77.1.2",
                  "rank 2, which is on node2 too, has eth0 10.77.0.2", "KOLO_SOCKET_IFNAME"):
        assert words in said, said


@case(nodes=3, rails=2, limit=90)
def what_a_node_lacks_is_said_at_the_start(cluster):
    """Ranks that meet by MPI over the first rail, which kolo may not use."""
    plant(cluster, "node2", ["a rail that is down", "a tunnel"])
    plant(cluster, "node1", ["a tunnel"])
    program = cluster.compile("over_mpi.c", "openmpi")
    env = {"KOLO_SOCKET_IFNAME": "^eth0", "OMPI_MCA_btl_tcp_if_include": "eth0"}
    said = cluster.mpirun("openmpi", [1, 1, 1], [program], env, LIMIT).failed()
    said.says("node2", "10.77.1.1", "10.8.0.1")


@case(nodes=4, rails=2, limit=200)
def drawn_interfaces(cluster):
    """The first rail joins all nodes; beside it anything may be."""
    seed = int(os.environ.get("KOLO_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    rounds = 20 if os.environ.get("KOLO_TEST_FULL") else 4
    print("KOLO_TEST_SEED=%d" % seed)
    program = cluster.compile("exchange.c")
    draw = random.Random(seed)
    for number in range(rounds):
        nodes = cluster.nodes[:draw.randint(2, 4)]
        told = []
        for node in nodes:
            chosen = draw.sample(sorted(plants(1)), draw.randint(0, 4))
            # Of those that change the second rail, or are called docker0, one.
            for word in ("eth1", "docker0"):
                alike = [name for name in chosen if word in str(plants(1)[name])]
                chosen = [name for name in chosen if name not in alike[1:]]
            plant(cluster, node, chosen)
            if "eth1" not in str([plants(1)[name] for name in chosen]) and draw.random() < 0.2:
                cluster.link(node, "down", rail=1)
                chosen.append("a pulled cable")
            told.append((node, chosen))
        print("%d: %s" % (number, told))
        runs(exchange(cluster, program, len(nodes)), ("seed %d" % seed, told))
        clear(cluster, nodes)
