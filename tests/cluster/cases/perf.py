"""kolo perf and the programs of nccl-tests under srun: ranks of two nodes, with and without MPI."""
import os
import re

from harness import case

RIGHT = "Out of bounds values : 0 OK"


def hosts(result):
    """The hosts of the list of ranks, in rank order."""
    ranks = re.findall(r"^#  Rank +(\d+) .*? on +(\S+) ", result.out, re.M)
    assert [int(rank) for rank, _ in ranks] == list(range(len(ranks))), result.out
    return [host for _, host in ranks]


def rows(result):
    """The lines of the table, as words."""
    return [line.split() for line in result.out.split("\n") if re.match(r" +\d", line)]


@case(slurm=True, limit=150)
def perf_starts_under_every_srun(cluster):
    """One job of all tasks, whatever --mpi says: never as many jobs of one rank."""
    size = 1 << 20
    for kind in ("pmix", "pmi2", "none"):
        with cluster.moved("node2") as m:
            run = cluster.srun(["-N2", "-n3", "--mpi=" + kind],
                               [cluster.kolo, "perf", "all_reduce", "-b", "8", "-e", str(size),
                                "-f", str(size // 8), "-n", "2", "-w", "1"])
            run.ok().says(RIGHT, "all_reduce among 3 ranks of 2 nodes", "executed == planned")
        assert hosts(run) == ["node1", "node1", "node2"], (kind, run.out)
        assert [row[0] for row in rows(run)] == ["8", str(size)], run.out
        # The data of a rank on the other node.
        assert m.sent > size and m.received > size, (kind, vars(m))


# What a command under srun prints when all three tasks have met.
TINY = ["-b", "8", "-e", "8", "-n", "1", "-w", "0"]
COMMANDS = {
    "perf": (["perf", "all_reduce", *TINY], "all_reduce among 3 ranks of 2 nodes"),
    "hello": (["hello"], "3 ranks met by"),
    "doctor": (["doctor"], "3 ranks on 2 nodes"),
    "tune": (["tune", "-o", "FOLDER/KIND.toml", "-b", "8", "-e", "8", "-c", "barrier", "-t", "1"],
             "times in"),
}


def loaded(cluster, kind, words, env=None):
    """The result of a command under srun, and the shared objects that its tasks have mapped at any
    time, as the loader tells."""
    told = os.path.join(cluster.folder, "loaded-%d" % len(os.listdir(cluster.folder)))
    os.makedirs(told)
    env = dict(env or {}, LD_DEBUG_OUTPUT=told + "/of", KOLO_PROFILE="")
    run = cluster.srun(["-N2", "-n3", "--mpi=" + kind],
                       ["env", "LD_DEBUG=files", cluster.kolo] + words, env)
    found = set()
    for name in os.listdir(told):
        with open(os.path.join(told, name), errors="replace") as f:
            found |= set(re.findall(r"calling init: \S*/(lib[^/\s]+?)\.so", f.read()))
    return run, found


@case(slurm=True, limit=150)
def commands_under_srun_start_no_mpi(cluster):
    """Ranks meet by the server itself; MPI comes where it is asked for."""
    of_mpi = {"libmpi", "libmpich", "libkolo_mpi", "libopen-pal"}
    for kind, names in (("pmix", COMMANDS), ("pmi2", ["perf"])):
        for words, said in map(COMMANDS.get, names):
            words = [word.replace("FOLDER", cluster.folder).replace("KIND", kind)
                     for word in words]
            run, found = loaded(cluster, kind, words)
            assert said in run.out + run.err, (kind, words, vars(run))
            assert run.status == 0 or words == ["doctor"], (kind, words, vars(run))
            assert "libc" in found and not found & of_mpi, (kind, words, found)
    perf = COMMANDS["perf"][0]
    for words, env in ((perf + ["--compare", "mpi"], {}), (perf, {"KOLO_NET": "mpi"})):
        run, found = loaded(cluster, "pmix", words, env)
        assert {"libmpi", "libkolo_mpi"} <= found, (words, env, found, vars(run))
        run.ok().says(COMMANDS["perf"][1])


@case(slurm=True, limit=150)
def programs_of_nccl_tests_under_srun(cluster):
    for kind in ("none", "pmix"):
        program = os.path.join(os.path.dirname(cluster.kolo), "all_gather_perf")
        run = cluster.srun(["-N2", "-n2", "--mpi=" + kind],
                           [program, "-b", "1K", "-e", "4K", "-f", "2", "-g", "2", "-n", "2"],
                           {"NCCL_TESTS_SPLIT": "MOD 2"})
        run.ok().says(RIGHT, "# nThread 1 nGpus 2 minBytes 1024 maxBytes 4096 step: 2(factor)",
                      "# Using devices")
        assert hosts(run) == ["node1", "node1", "node2", "node2"], run.out
        # Groups are of processes, which have two ranks each; each begins its devices anew.
        listed = re.findall(r"Group +(\d+) .* device +(\d+) \[", run.out)
        assert listed == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")], run.out
        assert all(len(row) == 13 and row[8] == row[12] == "0" for row in rows(run)), run.out


@case(slurm=True, limit=150)
def a_mistake_is_said_once_by_all_tasks(cluster):
    for kind in ("none", "pmix"):
        for words, says, status in (
                (["all_reduce", "--frobnicate"], "unexpected argument '--frobnicate'", 2),
                (["broadcast", "-r", "3"], "root 3 is none of the 3 ranks", 2),
                (["all_reduce", "--ranks", "2"], "without mpirun", 2)):
            # The status is that of the tasks, and not of their end by Slurm.
            run = cluster.srun(["-N2", "-n3", "--mpi=" + kind, "--kill-on-bad-exit=0"],
                               [cluster.kolo, "perf"] + words)
            assert run.status == status, (kind, words, run.status, run.out, run.err)
            assert run.err.count(says) == 1, (kind, words, run.err)
            assert "#" not in run.out, run.out


@case(nodes=2)
def perf_without_any_launcher(cluster):
    results = cluster.ranks([1, 2], [cluster.kolo, "perf", "bcast", "-b", "64K", "-e", "64K",
                                     "-n", "2", "-r", "2"])
    results[0].ok().says(RIGHT, "broadcast among 3 ranks of 2 nodes")
    assert hosts(results[0]) == ["node1", "node2", "node2"], results[0].out
    for result in results[1:]:
        assert result.ok().out == "", result.out
