"""What a Slurm site installs, slurm/: the plugin, job scripts, health check and epilog."""
import os
import re
import subprocess
import time

from harness import MPIS, SOURCE, case

SLURM = os.path.join(SOURCE, "slurm")
MPI_TYPE = {"openmpi": "pmix", "mpich": "pmi2"}


def build_plugin(cluster):
    """The plugin, built for the Slurm that is installed."""
    out = os.path.join(cluster.folder, "spank")
    made = subprocess.run(["make", "-s", "-C", SLURM, "spank", "OUT=" + out], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert made.returncode == 0, made.stdout
    return re.search(r"(\S+kolo\.so)", made.stdout).group(1)


def plug(cluster, line):
    """Writes plugstack.conf, which Slurm reads at every start of a step."""
    with open(os.path.join(cluster.work, "etc", "plugstack.conf"), "w") as f:
        f.write(line + "\n")


def write(cluster, name, text, mode=0o644):
    path = os.path.join(cluster.folder, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, errors="replace") as f:
        return f.read()


def eventually(what, true, limit=30):
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.1)


def fortran_hello(cluster, mpi):
    """examples/fortran/hello.f90, built as its page tells a user."""
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(cluster.prefix, "lib", "pkgconfig"))
    flags = subprocess.check_output(
        ["pkg-config", "--cflags", "--libs", "kolo-fortran", "kolo-mpi-" + mpi], env=env, text=True)
    program = os.path.join(cluster.folder, "hello." + mpi)
    subprocess.run(["mpif90." + mpi, os.path.join(SOURCE, "examples/fortran/hello.f90"),
                    *flags.split(), "-o", program], check=True, cwd=cluster.folder)
    return program


class Job:
    """A job script that was submitted, and what its output must have."""

    def __init__(self, cluster, script, nodes, mpi_type, argv, expected, *options):
        self.cluster, self.expected = cluster, expected
        self.name = "%s-on-%d-nodes-by-%s" % (script, nodes, mpi_type)
        self.out = os.path.join(cluster.folder, "-".join((self.name, *options)))
        each = "--ntasks-per-node=%d" % (1 if nodes == 4 or "threads" in script else 2)
        job = os.path.join(SLURM, "jobs", script + ".sbatch")
        done = cluster.run("head", ["sbatch", "--parsable", "-N%d" % nodes, each, "-o", self.out,
                                    *options, job, *argv], {"MPI_TYPE": mpi_type}).ok()
        self.number = done.out.strip()

    def is_done(self):
        text = read(self.out)
        return all(line in text for line in self.expected)

    def end(self):
        eventually(lambda: "%s says:\n%s" % (self.name, read(self.out)), self.is_done, 60)
        # MPICH's MPI_Finalize may hang on several nodes: see harness.MPIS.
        self.cluster.run("head", ["scancel", "-Q", self.number])


@case(nodes=4, slurm=True, limit=240)
def job_scripts_run_on_two_and_four_nodes(cluster):
    jobs = []
    for mpi in MPIS:
        over_mpi, threads = cluster.compile("over_mpi.c", mpi), cluster.compile("threads.c", mpi)
        fortran, kind = fortran_hello(cluster, mpi), MPI_TYPE[mpi]
        for nodes in (2, 4):
            sums = ["%d of 4, sum 10" % rank for rank in range(4)]
            jobs.append(Job(cluster, "mpi", nodes, kind, [over_mpi], sums))
            agree = ["rank %d of %d: 2 threads agree" % (r, nodes) for r in range(nodes)]
            jobs.append(Job(cluster, "mpi-threads", nodes, kind, [threads], agree))
            said = ["rank %d of 4: the sum is 10" % rank for rank in range(4)]
            jobs.append(Job(cluster, "fortran", nodes, kind, [fortran], said))
    without = cluster.compile("without_mpi.c")
    for kind in ("pmix", "pmi2", "none"):
        for nodes in (2, 4):
            sums = ["%d of 4, sum 10" % rank for rank in range(4)]
            jobs.append(Job(cluster, "no-mpi", nodes, kind, [without, "env", "1"], sums))
    # Where no variables are handed on, tasks have those of the script, PATH first of all.
    script = "[ -n \"$SET_BY_SCRIPT\" ] && exec %s env 1" % without
    jobs.append(Job(cluster, "no-mpi", 2, "pmix", ["env", "SET_BY_SCRIPT=1", "sh", "-c", script],
                    ["%d of 4, sum 10" % rank for rank in range(4)], "--export=NONE"))
    for job in jobs:
        job.end()


