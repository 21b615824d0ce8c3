"""Where a round's ranks run: on this machine alone, or on two emulated nodes with two rails."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cluster"))
import harness  # noqa: E402
from emulator.base import clean_env  # noqa: E402
from emulator.client import agent_request, head_call  # noqa: E402
from emulator.control import live_state  # noqa: E402

JUNK = (b"", b"GET / HTTP/1.0\r\n\r\n", b"KOLOnet\xf1" + bytes(range(200)),
        b"kolotok2" + bytes(40), b"\x00" * 5000, bytes(i * 37 % 251 for i in range(4000)))
# Throws it at ports of an address, from another node.
THROW = """
import socket, sys
for port in sys.argv[2].split(","):
    for junk in (%r):
        try:
            with socket.create_connection((sys.argv[1], int(port)), 2) as stranger:
                stranger.sendall(junk)
        except OSError:
            pass
""" % (JUNK,)

# What was measured of the machine is kept there for the boot.
KEPT = "kolo-%d" % os.getuid()


def listening(pids):
    """Ports of the TCP sockets at which processes listen, IPv4 and IPv6."""
    ports, inodes = set(), set()
    for pid in pids:
        try:
            for name in os.listdir("/proc/%d/fd" % pid):
                inodes.add(os.readlink("/proc/%d/fd/%s" % (pid, name)))
        except OSError:
            continue
    for pid in pids:
        for table in ("tcp", "tcp6"):
            ports |= {port for port, state, inode in sockets(pid, table)
                      if state == "0A" and "socket:[%s]" % inode in inodes}
    return sorted(ports)


def sockets(pid, table):
    """(port, state, inode) of the TCP sockets in a process's network namespace."""
    try:
        with open("/proc/%d/net/%s" % (pid, table)) as f:
            lines = [line.split() for line in f][1:]
    except OSError:
        return []
    return [(int(words[1].rsplit(":", 1)[1], 16), words[3], words[9]) for words in lines]


def abstract(pid):
    """Names of kolo's abstract Unix sockets in a process's network namespace."""
    with open("/proc/%d/net/unix" % pid) as f:
        return {line.split()[-1] for line in f if "@kolo-" in line}


class Process:
    """A process on this machine."""

    def __init__(self, argv, env, output):
        with open(output, "wb") as log:
            self.process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)

    def status(self):
        """Its exit status, once it has ended; minus the signal that ended it."""
        return self.process.poll()

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Remote:
    """A process on an emulated node, which ends when this is closed."""

    def __init__(self, work, node, argv, env, output):
        null = os.open("/dev/null", os.O_RDONLY)
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        request = {"argv": argv, "env": env, "cwd": os.path.dirname(output), "umask": 0o022,
                   "detach": None}
        self.socket = agent_request(work, node, request, (null, log, log))
        os.close(null)
        os.close(log)
        self.text, self.code = b"", None
        self.socket.setblocking(False)

    def status(self):
        if self.code is None:
            try:
                piece = self.socket.recv(4096)
            except BlockingIOError:
                return None
            except OSError:
                piece = b""
            self.text += piece
            if b"\n" in self.text:
                code = json.loads(self.text)["rc"]
                self.code = 128 - code if code > 128 else code
            elif not piece:
                self.code = 255         # the node has gone
        return self.code

    def end(self):
        self.socket.close()


def has_libfabric(prefix):
    """Whether kolo was installed with its plugin over libfabric."""
    return os.path.exists(os.path.join(prefix, "lib", "kolo", "libkolo_ofi.so"))


