"""How ranks meet on several nodes: both MPIs, srun in all its ways, and no launcher at all."""
import os
import re

from harness import MPIS, case, layout

MET = re.compile(r"(\d+) ranks? met by (.*) in ([\d.]+) s")


def met(result, by, nodes, ranks):
    """Asserts that `kolo hello` shows all ranks, each on a node of its own step or job."""
    result.ok()
    found = MET.search(result.out)
    assert found and found.group(2) == by and int(found.group(1)) == ranks, result.out
    lines = re.findall(r"^ *(\d+)  (node\d+) \(pid \d+\)$", result.out, re.M)
    assert [int(rank) for rank, _ in lines] == list(range(ranks)), result.out
    assert {node for _, node in lines} == set(nodes), result.out
    return [node for _, node in lines]


@case(slurm=True, limit=120)
def srun_with_each_kind_of_server(cluster):
    for kind, by in (("pmix", "PMIx"), ("pmi2", "PMI"), ("none", "Slurm variables")):
        hello = cluster.srun(["-N2", "-n5", "--mpi=" + kind],
                             [cluster.kolo, "hello", "--rounds", "3"])
        met(hello, by, cluster.nodes, 5)
        only = cluster.srun(["-N2", "-n5", "--mpi=" + kind],
                            [cluster.kolo, "hello", "--slurm", "--rounds", "3"])
        met(only, "Slurm variables", cluster.nodes, 5)


@case(slurm=True)
def ranks_without_a_server_prove_themselves_by_munge_or_a_file(cluster):
    hello = ["-N2", "-n3", "--mpi=none"], [cluster.kolo, "hello", "--rounds", "2"]
    nobody = "share no secret"
    munge = {"KOLO_MUNGE_SOCKET": cluster.work + "/munge/sock", "KOLO_DEBUG": "trace"}
    by_munge = cluster.srun(*hello, munge)
    met(by_munge, "Slurm variables", cluster.nodes, 3)
    assert by_munge.err.count("know each other by munge") == 3 * 2, by_munge.err
    assert nobody not in by_munge.err, by_munge.err
    secret = cluster.folder + "/secret"
    with open(secret, "wb") as f:
        f.write(os.urandom(32))
    os.chmod(secret, 0o600)
    file = {"KOLO_SECRET_FILE": secret, "KOLO_DEBUG": "trace",
            "KOLO_MUNGE_SOCKET": "/nonexistent/munge"}
    by_file = cluster.srun(*hello, file)
    met(by_file, "Slurm variables", cluster.nodes, 3)
    assert by_file.err.count("know each other by KOLO_SECRET_FILE") == 3 * 2, by_file.err
    assert nobody not in by_file.err, by_file.err
    os.chmod(secret, 0o640)
    cluster.srun(*hello, file).failed().says("its mode is 0640, and must be 0600")
    neither = cluster.srun(*hello, {"KOLO_MUNGE_SOCKET": "/nonexistent/munge"})
    met(neither, "Slurm variables", cluster.nodes, 3)
    assert neither.err.count(nobody) == 1, neither.err


@case(slurm=True)
def the_bytes_cross_the_wire(cluster):
    size = 1 << 20
    with cluster.moved("node1") as one, cluster.moved("node2") as two:
        cluster.srun(["-N2", "-n2", "--mpi=none"],
                     [cluster.kolo, "hello", "--bytes", str(size)]).ok()
    for node in (one, two):
        assert node.sent > size and node.received > size, vars(node)


@case(slurm=True)
def slurm_ranks_that_come_ten_seconds_apart(cluster):
    script = "test $SLURM_PROCID != 0 || sleep 11; exec %s hello" % cluster.kolo
    late = cluster.srun(["-N2", "-n3", "--mpi=none"], ["sh", "-c", script])
    met(late, "Slurm variables", cluster.nodes, 3)
    late.says("has looked for rank 0 at node1, Slurm step", "for 10 s", "more")


@case(slurm=True)
def a_rank_zero_that_never_comes_is_named(cluster):
    script = "test $SLURM_PROCID != 0 || exec sleep 6; exec %s hello" % cluster.kolo
    env = {"KOLO_START_TIMEOUT": "3"}
    alone = cluster.srun(["-N2", "-n2", "--mpi=none"], ["sh", "-c", script], env).failed()
    alone.says("cannot find rank 0 at node1, Slurm step", "KOLO_START_TIMEOUT")


