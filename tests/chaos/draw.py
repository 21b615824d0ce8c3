"""What a round does, drawn from its seed. A pure function of the seed and of what the machine can
do, so that a seed replays its round (but for the moment at which a fault strikes)."""
import collections
import random

Round = collections.namedtuple(
    "Round", "seed start network layout hosts env colors calls faults aborts limit")
# `rank` is that which the fault hits (or whose link), `at` the number of its calls after which it
# strikes, `delay` and `length` are seconds.
Fault = collections.namedtuple("Fault", "kind rank at delay length detail")
Call = collections.namedtuple("Call", "name type op count root flags")

# Faults that a job must survive with the right results, and faults that end it. In a job under
# mpirun, links carry the MPI's own messages too, and its ports are not ours to spoil; MPICH's ends
# the survivors of a process that was killed, whatever -disable-auto-cleanup says.
BENIGN = {"stop": 4, "garbage": 3, "pull": 3, "slow": 2, "loss": 2}
FATAL = {"kill": 6, "abort": 2, "exit": 1, "quit": 1, "leave": 1, "cut": 1, "power": 1}
NEED_NODES = {"pull", "slow", "loss", "cut", "power"}
NOT_UNDER_MPI = {"garbage", "pull", "cut", "power", "exit", "quit"}

# What carries data between nodes, and the settings that choose it: by name, so that it is an error
# where it cannot be had. Sockets are found without.
NETWORKS = {"socket": 4, "ofi": 3, "mpi": 3, "shm": 3}
CHOOSES = {"socket": {}, "ofi": {"KOLO_NET": "ofi", "KOLO_OFI_PROVIDER": "tcp"},
           "mpi": {"KOLO_NET": "mpi"}, "shm": {"KOLO_NET": "ofi", "KOLO_OFI_PROVIDER": "shm"}}

TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6,
         "float32": 7, "float64": 8, "bfloat16": 9}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "bor": 17, "bxor": 18}
NAMES = {"all_reduce": 6, "reduce": 2, "broadcast": 3, "all_gather": 3, "gather": 1,
         "reduce_scatter": 3, "scatter": 1, "scan": 1, "all_to_all": 2, "shift": 3, "barrier": 1,
         "all_gather_v": 1, "all_to_all_v": 1}
REDUCE = {"all_reduce", "reduce", "reduce_scatter", "scan"}
IN_PLACE = {"all_reduce", "broadcast", "all_gather"}
AS_REQUEST = {"all_reduce", "broadcast"}
ALGORITHMS = ("ring oneshot tree twoshot rd hd binomial chain pat bruck pairwise dissemination "
              "nvls nvlstree collnet hier leader ordered").split()
LAYOUTS = [[1, 1], [2, 1], [1, 2], [2, 2], [3, 1], [1, 3], [3, 3], [2, 3], [4, 0], [0, 3]]
# Of net_link_timeout, where a link is cut for good: the least that a system's probes can tell.
LINK_TIMEOUT = 6


def weighted(r, weights):
    return r.choices(list(weights), list(weights.values()))[0]


def draw(seed, can, over=None):
    """`can` has the words nodes, loss, ofi, shm, openmpi, mpich where these can be had; `over` is
    the network of all rounds, if it is not to be drawn."""
    r = random.Random(seed)
    start = weighted(r, {"plain": 8, "openmpi": 2, "mpich": 1})
    start = start if start in can else "plain"
    if over == "mpi" and start == "plain":
        start = "openmpi"
    nodes = "nodes" in can
    layout = r.choice(LAYOUTS) if nodes else [r.randint(2, 5)]
    if start != "plain" and nodes and 0 in layout:
        layout = [2, 2]                  # mpirun starts on node1
    hosts = r.choice([None, None, 1, 2]) if not nodes else None
    network = over or draw_network(seed, can, start)
    if network == "shm":
        hosts = 2
    if network == "mpi":
        layout = r.choice([[1, 1], [2, 1], [2, 2]])     # MPI's ranks poll, and share the cores
    faults = draw_faults(r, can, start, layout)
    env = draw_env(r, nodes, faults)
    env.update(CHOOSES[network])
    colors = r.choice([0, 0, 2, 3])
    calls = [draw_call(r, colors, sum(layout)) for _ in range(r.randint(2, 7))]
    slow = any(f.kind in ("slow", "loss") for f in faults)
    if slow:
        calls = [call._replace(count=min(call.count, 20_000)) for call in calls]
    # Seconds without any movement: what was lost on a link is noticed after twice its timeout.
    limit = 30 + 3 * LINK_TIMEOUT * ("KOLO_NET_LINK_TIMEOUT" in env)
    return Round(seed, start, network, layout, hosts, env, colors, calls, faults, r.random() < 0.5,
                 limit)


def networks(can):
    """Networks that the machine has."""
    needs = {"socket": True, "ofi": "ofi" in can, "mpi": "openmpi" in can, "shm": "shm" in can}
    return [network for network in NETWORKS if needs[network]]


def draw_network(seed, can, start):
    """By a stream of its own, so that the same calls are drawn over each network."""
    possible = {network: NETWORKS[network] for network in networks(can)
                if network != "mpi" or start != "plain"}
    return weighted(random.Random("network %d" % seed), possible)


