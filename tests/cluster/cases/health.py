"""What drains a node: facts that last, and nothing that a job does there."""
import os
import random
import re
import shutil
import time

from harness import SOURCE, case

CHECK = os.path.join(SOURCE, "slurm", "healthcheck.sh")
# What a job does: a script, and how it is taken back. (A node has a /tmp of its own.)
ACTS = {
    "fills /dev/shm": ("mount -o remount,size=300m /dev/shm; fallocate -l 280m /dev/shm/data",
                       "rm /dev/shm/data; mount -o remount,size=1g /dev/shm"),
    "fills /tmp": ("mount -t tmpfs -o size=1m tmpfs /tmp; cat /dev/zero >/tmp/data 2>/dev/null "
                   "|| true", "umount /tmp"),
    "has a bridge that nothing hangs on": (
        "ip link add br-7 type bridge; ip addr add 172.20.0.1/16 dev br-7; ip link set br-7 up",
        "ip link del br-7"),
    "has a container's cable": (
        "ip link add ve0 type veth peer name ve1; ip addr add 10.88.0.1/16 dev ve0; "
        "ip link set ve0 up", "ip link del ve0"),
    "leaves segments": ("head -c 4M /dev/zero >/dev/shm/vader_segment.x",
                        "rm /dev/shm/vader_segment.x"),
}
# A file server that is away for a moment: files that the settings of the site name.
AWAY = {"KOLO_TUNER_FILE": "/away/tuner.toml", "KOLO_MPI_LIBRARY": "/away/libkolo_mpi.so"}
# Facts that last.
LASTING = {
    "a small /dev/shm": ("mount -o remount,size=16m /dev/shm",
                         "mount -o remount,size=1g /dev/shm", {}, "it has 16 MiB"),
    "no interface": ("ip addr flush dev eth0", "", {}, "no interface"),
    "a variable that is none": ("", "", {"KOLO_ALGOO": "ring"}, "KOLO_ALGOO"),
}


@case(nodes=1, limit=60)
def what_a_job_does_drains_no_node(cluster):
    seed = int(os.environ.get("KOLO_TEST_SEED") or random.randrange(1 << 32))
    print("KOLO_TEST_SEED=%d" % seed)
    drawn = random.Random(seed)
    # Settings that are there and cannot be read.
    away = dict(AWAY, XDG_CONFIG_HOME=cluster.folder)
    os.makedirs(os.path.join(cluster.folder, "kolo", "kolo.toml"))

    def check(env):
        return cluster.run("node1", [CHECK], dict(env, KOLO=cluster.kolo))

    for _ in range(2):
        acts = drawn.sample(sorted(ACTS), drawn.randint(1, len(ACTS)))
        env = dict(drawn.sample(sorted(away.items()), drawn.randint(0, len(away))))
        cluster.sh("node1", "\n".join(ACTS[act][0] for act in acts))
        said = check(env)
        cluster.sh("node1", "\n".join(ACTS[act][1] for act in acts))
        assert said.status == 0 and said.out == "kolo: node1: nothing found\n", (
            seed, acts, env, vars(said))
    for what, (plant, mend, env, word) in LASTING.items():
        cluster.sh("node1", plant)
        said = check(env)
        assert said.status == 1 and word in said.out, (what, vars(said))
        cluster.sh("node1", mend)


DOCTOR = """#!/bin/sh
[ "$1 $2" = "doctor --node" ] || exit 64
[ -e {0}/ill ] || {{ echo "node is well"; exit 0; }}
echo "kolo: node is ill"
exit 1
"""
# As a site's wrapper does it, which names the kolo to be asked.
WRAPPER = "#!/bin/sh\nKOLO={0}/kolo {1}\nexit $?\n"


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


