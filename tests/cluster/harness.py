"""What a test of the emulated cluster is made of: a cluster, ways to start ranks, counters, faults.

A test is a function with one argument in a file of cases/, marked with @case:

    @case(nodes=2, rails=1, limit=60)
    def bytes_cross_the_link(cluster):
        before = cluster.counters("node1")
        cluster.mpirun("openmpi", [2, 1], [cluster.kolo, "perf", "all_reduce"]).ok()
        assert cluster.counters("node1").sent - before.sent > 1 << 20

It passes when it returns. `raise Skip("why")` says that it cannot run here. A cluster of its own is
started for every test and taken down whatever happens; whatever it started ends with it.
"""
import collections
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
TOOL = [sys.executable, os.path.join(HERE, "cluster.py")]
# How the two MPIs are started; their ranks share few cores. MPICH 4.0 over UCX and TCP returns from
# MPI_Finalize on several nodes in half of all runs only, in programs without kolo too: a rank waits
# for peers that already sit in a barrier of the launcher. So tests of it look at what is printed
# (Program.wait_for), and not at the end.
MPIS = ("openmpi", "mpich")
# Slurm 22.05's fence of PMIx by a tree lets ranks go before all have come; Open MPI then dies in
# MPI_Init (docs/launch.md).
MPI_ENV = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
           "OMPI_MCA_hwloc_base_binding_policy": "none", "SLURM_PMIX_FENCE": "ring"}

CASES = []
Options = collections.namedtuple("Options", "nodes rails switches rate slurm limit alone")
Counters = collections.namedtuple("Counters", "sent received")


class Skip(Exception):
    """The test cannot run on this machine."""


def case(nodes=2, rails=1, switches=1, rate="", slurm=False, limit=60, alone=False):
    """Marks a test. `rate` shapes each node's link both ways, such as "100mbit"; `limit` is in
    seconds, for the whole test; `alone`: nothing else runs beside it."""
    def mark(function):
        CASES.append((function, Options(nodes, rails, switches, rate, slurm, limit, alone)))
        return function
    return mark


