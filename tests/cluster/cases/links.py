"""Slow links, several rails, a rank that reads late, and many ranks on few links."""
import os
import re

from harness import case

MIB = 1 << 20


def exchange(cluster, layout, call, rounds, *sizes, env=None):
    """Ranks that check every element of what they get. Returns what they said."""
    words = [cluster.compile("exchange.c"), call, str(rounds), *(str(size) for size in sizes)]
    results = cluster.ranks(layout, words, env, limit=40)
    for result in results:
        result.ok().says("right")
    return "".join(result.out + result.err for result in results)


@case(nodes=2, rate="100mbit")
def a_slow_link_of_100_mbit(cluster):
    exchange(cluster, [2, 2], "all_reduce", 5, 8, 64 << 10)
    rounds = 6
    with cluster.moved("node1") as m:
        exchange(cluster, [2, 2], "all_reduce", rounds, MIB)
    # Of two nodes, each must send and receive as much as one rank has.
    for count in (m.sent, m.received):
        assert rounds * MIB <= count <= 1.3 * rounds * MIB, vars(m)


@case(nodes=4, switches=2)
def a_slow_uplink_between_switches(cluster):
    cluster.rate("switch1", "50mbit")
    exchange(cluster, [1, 2, 1, 1], "all_reduce", 2, 8, 64 << 10, MIB)
    exchange(cluster, [1, 2, 1, 1], "broadcast", 5, 8, 64 << 10, MIB // 2)


@case(nodes=4, switches=2)
def a_root_that_leaves_at_once(cluster):
    """What it has sent still crosses a slow link when it has destroyed its communicator."""
    cluster.rate("switch1", "50mbit")
    exchange(cluster, [1, 2, 1, 1], "broadcast_and_leave", 5, MIB // 2)


@case(nodes=2, rails=2)
def both_rails_carry_data(cluster):
    """Each channel has a rail; messages between two ranks take one channel."""
    # The hierarchy splits its data over the channels; a chain in the order of ranks has one.
    size, rounds = 8 * MIB, 3
    env = {"KOLO_MIN_NCHANNELS": "2", "KOLO_ALGO": "allreduce:hier"}
    for call, layout, share in (("all_reduce", [2, 2], 0.25), ("sendrecv", [1, 1], 0)):
        with cluster.moved("node1", 0) as first, cluster.moved("node1", 1) as second:
            exchange(cluster, layout, call, rounds, size, env=env)
        for way in ("sent", "received"):
            rails = [vars(rail)[way] / (rounds * size) for rail in (first, second)]
            assert min(rails) >= share and 1 <= sum(rails) <= 1.3, (call, way, rails)


@case(nodes=2, rails=2)
def one_rank_of_each_rail_sends_for_its_node(cluster):
    """In other processes than those that have something to send, and longer than its own."""
    env = {"KOLO_PXN": "always", "KOLO_MIN_NCHANNELS": "2", "KOLO_DEBUG": "TRACE"}
    size, rounds = MIB, 6
    with cluster.moved("node1", 0) as first, cluster.moved("node1", 1) as second:
        said = exchange(cluster, [3, 3], "all_reduce", rounds, size, env=env)
    through = set(re.findall(r"rank (\d) sends through rank (\d)", said))
    ways = {(rank, proxy) for rank in "012" for proxy in "01" if rank != proxy}
    ways |= {(rank, proxy) for rank in "345" for proxy in "34" if rank != proxy}
    assert through == ways, said
    for way in ("sent", "received"):
        rails = [vars(rail)[way] / (rounds * size) for rail in (first, second)]
        assert min(rails) >= 0.25 and 1 <= sum(rails) <= 1.4, (way, rails)
    exchange(cluster, [3, 2], "all_reduce", 50, 8, 5000, 64 << 10, env=env)
    cluster.rate("node1", "50mbit")
    exchange(cluster, [3, 2], "broadcast_and_leave", 5, MIB // 2, env=env)


@case(nodes=2)
def a_process_that_sends_for_others_ends_after_them(cluster):
    """Though its own rank has left long before; unless it has failed, or they have stopped."""
    program = cluster.compile("proxy_ends_first.c")
    # In the first sum ranks 1 and 3 are partners, so that each sees its connection end; messages
    # take the same one.
    env = {"KOLO_PXN": "always", "KOLO_ALGO": "allreduce:rd", "KOLO_MAX_NCHANNELS": "1"}
    for port, way in ((4777, "sends"), (4778, "aborts"), (4779, "fails")):
        ranks = cluster.start_ranks([2, 2], [program, way], env, port)
        if way == "fails":
            assert ranks[0].wait(20).status == 3, ranks[0].text()
        ranks[1].wait_for("soon")
        assert way == "fails" or ranks[0].process.poll() is None, (way, ranks[0].text())
        results = [rank.wait(20) for rank in ranks]
        if way == "sends":
            assert all(result.ok().says("right") for result in results)
            continue
        if way == "aborts":
            results[0].ok()
            results[3].failed().says("rank 1 called CommAbort")
        else:
            results[1].failed().says("rank 0")
            # The lookout that could tell why has ended, too.
            results[3].failed().says("node1")


@case(nodes=2)
def what_happens_is_told_where_the_lookout_has_left(cluster):
    """Those who wait for a rank that dies or leaves, or whose node dies, have no link to it."""
    program = cluster.compile("proxy_ends_first.c")
    dies, leaves = (cluster.start_ranks([2, 2], [program, way], None, port)
                    for port, way in ((4777, "dies"), (4778, "leaves")))
    results = [rank.wait(20) for rank in dies]
    results[0].ok()
    results[1].failed()
    results[2].failed().says("rank 1 died", "node1")
    results[3].ok()
    results = [rank.wait(20) for rank in leaves]
    results[2].failed().says("rank 1", "has let go of the communicator")
    assert all(results[i].ok() for i in (0, 1, 3))
    waits = cluster.start_ranks([2, 2], [program, "waits"], None, 4779)
    waits[1].wait_for("soon")
    cluster.kill_node("node2")
    waits[1].wait(20).failed().says("rank 2", "node2")
    waits[0].wait(20).ok()


@case(nodes=2)
def a_slow_reader_is_waited_for(cluster):
    """For longer than a link may be silent, and without memory for what waits."""
    seconds, env = 7, {"KOLO_NET_LINK_TIMEOUT": "3"}
    program = cluster.compile("slow_reader.c")
    ways = {way: cluster.start_ranks([2, 1], [program, seconds, way], env, 4777 + i)
            for i, way in enumerate(("together", "small", "broadcast"))}
    for way, ranks in ways.items():
        out = [rank.wait(30).ok().says("right").out for rank in ranks][0]
        grew, waited = re.search(r"grew (-?\d+) KiB, waited ([\d.]+) s", out).groups()
        assert int(grew) < 8 << 10 and float(waited) > seconds - 0.5, (way, out)


@case(nodes=4, limit=120, alone=True)
def five_hundred_ranks_meet(cluster):
    """In one communicator, 16 threads of each of 32 processes."""
    processes, threads = 32, 16
    program, file = cluster.compile("crowd.c"), os.path.join(cluster.folder, "id")
    crowd = [cluster.start("node%d" % (p * 4 // processes + 1),
                           [program, file, p, processes, threads]) for p in range(processes)]
    told = []
    for process in crowd:
        out = process.wait(100).ok().out
        told += re.findall(r"rank (\d+) right: made in ([\d.]+) s, .*ended in ([\d.]+) s", out)
    ranks = sorted(int(rank) for rank, _, _ in told)
    assert ranks == list(range(processes * threads)), ranks
    print("made in %.1f s, ended in %.1f s"
          % tuple(max(float(rank[i]) for rank in told) for i in (1, 2)))