class Elsewhere:
    """Slurm on node1 in a folder that no PATH has, whose slurmd is started anew."""

    def __init__(self, cluster):
        self.cluster, self.folder = cluster, cluster.folder
        self.log = os.path.join(cluster.folder, "slurmd.log")
        self.conf = os.path.join(cluster.work, "etc", "slurm.conf")
        for name in ("sbin", "bin"):
            os.makedirs(os.path.join(self.folder, "opt", name))
        for name in ("sbin/slurmd", "bin/scontrol"):
            shutil.copy(shutil.which(os.path.basename(name)), self.at(name))
        write(self.folder, "kolo", DOCTOR.format(self.folder))
        linked = os.path.join(self.folder, "linked")
        os.symlink(os.path.join(SOURCE, "slurm", "healthcheck-drain.sh"), linked)
        check = write(self.folder, "check", WRAPPER.format(self.folder, linked))
        wrong = write(self.folder, "wrong", "#!/bin/sh\necho the wrong scontrol\nexit 9\n")
        with open(self.conf, "a") as f:
            f.write("HealthCheckProgram=%s\nHealthCheckInterval=1\n"
                    "SlurmdLogFile=%s\n" % (check, self.log))
        cluster.sh("head", "scontrol reconfigure")
        # What a slurmd without a file of settings fetches lies in /run, and so does its munge.
        cluster.sh("node1", "mount --bind %s /usr/bin/scontrol; mount -t tmpfs none /run; "
                   "mkdir /run/munge; ln -s %s/munge/sock /run/munge/munge.socket.2"
                   % (wrong, cluster.work))
        self.running = "slurmd-wlm"

    def at(self, name):
        return os.path.join(self.folder, "opt", name)

    def start(self, words, env):
        """A slurmd with these words and variables alone, in place of the one that runs."""
        self.cluster.sh("node1", "for p in /proc/[0-9]*; do case $(readlink $p/exe) in */%s) "
                        "kill -9 ${p#/proc/};; esac; done" % self.running)
        self.running = "slurmd"
        argv = ["env", "-i", *env, self.at("sbin/slurmd"), "-N", "node1", *words]
        self.slurmd = self.cluster.start("node1", argv)

    def state(self):
        return self.cluster.sh("head", "scontrol show node node1 --oneliner")

    def comes_to(self, true, what):
        """Waits for a state of the node, or of slurmd's log."""
        end = time.monotonic() + 30
        while not true():
            assert time.monotonic() < end, (what, self.state(), self.told(), self.slurmd.text())
            time.sleep(0.1)

    def told(self):
        return read(self.log)

    def drains(self, what):
        """An ill node is drained, and a well one resumed."""
        ill = write(self.folder, "ill", "")
        self.comes_to(lambda: "Reason=kolo: node is ill" in self.state(), what)
        os.unlink(ill)
        self.comes_to(lambda: "DRAIN" not in self.state(), what)


# Nobody can end it, and it holds what it writes to.
STUCK = "#!/bin/sh\nsetsid sleep 30 &\nexec sleep 30\n"


@case(nodes=1)
def the_check_waits_for_nobody(cluster):
    """Neither for a command on a file server that is away, nor for a slurmctld that is."""
    folder = cluster.folder
    short = write(folder, "short", re.sub(r"(?m)^((?:SLURM_)?LIMIT)=\d+ ", r"\1=1 ", read(CHECK)))
    stuck, well = write(folder, "scontrol", STUCK), write(folder, "kolo", DOCTOR.format(folder))
    for kolo, words in ((well, "node is well\nkolo: this check can neither drain nor resume the "
                         "node: %s show node, of the usual slurm.conf, did not end" % stuck),
                        (stuck, "kolo doctor --node did not end within 1 s\n")):
        begin = time.monotonic()
        said = cluster.run("node1", ["sh", "-c", short + " --drain 2>&1 | cat"],
                           {"KOLO": kolo, "PATH": folder + ":" + os.environ["PATH"]})
        assert time.monotonic() - begin < 20 and words in said.out, (kolo, said.out)


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


@case(nodes=1, slurm=True, limit=120)
def slurmd_s_own_scontrol_drains(cluster):
    slurm = Elsewhere(cluster)
    where = ["SLURM_CONF=" + slurm.conf]
    ways = {
        "a name behind -f": (["-D", "-f", slurm.conf], []),
        "letters before the name": (["-Dvf" + slurm.conf], []),
        "a variable": (["-D"], where),
        "slurmctld's": (["-D", "--conf-server=head"], []),
    }
    seed = int(os.environ.get("KOLO_TEST_SEED") or random.randrange(1 << 32))
    print("KOLO_TEST_SEED=%d" % seed)
    for what in random.Random(seed).sample(sorted(ways), 2):
        slurm.start(*ways[what])
        slurm.drains((seed, what))
    # Without one, and with one that does not answer as it should: it is told where slurmd keeps it.
    os.unlink(slurm.at("bin/scontrol"))
    write(cluster.folder, "slurmd.log", "")
    slurm.comes_to(lambda: "can neither drain nor resume the node: /usr/bin/scontrol show node, of "
                   in slurm.told() and "failed (status 9): the wrong scontrol" in slurm.told(),
                   "another's scontrol")
    cluster.sh("node1", "umount /usr/bin/scontrol; mount --bind %s/kolo /usr/bin/scontrol; "
               "chmod 644 /usr/bin/scontrol" % slurm.folder)
    slurm.comes_to(lambda: "resume the node: there is no scontrol beside %s" % slurm.at(
        "sbin/slurmd") in slurm.told(), "no scontrol")