VARIABLES = ["sh", "-c", "env | grep -E '^(KOLO_(PROFILE|DEBUG|REPORT)|LD_PRELOAD)=' | sort"]

PROFILES = """\
algo = "auto"
[profile.other]
preload = "/nonexistent/other.so"
[ profile . "fast" ]    # a comment
preload = [
    "%(lib)s/libkolo.so.0",     # is there
    '/nonexistent/library.so',
    "relative.so", "%(lib)s",   # no file of this name, and a folder
]
debug = "info"
[profile.one]
preload = "%(lib)s/libkolo.so.0"
[broken
preload = "/etc/passwd
"""


@case(slurm=True, limit=120)
def the_plugin_gives_tasks_their_variables(cluster):
    plugin, lib = build_plugin(cluster), os.path.join(cluster.prefix, "lib")
    site = write(cluster, "kolo.toml", PROFILES % {"lib": lib})
    so = "LD_PRELOAD=%s/libkolo.so.0" % lib

    def srun(*words, env=None, argv=VARIABLES):
        return cluster.srun(["-N2", "-n2", "--mpi=none", *words], argv, env)

    def lines(*words, said=(), **more):
        run = srun(*words, **more).ok()
        found = sorted(run.out.split())
        # Both tasks say the same, and what is wrong is one line for all nodes.
        assert found[::2] == found[1::2], run.out
        assert run.err.count("\n") == bool(said), run.err
        assert all(word in run.err for word in said), (said, run.err)
        return found[::2]

    # Without the plugin: its options are not known, and nothing is set.
    srun("--kolo").failed().says("unrecognized option '--kolo'")
    assert lines() == []
    plug(cluster, "optional %s site=%s" % (plugin, site))
    assert lines() == []
    assert lines("--kolo") == []
    # A library that is not there is left out, which a program that has no kolo would not notice.
    gone = ("profile `other`", "/nonexistent/other.so", " on node1 ")
    assert lines("--kolo=other", said=gone) == ["KOLO_PROFILE=other"]
    half = ("profile `fast`", "/nonexistent/library.so")
    assert lines("--kolo=fast", "--kolo-debug=info", said=half) == [
        "KOLO_DEBUG=info", "KOLO_PROFILE=fast", so]
    assert lines("--kolo=one", "--kolo-report") == ["KOLO_PROFILE=one", "KOLO_REPORT=1", so]
    # A variable chooses a profile as the option does; a name that is none chooses nothing.
    assert lines(env={"KOLO_PROFILE": "fast"}, said=half) == ["KOLO_PROFILE=fast", so]
    none = ("KOLO_PROFILE=fast/ is ignored", "letters, digits")
    assert lines(env={"KOLO_PROFILE": "fast/"}, said=none) == ["KOLO_PROFILE=fast/"]
    # So is a profile that the site has not; to choose none is no mistake.
    unknown = ("no profile `ohter` in " + site, "profiles there: other, fast, one")
    assert lines("--kolo=ohter", said=unknown) == ["KOLO_PROFILE=ohter"]
    assert lines(env={"KOLO_PROFILE": "ohter"}, said=unknown) == ["KOLO_PROFILE=ohter"]
    assert lines("--kolo=none") == ["KOLO_PROFILE=none"]
    # A file that includes others may have it there.
    more = write(cluster, "more.toml", "include = \"others.toml\"\n" + PROFILES % {"lib": lib})
    plug(cluster, "optional %s site=%s" % (plugin, more))
    assert lines("--kolo=ohter") == ["KOLO_PROFILE=ohter"]
    assert lines("--kolo=one") == ["KOLO_PROFILE=one", so]
    plug(cluster, "optional %s site=%s" % (plugin, site))
    # What was typed counts more than the shell's, and what the user preloads stays.
    mine = {"KOLO_DEBUG": "warn", "KOLO_PROFILE": "mine", "LD_PRELOAD": "/usr/lib/none.so"}
    found = srun("--kolo=one", "--kolo-debug=none", env=mine).ok().out.split()
    assert set(found) == {"KOLO_DEBUG=none", "KOLO_PROFILE=one", so + ":/usr/lib/none.so"}, found
    # Into containers nothing is preloaded.
    assert lines("--kolo=one", env={"APPTAINER_CONTAINER": "x.sif"}) == ["KOLO_PROFILE=one"]
    runner = write(cluster, "podman", "#!/bin/sh\nexec env\n", 0o755)
    assert so not in srun("--kolo=one", argv=[runner]).ok().out
    # A mistake is one line, and the job runs.
    for words, said in ((["--kolo-debug=loud"], "--kolo-debug=loud is ignored"),
                        (["--kolo=a/../b"], "--kolo=a/../b is ignored")):
        run = srun(*words).ok()
        assert run.out == "" and run.err.count("\n") == 1 and said in run.err, (run.out, run.err)
    # A site file that nobody can read, a default profile, a wrong line in plugstack.conf.
    plug(cluster, "optional %s site=/nonexistent profile=usual" % plugin)
    lost = ("/nonexistent cannot be read on node1", "`usual` preloads nothing")
    assert lines("--kolo", said=lost) == ["KOLO_PROFILE=usual"]
    assert lines("--kolo-report") == ["KOLO_REPORT=1"]
    plug(cluster, "optional %s sight=%s" % (plugin, site))
    assert srun("--kolo=one").ok().err.count("`sight=") == 1
    in_batch_scripts(cluster, plugin, site)


