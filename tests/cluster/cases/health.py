"""What drains a node: facts that last, and nothing that a job does there."""
import os
import random

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