def draw_faults(r, can, start, layout):
    """Up to two that do no harm, and in half of the rounds one that ends the job."""
    two = sum(n > 0 for n in layout) == 2

    def possible(kinds):
        return {kind: weight for kind, weight in kinds.items()
                if (kind not in NEED_NODES or ("nodes" in can and two))
                and (kind != "loss" or "loss" in can)
                and not (start != "plain" and kind in NOT_UNDER_MPI)
                and not (start == "mpich" and kind == "kill")}
    faults = []
    for _ in range(r.choice([0, 1, 1, 2])):
        kind = weighted(r, possible(BENIGN))
        if all(fault.kind != kind for fault in faults):
            faults.append(draw_fault(r, kind, layout))
    fatal = possible(FATAL)
    if fatal and r.random() < 0.55:
        kind = weighted(r, fatal)
        faults.append(draw_fault(r, kind, layout))
        if kind == "kill" and sum(layout) > 3 and r.random() < 0.3:
            faults.append(draw_fault(r, kind, layout))
    return faults


def draw_fault(r, kind, layout):
    length = {"stop": r.choice([0.05, 0.3, 1.5]), "pull": r.choice([0.05, 0.3, 1.0])}.get(kind, 0.5)
    detail = {"slow": r.choice(["20mbit", "100mbit", "1gbit"]), "loss": r.choice([5, 20, 50]),
              "garbage": r.choice(["start", "calls"]), "pull": r.choice([0, 1, None])}.get(kind)
    return Fault(kind, r.randrange(sum(layout)), r.choice([0, 1, 2, 5, 10, 20, 40]),
                 r.choice([0, 0, 0.0003, 0.002, 0.02]), length, detail)


def draw_call(r, colors, nranks):
    name = weighted(r, NAMES)
    kind = r.choice(list(TYPES))
    whole = "int" in kind
    op = r.choice([op for op in OPS if whole or not op.startswith("b")])
    most = r.choice([1, 16, 256, 4096, 60_000, 300_000])
    count = r.randint(0 if r.random() < 0.1 else 1, most) // (nranks if "_to_" in name else 1)
    flags = "".join(flag for flag, share, names in (
        ("i", 0.3, IN_PLACE), ("r", 0.3, AS_REQUEST), ("m", 0.25, NAMES),
        ("p", 0.4 if colors else 0, NAMES)) if name in names and r.random() < share)
    if "r" not in flags and r.random() < 0.2:
        flags += "s"
    return Call(name, TYPES[kind], OPS[op], count, r.randrange(8), flags or "-")


def draw_env(r, nodes, faults):
    """Settings; those that are left out have their defaults."""
    def some(values, default):
        return values if r.random() < 0.5 else [default]
    env = {
        "KOLO_ALGO": r.choice(some(ALGORITHMS, "auto")),
        "KOLO_PROTO": r.choice(some(["simple", "eager", "ll", "ll128", "^simple"], "auto")),
        "KOLO_BUFFSIZE": r.choice(["64K", "256K", "1M"]),
        "KOLO_MIN_NCHANNELS": r.choice(["1", "1", "2", "4"]),
        "KOLO_DIRECT": r.choice(["0", "1", "1"]),
        "KOLO_CMA": r.choice(["auto", "on", "off"]),
        "KOLO_WAIT": r.choice(["auto", "auto", "yield", "sleep"]),
        "KOLO_PROGRESS": r.choice(["auto", "auto", "inline", "thread"]),
        "KOLO_CHECK": r.choice(["0", "0", "1"]),
        "KOLO_EAGER_LIMIT": r.choice(["auto", "auto", "64", "4K", "64K"]),
        "KOLO_NET_SOCKETS": r.choice(["1", "1", "2", "4"]),
        "KOLO_NET_CHECKSUM": r.choice(["0", "1"]),
        "KOLO_PXN": r.choice(["never", "never", "nearer", "always"]),
        "KOLO_SHM_DISABLE": r.choice(["0"] * 9 + ["1"]),
    }
    if nodes:
        env["KOLO_SOCKET_FAMILY"] = r.choice(["any", "ipv4", "ipv6"])
        env["KOLO_SOCKET_IFNAME"] = r.choice(["eth0", "eth0", "eth0,eth1", "eth"])
    # Where the last word of a process that ends is lost, only silence tells.
    kinds = {fault.kind for fault in faults}
    if kinds & {"cut", "power"} or (kinds & set(FATAL) and kinds & NEED_NODES):
        env["KOLO_NET_LINK_TIMEOUT"] = str(LINK_TIMEOUT)
    return {name: value for name, value in env.items() if value not in ("auto", "any")}


def script(drawn):
    """The calls, as the ranks read them."""
    lines = ["split %d" % drawn.colors]
    lines += ["%s %d %d %d %d %s" % call for call in drawn.calls]
    return "\n".join(lines) + "\n"


def words(drawn):
    """A line that says what the round is."""
    what = "+".join("%s(%d@%d)" % (f.kind, f.rank, f.at) for f in drawn.faults) or "no fault"
    return "%s %s %s %s" % (drawn.start, drawn.network, "x".join(map(str, drawn.layout)), what)