def in_batch_scripts(cluster, plugin, site):
    """`#SBATCH --kolo` counts for the script and its steps, and salloc's for its shell."""
    plug(cluster, "optional %s site=%s" % (plugin, site))
    variables = VARIABLES[2]
    both = "KOLO_DEBUG=info\nKOLO_PROFILE=%s\n"
    # The script's own shell loads nothing, for what it starts would inherit it; its steps do.
    so = "LD_PRELOAD=%s/lib/libkolo.so.0\n" % cluster.prefix
    for profile, loaded in (("other", ""), ("one", so)):
        job = write(cluster, "job.sh", "#!/bin/sh\n#SBATCH --kolo=%s --kolo-debug=info\n%s\n"
                    "echo step\nsrun -N1 -n1 sh -c \"%s\"\n" % (profile, variables, variables))
        out = os.path.join(cluster.folder, profile + ".out")
        cluster.run("head", ["sbatch", "-N2", "-n2", "-W", "-o", out, job]).ok()
        wanted = both % profile + "step\n" + both % profile + loaded
        told = [line for line in read(out).splitlines(True) if "`other` preloads" in line]
        assert len(told) == (profile == "other"), read(out)
        assert "".join(line for line in read(out).splitlines(True) if line not in told) == wanted
    shell = cluster.run("head", ["salloc", "-N1", "-Q", "--kolo=other", "--kolo-debug=info",
                                 "sh", "-c", variables]).ok()
    assert shell.out == both % "other", shell.out