@case(slurm=True)
def ports_that_others_have_are_passed_by(cluster):
    # Job 1, step 0: its first two ports belong to somebody who says nothing, or something else.
    squatter = ("import socket, time\n"
                "held = [socket.create_server(('0.0.0.0', p)) for p in (23061, 24070)]\n"
                "print('held', flush=True)\n"
                "while True:\n"
                "    held[0].accept()[0].sendall(b'SSH-2.0-none' * 9)\n")
    holder = cluster.start("node1", ["python3", "-c", squatter])
    holder.wait_for("held")
    hello = cluster.srun(["-N2", "-n3", "--mpi=none"], [cluster.kolo, "hello", "--slurm"])
    met(hello, "Slurm variables", cluster.nodes, 3)


@case(slurm=True)
def two_jobs_with_one_range_of_ports_do_not_meet(cluster):
    env = {"KOLO_SLURM_PORT": "30000", "KOLO_SLURM_PORT_COUNT": "4"}
    words = ["srun", "-N2", "-n2", "--mpi=none", cluster.kolo, "hello", "--slurm", "--rounds", "8"]
    jobs = [cluster.start("head", words, env) for _ in range(2)]
    for job in jobs:
        met(job.wait(), "Slurm variables", cluster.nodes, 2)


@case(slurm=True)
def another_address_and_a_batch_script(cluster):
    env = {"KOLO_COMM_ID": "10.77.0.1:4999"}
    hello = cluster.srun(["-N2", "-n2", "--mpi=none"], [cluster.kolo, "hello", "--slurm"], env)
    met(hello, "Slurm variables", cluster.nodes, 2)
    script = "%s/job.sh" % cluster.folder
    with open(script, "w") as f:
        f.write("#!/bin/sh\n%s hello\n%s hello --slurm\nsrun --mpi=none %s hello\n"
                % ((cluster.kolo,) * 3))
    out = cluster.folder + "/job.out"
    cluster.run("head", ["sbatch", "-N2", "-n3", "-W", "-o", out, script]).ok()
    with open(out) as f:
        text = f.read()
    # The script itself is one process; what it starts with srun is a step.
    assert "1 rank met by no launcher" in text, text
    assert "not started by srun" in text and "3 ranks met by Slurm variables" in text, text


@case(nodes=3, limit=90)
def mpirun_of_both_families(cluster):
    for mpi, by in zip(MPIS, ("PMIx", "PMI")):
        hello = cluster.mpirun(mpi, [3, 1, 2], [cluster.kolo, "hello", "--rounds", "2"])
        assert met(hello, by, cluster.nodes, 6) == layout([3, 1, 2]), hello.out


@case(nodes=3)
def no_launcher_at_all(cluster):
    results = cluster.ranks([2, 1, 3], [cluster.kolo, "hello", "--rounds", "3"])
    for result in results[1:]:
        assert result.ok().out == "", result.out
    assert met(results[0], "KOLO_RANK", cluster.nodes, 6) == layout([2, 1, 3])


@case(slurm=True, limit=120)
def an_mpi_under_the_wrong_kind_of_srun_is_told(cluster):
    program = {mpi: cluster.compile("over_mpi.c", mpi) for mpi in MPIS}
    wrong = cluster.srun(["-N1", "-n3", "--mpi=pmix"], [program["mpich"]]).failed()
    wrong.says("Slurm started 3 tasks with --mpi=pmix", "needs `srun --mpi=pmi2`")
    wrong = cluster.srun(["-N1", "-n3", "--mpi=none"], [program["mpich"]]).failed()
    wrong.says("Slurm started 3 tasks with --mpi=none")
    meant = cluster.srun(["-N1", "-n3", "--mpi=pmix"], [program["mpich"]],
                         {"KOLO_ALLOW_SINGLETONS": "1"}).ok()
    assert meant.out.count("0 of 1, sum 1") == 3, meant.out
    right = cluster.srun(["-N1", "-n3", "--mpi=pmi2"], [program["mpich"]]).ok()
    assert sorted(right.out.split("\n"))[1:] == ["%d of 3, sum 6" % r for r in range(3)], right.out
    right = cluster.srun(["-N1", "-n3", "--mpi=pmix"], [program["openmpi"]]).ok()
    assert sorted(right.out.split("\n"))[1:] == ["%d of 3, sum 6" % r for r in range(3)], right.out
    # The command needs no MPI (perf.py); one task alone is no mistake, nor are several if that is
    # meant.
    perf = [cluster.kolo, "perf", "all_reduce", "-b", "8", "-e", "8"]
    cluster.srun(["-N1", "-n1", "--mpi=none"], perf).ok()
    apart = cluster.srun(["-N1", "-n2", "--mpi=none"], perf, {"KOLO_ALLOW_SINGLETONS": "1"}).ok()
    assert apart.out.count("among 1 rank\n") == 2, apart.out