def why_not():
    """A sentence if the cluster cannot be made here, or None."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    os.environ["PATH"] = path
    tried = subprocess.run(["unshare", "--net", "--uts", "--mount", "--ipc", "--pid", "--fork",
                            "ip", "link", "add", "probe0", "type", "veth", "peer", "name",
                            "probe1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if tried.returncode:
        return "namespaces are not allowed here (%s)" % tried.stdout.strip().split("\n")[-1]
    return None


def layout(ranks_per_node):
    """Which node each rank is on: [2, 1] gives ["node1", "node1", "node2"]."""
    return ["node%d" % (i + 1) for i, n in enumerate(ranks_per_node) for _ in range(n)]


class Result:
    """How a program ended and what it printed."""

    def __init__(self, command, status, out, err):
        self.command, self.status, self.out, self.err = command, status, out, err

    def ok(self):
        """Itself, if the exit status is 0; a failure with all that was printed if not."""
        assert self.status == 0, "%s: exit status %s (None: ended by its limit)\n%s%s" % (
            self.command, self.status, self.out, self.err)
        return self

    def failed(self):
        """Itself, if the exit status is neither 0 nor that of a time limit."""
        assert self.status not in (0, None), "%s should fail: status %s\n%s%s" % (
            self.command, self.status, self.out, self.err)
        return self

    def says(self, *words):
        """Itself, if all words were printed."""
        for word in words:
            assert word in self.out + self.err, "%s does not say %r:\n%s%s" % (
                self.command, word, self.out, self.err)
        return self


class Program:
    """A program that runs while the test goes on."""

    def __init__(self, folder, name, argv, env):
        self.command = name
        self.paths = [tempfile.mktemp(dir=folder, suffix=s) for s in (".out", ".err")]
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err)

    def text(self):
        """What it has printed so far, output and errors."""
        texts = []
        for path in self.paths:
            with open(path, errors="replace") as f:
                texts.append(f.read())
        return texts

    def wait(self, limit=60):
        """Its Result; after `limit` seconds it is ended and the status is None."""
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.end()
            status = None
        return Result(self.command, status, *self.text())

    def wait_for(self, word, limit=20):
        """Waits until it has printed `word`, or what it has printed is such that `word` is true."""
        end = time.monotonic() + limit
        said = word if callable(word) else lambda text: word in text
        while not said("".join(self.text())):
            assert self.process.poll() is None and time.monotonic() < end, (
                "%s never said %r:\n%s" % (self.command, word, "".join(self.text())))
            time.sleep(0.02)

    def end(self):
        """Ends it and what it started."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Cluster:
    """Emulated nodes called node1, node2, ..., their addresses 10.77.RAIL.NUMBER."""

    def __init__(self, prefix, options, folder):
        self.prefix, self.options, self.folder = prefix, options, folder
        self.work = os.path.join(folder, "cluster")
        self.kolo = os.path.join(prefix, "bin", "kolo")
        self.nodes = ["node%d" % i for i in range(1, options.nodes + 1)]
        self.programs = []
        argv = ["up", "-n", str(options.nodes), "--rails", str(options.rails),
                "--switches", str(options.switches), "--rate", options.rate,
                "--ttl", str(options.limit + 60)]
        for share in (SOURCE, prefix, folder):
            argv += ["--share", share]
        self.tool(*argv, *(["--slurm"] if options.slurm else []))

    def tool(self, *argv):
        """Runs a command of cluster.py; what it prints."""
        run = subprocess.run(TOOL + ["--workdir", self.work, *argv], cwd=self.folder, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        assert run.returncode == 0, "cluster.py %s: %s%s" % (argv[0], run.stdout, run.stderr)
        return run.stdout

    def down(self):
        """Ends all programs and the cluster."""
        for program in self.programs:
            program.end()
        self.tool("down")

    # ------------------------------------------------------------------ programs

    def start(self, node, argv, env=None):
        """Starts a program on a node ("head" is one too); a Program."""
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith(("KOLO_", "NCCL_", "SLURM_", "OMPI_", "PMI"))}
        clean.update(MPI_ENV, KOLO_PREFIX=self.prefix, **(env or {}))
        full = TOOL + ["--workdir", self.work, "run-on", node, "--"] + [str(a) for a in argv]
        name = "%s: %s" % (node, shlex.join(str(a) for a in argv))
        program = Program(self.folder, name, full, clean)
        self.programs.append(program)
        return program

    def run(self, node, argv, env=None, limit=60):
        """Runs a program on a node to its end; a Result."""
        return self.start(node, argv, env).wait(limit)

    def sh(self, node, script):
        """What a shell script on a node prints; it must succeed."""
        return self.run(node, ["sh", "-c", script]).ok().out

    def start_mpirun(self, mpi, ranks_per_node, argv, env=None):
        """Starts ranks with an MPI's mpirun from node1, ranks_per_node[i] of them on node i + 1,
        in that order; every rank gets `env`."""
        env = env or {}
        hosts = ",".join("node%d:%d" % (i + 1, n) for i, n in enumerate(ranks_per_node) if n)
        count = str(sum(ranks_per_node))
        if mpi == "openmpi":
            words = ["mpirun.openmpi", "-H", hosts, "-n", count]
            for name in env:
                words += ["-x", name]
        else:
            words = ["mpirun.mpich", "-launcher", "rsh", "-launcher-exec",
                     os.path.join(self.work, "bin", "rsh"), "-hosts", hosts, "-n", count]
        return self.start("node1", words + list(argv), env)

    def mpirun(self, mpi, ranks_per_node, argv, env=None, limit=60):
        """start_mpirun, to its end; a Result."""
        return self.start_mpirun(mpi, ranks_per_node, argv, env).wait(limit)

    def srun(self, words, argv, env=None, limit=60):
        """Runs `srun WORDS ARGV` on the head (the cluster must have slurm=True); a Result. Where
        tasks may be in MPI, the death of one ends the others, which may wait for it there. Slurm
        then loses what the dead task has written last, now and then."""
        first = ["srun"] + ["--kill-on-bad-exit=1"] * ("--mpi=none" not in words)
        return self.run("head", first + list(words) + list(argv), env, limit)

    def start_ranks(self, ranks_per_node, argv, env=None, port=4777):
        """Starts ranks without any launcher; each finds KOLO_RANK, KOLO_NRANKS and KOLO_COMM_ID in
        its environment. A Program for each, in rank order."""
        places = layout(ranks_per_node)
        programs = []
        for rank, node in enumerate(places):
            own = dict(env or {}, KOLO_RANK=str(rank), KOLO_NRANKS=str(len(places)),
                       KOLO_COMM_ID="%s:%d" % (self.address(places[0]), port))
            programs.append(self.start(node, argv, own))
        return programs

    def ranks(self, ranks_per_node, argv, env=None, limit=60):
        """start_ranks, to their ends; the Results in rank order."""
        return [program.wait(limit) for program in self.start_ranks(ranks_per_node, argv, env)]

    def compile(self, source, mpi=None):
        """Compiles tests/cluster/SOURCE against the installed kolo, and an MPI if one is named; the
        path of the program, which all nodes see."""
        name = os.path.splitext(os.path.basename(source))[0]
        program = os.path.join(self.folder, "%s.%s" % (name, mpi or "plain"))
        lib = os.path.join(self.prefix, "lib")
        words = ["mpicc." + mpi if mpi else "cc", "-Wall", "-Wextra", "-Werror", "-O1",
                 os.path.join(HERE, source), "-o", program,
                 "-I", os.path.join(self.prefix, "include")]
        if mpi:
            own = os.path.join(lib, "kolo", mpi)
            words += ["-L", own, "-lkolo_mpi", "-Wl,-rpath," + own]
        words += ["-L", lib, "-lkolo", "-Wl,-rpath," + lib, "-pthread", "-ldl"]
        self.build(source, words)
        return program

    def compile_without_kolo(self, source, mpi):
        """Compiles tests/SOURCE as a program of an MPI alone; its path, which all nodes see."""
        name = os.path.splitext(os.path.basename(source))[0]
        program = os.path.join(self.folder, "%s.%s" % (name, mpi))
        self.build(source, ["mpicc." + mpi, "-Wall", "-Wextra", "-Werror", "-O1",
                            os.path.join(os.path.dirname(HERE), source), "-o", program])
        return program

    @staticmethod
    def build(source, words):
        done = subprocess.run(words, text=True, stderr=subprocess.PIPE)
        assert done.returncode == 0, "%s does not compile:\n%s" % (source, done.stderr)

    # ---------------------------------------------------------- network and power

    def address(self, node, rail=0):
        """The IPv4 address of a node on a rail."""
        return "10.77.%d.%d" % (rail, int(node.removeprefix("node")))

    def counters(self, node, rail=0):
        """Bytes that the interface ethRAIL of a node has sent and received, headers included."""
        folder = "/sys/class/net/eth%d/statistics" % rail
        sent, received = self.sh(node, "cat %s/tx_bytes %s/rx_bytes" % (folder, folder)).split()
        return Counters(int(sent), int(received))

    @contextlib.contextmanager
    def moved(self, node, rail=0):
        """`with cluster.moved("node1") as m: ...` leaves in m.sent and m.received what crossed the
        interface meanwhile."""
        class Moved:
            sent = received = 0
        box, before = Moved(), self.counters(node, rail)
        yield box
        after = self.counters(node, rail)
        box.sent, box.received = after.sent - before.sent, after.received - before.received

    def link(self, what, state, rail=None):
        """Pulls ("down") or plugs ("up") the cable of "node2" or the uplink of "switch1", on one
        rail or all."""
        self.tool("link", what, state, *([] if rail is None else ["--rail", str(rail)]))

    def rate(self, what, rate, rail=None):
        """Shapes a link both ways: "100mbit", "1gbit", "off"."""
        self.tool("rate", what, rate, *([] if rail is None else ["--rail", str(rail)]))

    def kill_node(self, node):
        """Power loss: everything on the node is gone at once, and its link too."""
        self.tool("kill-node", node)

    def boot_node(self, node):
        """Starts a killed node again."""
        self.tool("boot-node", node)

    def listening(self, node):
        """(address, port) of every TCP socket that listens on a node."""
        lines = self.sh(node, "ss -Htln").splitlines()
        found = []
        for line in lines:
            address, port = line.split()[3].rsplit(":", 1)
            found.append((address.strip("[]").split("%")[0], int(port)))
        return found


def make(prefix, options):
    """A cluster and its scratch folder, for `with`."""
    @contextlib.contextmanager
    def scope():
        folder = tempfile.mkdtemp(prefix="kolo-cluster.")
        os.chmod(folder, 0o755)
        cluster = None
        try:
            cluster = Cluster(prefix, options, folder)
            yield cluster
        finally:
            try:
                if cluster:
                    cluster.down()
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return scope()