@case(slurm=True, limit=120)
def the_plugin_on_and_off_around_ranks(cluster):
    plug(cluster, "optional " + build_plugin(cluster))
    program = cluster.compile("without_mpi.c")
    words = ["-N2", "-n4", "--mpi=pmix"]
    sums = ["%d of 4, sum 10" % rank for rank in range(4)]
    plain = cluster.srun(words, [program, "env", "1"]).ok()
    assert sorted(plain.out.split("\n"))[1:] == sums and plain.err == "", plain.err
    told = cluster.srun(words + ["--kolo", "--kolo-report"], [program, "env", "1"]).ok()
    assert sorted(told.out.split("\n"))[1:] == sums, told.out
    assert told.err.count("kolo report: ") == 1, told.err
    row = re.search(r"AllReduce +4 B +1 +4 +[\d.]+ +[\d.]+  \w+", told.err)
    rows = re.findall(r"^  ([A-Z]\w+) +(?:4 B|-) +1 ", told.err, re.M)
    assert row and rows == ["AllReduce", "CommDestroy"], told.err
    assert told.err.count("over the 4 ranks: least ") == 1, told.err
    assert told.err.count("\n") == 5 + len(rows), told.err
    more = cluster.srun(words + ["--kolo-debug=info"], [program, "env", "1"]).ok()
    assert "4 ranks on 2 nodes" in more.err, more.err
    heterogeneous(cluster, program)
    a_node_without_kolo(cluster, program)


def heterogeneous(cluster, program):
    """Parts of a heterogeneous job are one under PMIx, and refused without."""
    parts = ["salloc", "-Q", "-N1", "-n2", ":", "-N1", "-n1", "srun", "--het-group=0,1"]
    one = cluster.run("head", parts + ["--mpi=pmix", "--kolo", program, "env", "1"])
    if one.status == 0:
        assert sorted(one.out.split("\n"))[1:] == ["%d of 3, sum 6" % r for r in range(3)], one.out
    refused = cluster.run("head", parts + ["--mpi=none", "--kolo", program, "slurm", "1"]).failed()
    refused.says("heterogeneous job", "--mpi=pmix")
    one.ok()


def a_node_without_kolo(cluster, program):
    """One line for the node, and not one a rank."""
    lib = os.path.join(cluster.prefix, "lib")
    plugin = build_plugin(cluster)
    plug(cluster, "optional %s needs=%s/libkolo.so.0" % (plugin, lib))
    # The folder of the libraries is another one there.
    cluster.sh("node2", "mount -t tmpfs none %s" % lib)
    lost = cluster.srun(["-N2", "-n4", "--mpi=pmix", "--kolo", "--kill-on-bad-exit=1"],
                        [program, "env", "1"]).failed()
    said = [line for line in lost.err.split("\n") if "install kolo" in line]
    assert len(said) == 1 and "node2" in said[0] and lib in said[0], lost.err
    cluster.sh("node2", "umount " + lib)


@case(nodes=4, switches=2, slurm=True, limit=120)
def neighbours_share_a_switch(cluster):
    # Ranks dealt over the two switches, as a list of nodes in another order does.
    hosts = write(cluster, "hosts", "node1\nnode3\nnode2\nnode4\n")
    size = 1 << 20
    perf = [cluster.kolo, "perf", "all_reduce", "-b", str(size), "-e", str(size), "-n", "4", "-w",
            "0", "-c", "0"]

    def crossed(env):
        counter = "cat /sys/class/net/up1r0/statistics/tx_bytes"
        before = int(cluster.sh("head", counter))
        env = dict(env, SLURM_HOSTFILE=hosts)
        run = cluster.srun(["-N4", "-n4", "--mpi=none", "--distribution=arbitrary"], perf, env)
        run.ok()
        return int(cluster.sh("head", counter)) - before

    for algo in ("ring", "hier"):
        env = {"KOLO_ALGO": "allreduce:" + algo}
        followed = crossed(env)
        ignored = crossed(dict(env, KOLO_TOPO_ADDRESS="ignore"))
        assert followed > 2 * size, (algo, followed)
        assert followed * 1.6 < ignored, (algo, followed, ignored)


def report_of(text, rank):
    """What the rank said of itself."""
    found = [line for line in text.split("\n") if "rank %d:" % rank in line and "SIG" in line]
    assert len(found) == 1, (rank, text)
    return found[0]


