"""kolo doctor: silent on a healthy cluster, and each planted fault named with its fix.

One cluster for all of them: a fault is planted, looked for and taken back.
"""
import contextlib
import json
import os
import time

from harness import case

# Ranks on processors of their own, as a launcher would bind them.
RANK = "${KOLO_RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}"
BOUND = "set -- %s; shift $((" + RANK + " %% $#)); exec taskset -c $1 %s doctor %s"
# Those that this process may use need not be all of the machine, nor the first ones.
PROCESSORS = sorted(os.sched_getaffinity(0))


class Doctor:
    """Ways to run it on two nodes."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.folder = os.path.join(cluster.folder, "doctor")
        os.makedirs(self.folder)
        self.port = 4777

    def script(self, words="", before="", processors=tuple(PROCESSORS)):
        """What each rank runs."""
        listed = " ".join(map(str, processors))
        return ["sh", "-c", before + BOUND % (listed, self.cluster.kolo, words)]

    def run(self, words="", ranks=(1, 1), env=None, **more):
        """Rank 0 of ranks without a launcher, which takes the least time."""
        self.port += 1
        programs = self.cluster.start_ranks(ranks, self.script(words, **more), env, self.port)
        return [program.wait(40) for program in programs][0]

    def mpirun(self, words=""):
        return self.cluster.mpirun("openmpi", [1, 1], self.script(words))

    def srun(self):
        return self.cluster.srun(["-N2", "-n2", "--mpi=pmix"], self.script())

    def finds(self, *lines, run=None, **more):
        """Asserts that it prints exactly these findings, each given by its words, and a fix for
        each."""
        result = (run or self.run)(**more).failed()
        found = result.out.splitlines()
        assert len(found) == len(lines), "%d lines for %s:\n%s%s" % (
            len(found), lines, result.out, result.err)
        for words in lines:
            assert any(all(word in line for word in words) for line in found), (words, result.out)
        assert all("; fix: " in line for line in found), result.out

    @contextlib.contextmanager
    def on(self, node, plant, mend):
        """A shell script that plants a fault, and one that takes it back."""
        self.cluster.sh(node, plant)
        try:
            yield
        finally:
            self.cluster.sh(node, mend)


def of_network(doctor):
    """Faults of the second rail: ranks meet over the first."""
    with doctor.on("node2", "ip link set eth1 down",
                   "ip link set eth1 up; ip addr add fd77:1::2/64 dev eth1 nodad"):
        doctor.finds(["interface: node2: eth1 is down", "10.77.1.0/24", "ip link set eth1 up"])
    with doctor.on("node2", "ip link set eth1 mtu 1400", "ip link set eth1 mtu 1500"):
        doctor.finds(["MTU: node2: eth1", "1500 on node1; 1400 on node2"])
    blocked = "nft add table inet t" \
        " && nft 'add chain inet t c {type filter hook input priority 0;}'" \
        " && nft add rule inet t c iifname eth1 'tcp flags & (syn|ack) == syn'" \
        " reject with tcp reset"
    with doctor.on("node2", blocked, "nft delete table inet t"):
        doctor.finds(["reach: node1, node2: eth1 of node1 does not reach eth1 of node2 (10.77.1.2)",
                      "ports are blocked"])
    # The file of a node is mounted, so it is changed in its place.
    without = "cp /etc/hosts /tmp/hosts; sed /node2/d /tmp/hosts >/etc/hosts"
    with doctor.on("node1", without, "cat /tmp/hosts >/etc/hosts"):
        doctor.finds(["name: node1: node2 has no address here", "/etc/hosts"])


def of_limits(doctor):
    """Limits of the second node."""
    there = "test $(hostname) = node1 || %s; "
    # (The machine's own limit may be as low.)
    differ = "ulimit -l $(test $(hostname) = node1 && echo 128 || echo 64); "
    doctor.finds(["memlock: node2", "128 KiB on node1; 64 KiB on node2"], before=differ)
    doctor.finds(["open files: node2: a process may have 300", "nofile 1024"],
                 before=there % "ulimit -n 300")
    with doctor.on("node2", "mount -o remount,size=16m /dev/shm",
                   "mount -o remount,size=1g /dev/shm"):
        doctor.finds(["/dev/shm: node2: it has 16 MiB"])
        alone = doctor.cluster.run("node2", [doctor.cluster.kolo, "doctor", "--node"]).failed()
        assert alone.out.startswith("node2: /dev/shm: it has 16 MiB"), alone.out
        assert len(alone.out.splitlines()) == 1, alone.out
    doctor.finds(["ranks a node: node2", "2 ranks on node1; 1 rank on node2"], ranks=(2, 1))
    doctor.finds(["binding: node1, node2: 2 of its ranks share processors %d" % PROCESSORS[0],
                  "--cpu-bind=cores"], ranks=(2, 2), processors=PROCESSORS[:1])


def of_software(doctor):
    """What ranks would load, and what they are told."""
    cluster = doctor.cluster
    other = cluster.compile("over_mpi.c", "mpich")
    doctor.finds(["MPI: node1, node2", "is linked to mpich", "mpirun.mpich"],
                 run=doctor.mpirun, words=other)
    kolo = os.path.join(cluster.prefix, "lib", "libkolo.so.0")
    copy = os.path.join(doctor.folder, "libkolo.so.0")
    with doctor.on("node2", "cat %s >%s; echo >>%s; mount --bind %s $(realpath %s)"
                   % (kolo, copy, copy, copy, kolo), "umount $(realpath %s)" % kolo):
        doctor.finds(["build: node2: libkolo.so.0 is not the same"])
    doctor.finds(["settings: node1, node2: unknown variable KOLO_ALGOO", "KOLO_ALGO if that"],
                 env={"KOLO_ALGOO": "ring"})
    tuner = os.path.join(doctor.folder, "tuner.toml")
    with open(tuner, "w") as f:
        f.write('format = 1\n[costs]\nlatency = 1.0\nbytes = 1.0\n'
                '[machine]\nprocessor = "Another CPU"\ncpus = 999\n')
    doctor.finds(["tuner file: node1, node2", "another machine (Another CPU, 999 CPUs"],
                 env={"KOLO_TUNER_FILE": tuner})
    segment = "/dev/shm/vader_segment.node2.0.dead"
    with doctor.on("node2", "head -c 1048576 /dev/zero >" + segment, "rm " + segment):
        doctor.finds(["leftovers: node2: dead jobs have left %s (1 MiB)" % segment, "rm "])


@case(nodes=2, rails=2, slurm=True, limit=120)
def the_doctor_names_what_is_planted(cluster):
    doctor = Doctor(cluster)
    for start in (doctor.run, doctor.mpirun, doctor.srun):
        said = start().ok()
        assert said.out == "" and "2 ranks on 2 nodes: nothing found" in said.err, vars(said)
    document = json.loads(doctor.run("--json").ok().out)
    notes = document.pop("notes")
    assert [way["between"] for way in document.pop("ways")] == ["process", "node", "nodes"]
    assert len(notes) == 1 and "no CUDA driver, which is no fault" in notes[0], notes
    assert document == {"ranks": 2, "nodes": ["node1", "node2"], "findings": []}, document
    alone = cluster.run("node1", [cluster.kolo, "doctor", "--node"]).ok()
    assert alone.out == "node1: nothing found\n", alone.out
    for part in (of_network, of_limits, of_software):
        begun = time.monotonic()
        part(doctor)
        print("%s: %.1f s" % (part.__name__, time.monotonic() - begun))
    assert doctor.run().ok().out == ""
