"""kolo info and kolo doctor say which way data take between nodes, as communicators then do."""
import itertools
import json
import os

from harness import case

OVER_OFI = {"KOLO_OFI_PROVIDER": "tcp"}
PORTS = itertools.count(4777)


def told(cluster, words, env=None, layout=(2, 1), tool="info"):
    """What rank 0 of ranks without a launcher says."""
    ranks = cluster.start_ranks(layout, [cluster.kolo, tool, *words], env, next(PORTS))
    return [rank.wait(40) for rank in ranks][0]


def log(cluster, env, layout=(2, 1)):
    """The log of a communicator of such ranks."""
    words = [cluster.kolo, "perf", "all_reduce", "-b", "1M", "-e", "1M", "-n", "2"]
    ranks = cluster.start_ranks(layout, words, {**env, "KOLO_DEBUG": "info"}, next(PORTS))
    return [rank.wait(40) for rank in ranks][0]


@case(nodes=2, rails=2, limit=90)
def the_ways_of_a_job_are_those_that_it_takes(cluster):
    said = told(cluster, []).ok()
    said.says("on a node (1 pair): memory of the node", "not verbs: ",
              "between nodes (2 pairs): socket over eth0, eth1; ")
    log(cluster, {}).ok().says("NET socket: eth0 10.77.0.1, eth1 10.77.1.1")
    pair = told(cluster, ["--ranks", "1,2"]).ok().out.splitlines()
    assert pair[0].startswith("ranks 1 and 2 (on node1 and node2): socket over eth0, eth1"), pair
    told(cluster, ["--ranks", "0,1"]).ok().says("ranks 0 and 1 (on node1): memory of the node")
    # One rail is in another subnet on the second node: the job goes by the other one.
    cluster.sh("node2", "ip addr del 10.77.1.2/24 dev eth1; ip addr flush dev eth1;"
               " ip addr add 10.88.1.2/24 dev eth1")
    told(cluster, []).ok().says("between nodes (2 pairs): socket over eth0; ")
    # MPI carries data where it is named.
    over = {"KOLO_NET": "mpi"}
    said = cluster.mpirun("openmpi", [1, 1], [cluster.kolo, "info"], over).ok()
    said.says("between nodes (1 pair): mpi (that of openmpi, by koloCommInitMPI); data pass slots")


@case(nodes=2, limit=90)
def a_node_without_the_library_is_named(cluster):
    for over in ({"KOLO_NET": "ofi", **OVER_OFI}, OVER_OFI):
        said = told(cluster, [], over).ok()
        said.says("between nodes (2 pairs): ofi over eth0 (the libfabric provider tcp")
        log(cluster, over).ok().says("eth0 port 1 by the libfabric provider tcp")
        told(cluster, [], over, (1, 1), "doctor").says("2 ranks on 2 nodes: ",
                                                       "ofi over eth0 (the libfabric provider tcp")
    library = os.path.join(cluster.prefix, "lib", "kolo", "libkolo_ofi.so.0")
    cluster.sh("node2", "mount --bind /dev/null $(realpath %s)" % library)
    # By itself the second node would go over sockets, which the first one does not.
    failed = told(cluster, [], OVER_OFI).ok()
    failed.says("none, as ranks would take different networks: ofi on node1; socket on node2",
                "not ofi on node2: no libfabric here: ")
    log(cluster, OVER_OFI).failed().says("KOLO_NET")
    finding = ["network: node2: ranks would use different ones", "not ofi on node2: ", "; fix: "]
    found = told(cluster, [], OVER_OFI, (1, 1), "doctor").failed().out.splitlines()
    assert len(found) == 1 and all(word in found[0] for word in finding), found
    # By name it has none at all.
    named = {"KOLO_NET": "ofi", **OVER_OFI}
    found = told(cluster, [], named, (1, 1), "doctor").failed().out.splitlines()
    assert len(found) == 1 and "none on node2 (not ofi on node2: " in found[0], found


@case(nodes=2, limit=60)
def a_plugin_of_the_site_is_named_and_not_loaded(cluster):
    """It would end the process that loads it."""
    source = os.path.join(cluster.folder, "fatal.c")
    with open(source, "w") as f:
        f.write("#include <unistd.h>\n"
                "struct { char *name; void *calls[32]; } ncclNetPlugin_v8 = { \"fatal\", { 0 } };\n"
                "__attribute__((constructor)) static void load(void) { _exit(86); }\n")
    plugin = os.path.join(cluster.folder, "libnccl-net-fatal.so")
    cluster.sh("node1", "cc -shared -fPIC -o %s %s" % (plugin, source))
    over = {"KOLO_NET_PLUGIN": plugin}
    said = told(cluster, ["--json"], over, (1, 1), "doctor").ok()
    way = json.loads(said.out)["ways"][-1]
    assert way["way"] == "plugin (%s, which is not loaded here)" % plugin, way
    cluster.sh("node2", "mount --bind /dev/null %s" % plugin)
    found = told(cluster, [], over, (1, 1), "doctor").failed().out
    assert "network: node2: ranks would use different ones" in found, found