@case(slurm=True, limit=180)
def a_job_that_is_ended_says_where_it_was(cluster):
    program, env = cluster.compile("waits.c"), {"KOLO_ON_SIGNAL": "report", "KOLO_NET": "socket"}
    words = ["srun", "-N2", "--ntasks-per-node=2", "--mpi=pmix", program]
    # Slurm looks for jobs beyond their time twice a minute: the rest is tried meanwhile.
    limit = os.path.join(cluster.folder, "limit.out")
    script = write(cluster, "limit.sh", "#!/bin/sh\nsrun --mpi=pmix %s\n" % program)
    four = ["-N2", "--ntasks-per-node=2"]
    cluster.run("head", ["sbatch", *four, "-t9", "-o", limit, script], env).ok()
    eventually(lambda: read(limit), lambda: read(limit).count("is there") == 4)
    cluster.sh("head", "scontrol update JobId=1 EndTime=now+1")
    job = cluster.start("head", words, env)
    eventually(lambda: job.text(), lambda: job.text()[0].count("is there") == 4)
    cluster.run("head", ["scancel", "-s", "TERM", cluster.sh("head", "squeue -h -n waits.plain "
                                                            "-o %i").split()[0]]).ok()
    told_of_the_wait(job.wait(20).failed().err, "SIGTERM")
    # A handler of the program is left alone, and so is a signal that it ignores.
    for how, signal, status in (("handle", "TERM", 7), ("ignore", "USR1", None)):
        job = cluster.start("head", words + [how], env)
        eventually(lambda: job.text(), lambda: job.text()[0].count("is there") == 4)
        number = cluster.sh("head", "squeue -h -n waits.plain -o %i").split()[0]
        cluster.run("head", ["scancel", "-s", signal, number]).ok()
        if status is None:
            time.sleep(0.5)
            assert job.process.poll() is None, job.text()
            cluster.run("head", ["scancel", number]).ok()
        run = job.wait(20).failed()
        if status:
            assert "SIGTERM" not in run.err and "Exited with exit code 7" in run.err, run.err
        else:
            assert "SIGUSR1" not in run.err, run.err
    # Without the setting nothing is said.
    job = cluster.start("head", words)
    eventually(lambda: job.text(), lambda: job.text()[0].count("is there") == 4)
    number = cluster.sh("head", "squeue -h -n waits.plain -o %i").split()[0]
    cluster.run("head", ["scancel", number]).ok()
    assert "phase" not in job.wait(20).failed().err
    eventually(lambda: read(limit), lambda: "DUE TO TIME LIMIT" in read(limit), 60)
    eventually(lambda: read(limit), lambda: read(limit).count("SIGTERM: comm") == 4, 10)
    told_of_the_wait(read(limit), "SIGTERM")


def told_of_the_wait(text, signal):
    """Ranks 0, 2 and 3 wait for rank 1, which computes."""
    for rank in (0, 2, 3):
        said = report_of(text, rank)
        for word in (signal, "collective 4, AllReduce of 2048 double, sum", "route ",
                     ", form interpreted",
                     "phase `waiting`", "rank 1 on node1"):
            assert word in said, (word, said)
    said = report_of(text, 1)
    assert "collective 3, Barrier" in said and "phase `outside`" in said, said


FAKE = """#!/bin/sh
[ "$1 $2" = "doctor --node" ] || exit 64
case $(cat %s) in
    well) echo "node is well"; exit 0 ;;
    ill) echo "kolo: /dev/shm has 0 bytes free: enlarge it"; echo more; exit 1 ;;
    mute) exit 1 ;;
    *) echo "no such command" >&2; exit 2 ;;
esac
"""