@case(slurm=True)
def an_mpirun_of_one_rank_inside_a_step_is_no_mistake(cluster):
    for mpi in MPIS:
        program = cluster.compile("over_mpi.c", mpi)
        words = ["salloc", "-N1", "-n3", "mpirun." + mpi, "-n", "1", program]
        run = cluster.run("head", words).ok()
        assert "0 of 1, sum 1" in run.out, run.out


@case(slurm=True, limit=120)
def whole_communicators_on_several_nodes(cluster):
    program = cluster.compile("without_mpi.c")
    sums = ["%d of 5, sum 15" % r for r in range(5) for _ in range(2)]
    for kind, call in (("pmix", "env"), ("pmi2", "env"), ("none", "env"), ("none", "slurm")):
        run = cluster.srun(["-N2", "-n5", "--mpi=" + kind], [program, call, "2"]).ok()
        assert sorted(run.out.split("\n"))[1:] == sums, run.out
    for mpi in MPIS:
        run = cluster.mpirun(mpi, [3, 2], [program, "env", "2"]).ok()
        assert sorted(run.out.split("\n"))[1:] == sums, run.out
        run = cluster.start_mpirun(mpi, [1, 4], [cluster.compile("over_mpi.c", mpi)])
        for line in sums[::2]:
            run.wait_for(line)
        if mpi == "openmpi":
            run.wait(20).ok()
        run.end()
    by_hand = cluster.ranks([2, 3], [program, "env", "2"])
    assert [r.ok().out for r in by_hand] == ["%d of 5, sum 15\n" % i * 2 for i in range(5)]


@case(slurm=True, limit=120)
def whole_communicators_on_one_node(cluster):
    program = cluster.compile("without_mpi.c")
    for kind in ("pmix", "pmi2", "none"):
        for call in ("env", "slurm"):
            run = cluster.srun(["-N1", "-n3", "--mpi=" + kind], [program, call, "2"]).ok()
            lines = sorted(run.out.split("\n"))[1:]
            assert lines == ["%d of 3, sum 6" % r for r in range(3) for _ in range(2)], run.out
    for mpi in MPIS:
        run = cluster.mpirun(mpi, [3], [program, "env", "2"]).ok()
        assert run.out.count("of 3, sum 6") == 6, run.out
        refused = cluster.mpirun(mpi, [2], [program, "slurm", "1"]).failed()
        refused.says("koloInvalidUsage")
    alone = cluster.run("node1", [program, "env", "2"]).ok()
    assert alone.out == "0 of 1, sum 1\n" * 2, alone.out
    by_hand = cluster.ranks([3], [program, "env", "2"])
    assert [r.ok().out for r in by_hand] == ["%d of 3, sum 6\n" % i * 2 for i in range(3)]


@case()
def an_own_name_that_stands_for_the_loopback(cluster):
    """As Debian and Ubuntu write /etc/hosts: `127.0.1.1 node1` on node1."""
    own = "cp /etc/hosts /tmp/hosts" \
        " && sed '/node1/d' /tmp/hosts >/etc/hosts && echo 127.0.1.1 node1 >>/etc/hosts"
    cluster.sh("node1", own)
    try:
        for zero, one in (("node1", "node2"), ("node2", "node1")):
            ranks = [cluster.start(node, [cluster.kolo, "hello"],
                                   {"KOLO_RANK": str(rank), "KOLO_NRANKS": "2",
                                    "KOLO_START_TIMEOUT": "10",
                                    "KOLO_COMM_ID": zero + ":4777"})
                     for rank, node in enumerate((zero, one))]
            for run in ranks:
                run.wait(30).ok()
        # Rank 0 is not where node1 says that it is; what it says tells where it listens.
        alone = cluster.run("node1", [cluster.kolo, "hello"],
                            {"KOLO_RANK": "0", "KOLO_NRANKS": "2", "KOLO_START_TIMEOUT": "2",
                             "KOLO_COMM_ID": "node1:4777"}).failed()
        alone.says("rank 0 listens at port 4777 of all addresses of this machine")
        lost = cluster.run("node1", [cluster.kolo, "hello"],
                           {"KOLO_RANK": "1", "KOLO_NRANKS": "2", "KOLO_START_TIMEOUT": "2",
                            "KOLO_COMM_ID": "node1:4778"}).failed()
        lost.says("that name stands for this machine itself")
    finally:
        cluster.sh("node1", "cat /tmp/hosts >/etc/hosts")