class Here:
    """This machine, without rights: processes in one memory, or as if on two hosts."""

    def __init__(self, prefix, folder):
        self.own = os.path.join(folder, "tmp")
        self.can = frozenset({"shm"} if has_libfabric(prefix) else ())
        self.started = []
        self.before = self.seen()

    def seen(self):
        """What lies where ranks might leave something. Others use /tmp, too, so that the ranks
        have a folder of their own for that."""
        kept = os.listdir(self.own) if os.path.isdir(self.own) else []
        return {name for name in os.listdir("/dev/shm") if "kolo" in name} | set(kept)

    def down(self):
        """Nothing to be done: ranks end with their rounds."""

    def names(self, rank, layout):
        """What an error may call the host of a rank: here, nothing that tells ranks apart."""
        return []

    def start_ranks(self, drawn, program, folder, env):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        os.makedirs(self.own, exist_ok=True)
        env = dict(env, TMPDIR=self.own)
        count, started = sum(drawn.layout), []
        for rank in range(count):
            own = dict(env, KOLO_RANK=str(rank), KOLO_NRANKS=str(count),
                       KOLO_COMM_ID="127.0.0.1:%d" % port)
            if drawn.hosts:
                own["KOLO_HOSTID"] = "host%d" % (rank * drawn.hosts // count)
            started.append(Process([program, folder, str(rank)], own,
                                   "%s/out.%d" % (folder, rank)))
        self.started = started
        return started, port

    def space(self, rank, layout):
        """The PID namespace of a rank."""
        return os.readlink("/proc/self/ns/pid")

    def junk(self, rank, layout, ports):
        def throw():
            for port in ports:
                for junk in JUNK:
                    try:
                        with socket.create_connection(("127.0.0.1", port), 2) as stranger:
                            stranger.sendall(junk)
                    except OSError:
                        pass
        threading.Thread(target=throw, daemon=True).start()

    def leftovers(self):
        return ["the file %s" % name for name in sorted(self.seen() - self.before)]

    def end_strangers(self):
        """Nothing to be done: they are a thread of this process."""

    def mend(self):
        """Removes what libfabric's provider shm leaves of a process that was killed, under its
        number: a process that has the same number later would open nothing."""
        numbers = tuple("%d:" % process.process.pid for process in self.started)
        for name in os.listdir("/dev/shm"):
            if numbers and name.startswith(numbers):
                os.unlink(os.path.join("/dev/shm", name))


class Nodes:
    """Two emulated nodes."""

    def __init__(self, prefix, folder):
        options = harness.Options(nodes=2, rails=2, switches=1, rate="", slurm=False, limit=86400,
                                  alone=False)
        self.cluster = harness.Cluster(prefix, options, folder)
        self.work = self.cluster.work
        can = {"nodes"} | {mpi for mpi in harness.MPIS
                           if os.path.isdir(os.path.join(prefix, "lib", "kolo", mpi))}
        if has_libfabric(prefix):
            can.add("ofi")
        self.asides = []
        self.spaces, self.leaders = {}, {}
        for node in self.cluster.nodes:
            self.know(node)
        rule = "add table inet try; add chain inet try in; " \
               "add rule inet try in numgen random mod 100 < 5 drop; delete table inet try"
        if self.on("node1", ["nft", rule]) == 0:
            can.add("loss")
        self.can = frozenset(can)
        self.dead, self.spoilt = set(), set()

    def know(self, node):
        """Finds the first process of a node."""
        head = live_state(self.work)["pid"]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/status" % pid) as f:
                    status = dict(line.split(":", 1) for line in f if ":" in line)
                name = os.readlink("/proc/%s/ns/uts" % pid)
                if int(status["PPid"]) == head and status["NSpid"].split()[-1] == "1":
                    with open("/proc/%s/root/etc/hostname" % pid) as f:
                        if f.read().strip() == node and name:
                            self.leaders[node] = int(pid)
                            self.spaces[node] = os.readlink("/proc/%s/ns/pid" % pid)
            except (OSError, KeyError):
                continue
        assert node in self.leaders, "%s has no first process" % node

    def on(self, node, argv, wait=True):
        """Runs a command on a node; its exit status."""
        request = {"argv": argv, "env": clean_env(self.work), "cwd": "/", "umask": 0o022,
                   "detach": None}
        null = os.open("/dev/null", os.O_RDWR)
        answer = agent_request(self.work, node, request, (null, null, null))
        os.close(null)
        if not wait:
            self.asides.append(answer)
            return 0
        text = b""
        while b"\n" not in text:
            piece = answer.recv(4096)
            if not piece:
                return 255
            text += piece
        return json.loads(text)["rc"]

    def down(self):
        self.cluster.down()

    def node(self, rank, layout):
        return harness.layout(layout)[rank]

    def names(self, rank, layout):
        return [self.node(rank, layout)]

    def space(self, rank, layout):
        return self.spaces[self.node(rank, layout)]

    def start_ranks(self, drawn, program, folder, env):
        port = 20_000 + drawn.seed % 10_000
        env = dict(clean_env(self.work), **env)
        if drawn.start != "plain":
            return [self.start_mpirun(drawn, program, folder, env)], port
        places = harness.layout(drawn.layout)
        address = self.cluster.address(places[0])
        if env.get("KOLO_SOCKET_FAMILY") == "ipv6":
            address = "[fd77:0::%s]" % places[0].removeprefix("node")
        started = []
        for rank, node in enumerate(places):
            own = dict(env, KOLO_RANK=str(rank), KOLO_NRANKS=str(len(places)),
                       KOLO_COMM_ID="%s:%d" % (address, port))
            started.append(Remote(self.work, node, [program, folder, str(rank)], own,
                                  "%s/out.%d" % (folder, rank)))
        return started, port

    def start_mpirun(self, drawn, program, folder, env):
        hosts = ",".join("node%d:%d" % (i + 1, n) for i, n in enumerate(drawn.layout) if n)
        count = str(sum(drawn.layout))
        if drawn.start == "openmpi":
            words = ["mpirun.openmpi", "--enable-recovery", "-H", hosts, "-n", count]
            for name in env:
                if name.startswith(("KOLO_", "CHAOS_")):
                    words += ["-x", name]
        else:
            words = ["mpirun.mpich", "-disable-auto-cleanup", "-launcher", "rsh",
                     "-launcher-exec", os.path.join(self.work, "bin", "rsh"), "-hosts", hosts,
                     "-n", count]
        env = dict(env, **harness.MPI_ENV)
        return Remote(self.work, "node1", words + [program, folder, "mpi"], env, folder + "/out.0")

    # ------------------------------------------------------------------ faults

    def junk(self, rank, layout, ports):
        """From the other node, and from its own."""
        for node in self.cluster.nodes:
            address = self.cluster.address(self.node(rank, layout))
            self.on(node, [sys.executable, "-c", THROW, address, ",".join(map(str, ports))],
                    wait=False)

    def cable(self, rank, layout, rail, state):
        """Pulls or plugs the cable of a rank's node, of one rail or both."""
        number = self.node(rank, layout).removeprefix("node")
        for one in (0, 1) if rail is None else (rail,):
            self.spoilt.add(("head", "ip", "link", "set", "n%sr%d" % (number, one), "up"))
            self.on("head", ["ip", "link", "set", "n%sr%d" % (number, one), state])

    def rate(self, rank, layout, rate):
        number = self.node(rank, layout).removeprefix("node")
        for rail in (0, 1):
            device = "n%sr%d" % (number, rail)
            self.spoilt.add(("head", "tc", "qdisc", "del", "dev", device, "root"))
            self.on("head", ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
                             "burst", "131072", "latency", "50ms"])

    def lose(self, rank, layout, share):
        """Drops a share, in thousandths, of what arrives at a rank's node."""
        rule = ("add table inet chaos; "
                "add chain inet chaos in { type filter hook input priority 0 ; }; "
                "add rule inet chaos in iifname \"eth*\" numgen random mod 1000 < %d drop" % share)
        node = self.node(rank, layout)
        if node in self.dead:
            return
        self.spoilt.add((node, "nft", "delete table inet chaos"))
        assert self.on(node, ["nft", rule]) == 0, "nft does not work here"

    def power(self, rank, layout):
        """The node of a rank is gone at once."""
        node = self.node(rank, layout)
        self.dead.add(node)
        head_call(self.work, call="kill", node=int(node.removeprefix("node")))

    def end_strangers(self):
        """Ends those who throw garbage, who have sockets of their own."""
        for answer in self.asides:
            answer.close()
        self.asides = []

    def mend(self):
        """All as it was at the start: nodes are up, cables plugged, rates free, nothing lost."""
        for node in self.dead:
            head_call(self.work, call="boot", node=int(node.removeprefix("node")))
            self.know(node)
        for node, *command in self.spoilt:
            self.on(node, command)
        for node in self.cluster.nodes if self.dead or self.spoilt else []:
            # A node that comes back has other hardware addresses here, and should not; and who was
            # not found behind a pulled cable is taken for unreachable for some seconds more.
            self.on(node, ["ip", "neigh", "flush", "all"])
        self.dead, self.spoilt = set(), set()

    def leftovers(self):
        """What kolo has left on the nodes that are up."""
        found = []
        for node in self.cluster.nodes:
            if node in self.dead:
                continue
            pid = self.leaders[node]
            root = "/proc/%d/root" % pid
            found += ["%s: abstract socket %s" % (node, name) for name in sorted(abstract(pid))]
            found += ["%s: /dev/shm/%s" % (node, name) for name in os.listdir(root + "/dev/shm")
                      if "kolo" in name]
            found += ["%s: /tmp/%s" % (node, name) for name in os.listdir(root + "/tmp")
                      if name.startswith(("kolo-", ".kolo")) and name != KEPT]
            found += ["%s: a socket of port %d in state %s" % (node, port, state)
                      for table in ("tcp", "tcp6")
                      for port, state, inode in sockets(pid, table) if inode != "0"]
        return found