@case(slurm=True, limit=120)
def nodes_are_checked_and_cleaned(cluster):
    state = write(cluster, "state", "well")
    doctor = write(cluster, "kolo", FAKE % state, 0o755)
    check = os.path.join(SLURM, "healthcheck.sh")

    def checked(said, argv=(), kolo=doctor):
        write(cluster, "state", said)
        env = {"KOLO": kolo, "SLURMD_NODENAME": "node1"}
        run = cluster.run("node1", [check, *argv], env)
        assert run.out.count("\n") == 1 and run.out.startswith("kolo: "), (run.out, run.err)
        return run

    assert checked("well").ok().out == "kolo: node is well\n"
    ill = checked("ill").failed()
    assert ill.status == 1 and ill.out == "kolo: /dev/shm has 0 bytes free: enlarge it\n", ill.out
    assert checked("?").failed().says("cannot run (status 2): no such command").status == 3
    assert checked("mute").failed().says("failed and said nothing").status == 3
    gone = "/nonexistent/kolo"
    # NHC would take 3 for a fault; what is told stays.
    assert "cannot run (status 2): no such command" in checked("?", ["--nhc"]).ok().out
    assert "no kolo on this node" in checked("well", ["--nhc"], gone).ok().out
    assert checked("ill", ["--nhc"]).failed().status == 1 and checked("well", ["--nhc"]).ok()
    assert checked("well", kolo=gone).failed().says("no kolo on this node").status == 3

    def node():
        return cluster.sh("head", "scontrol show node node1 --oneliner")

    # What is not known drains nobody.
    checked("?", ["--drain"]).failed()
    checked("well", ["--drain"], gone).failed()
    assert "DRAIN" not in node(), node()
    checked("ill", ["--drain"]).failed()
    assert "DRAIN" in node() and "Reason=kolo: /dev/shm has 0 bytes" in node(), node()
    checked("well", ["--drain"]).ok()
    assert "DRAIN" not in node(), node()
    cluster.sh("head", "scontrol update NodeName=node1 State=DRAIN Reason=memory")
    for said in ("ill", "well"):
        checked(said, ["--drain"])
        assert "DRAIN" in node() and "Reason=memory" in node(), node()
    cluster.sh("head", "scontrol update NodeName=node1 State=RESUME")
    leftovers(cluster)


LEAVES = """#!/bin/sh
mkdir -m 0700 -p /tmp/kolo-65534
echo half >/tmp/kolo-65534/machine.4194000
echo whole >/tmp/kolo-65534/machine
echo a >/dev/shm/vader_segment.left
echo b >/dev/shm/vader_segment.used
echo c >/dev/shm/mine
setsid sh -c 'exec sleep 987' >/dev/null 2>&1 &
exit 0
"""


def leftovers(cluster):
    """What a job of an ordinary user leaves goes, and nothing else."""
    conf = os.path.join(cluster.work, "etc", "slurm.conf")
    epilog = os.path.join(SLURM, "epilog.sh")
    log = os.path.join(cluster.folder, "epilog.log")
    wrapper = write(cluster, "epilog", "#!/bin/sh\n%s >>%s.$SLURMD_NODENAME 2>&1\n" % (epilog, log),
                    0o755)
    with open(conf, "a") as f:
        # Processes that leave their session are not found by this way of tracking.
        f.write("Epilog=%s\n" % wrapper)
    cluster.sh("head", "scontrol reconfigure")
    # Another program of the same user has one of the segments open; root's are not its own.
    cluster.sh("node1", "echo r >/dev/shm/vader_segment.root; touch /dev/shm/vader_segment.used; "
               "chown 65534 /dev/shm/vader_segment.used")
    holder = cluster.start("node1", ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c",
                                     "exec 9</dev/shm/vader_segment.used; echo held; sleep 60"])
    holder.wait_for("held")
    script = write(cluster, "leaves.sh", LEAVES, 0o755)
    cluster.run("head", ["sbatch", "--uid=65534", "-D", "/tmp", "-w", "node1", "-n1", "-W", "-o",
                         "/dev/null", script]).ok()
    there = "ls -A /dev/shm /tmp/kolo-65534; pgrep -f '[s]leep 987' || echo nobody"
    eventually(lambda: cluster.sh("node1", there) + read(log + ".node1"),
               lambda: "nobody" in cluster.sh("node1", there))
    left = cluster.sh("node1", there).split()
    assert left == ["/dev/shm:", "mine", "vader_segment.root", "vader_segment.used",
                    "/tmp/kolo-65534:", "machine", "nobody"], (left, read(log + ".node1"))
    told = read(log + ".node1")
    assert "vader_segment.left removed" in told and "(sleep) has outlived it" in told, told
    assert read(log + ".node2") == "", read(log + ".node2")
    holder.end()
    assert "DRAIN" not in cluster.sh("head", "scontrol show node node1 --oneliner")
