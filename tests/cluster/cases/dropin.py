"""Unchanged MPI programs on several nodes, with libkolo_pmpi preloaded."""
import random
import re

from harness import MPIS, case

HASH = re.compile(r"^(\d+): ([0-9a-f]{16})$", re.M)
TAKEN = re.compile(r"kolo: rank \d+: (\d+) of (\d+) collectives ran on kolo")


def hashes(cluster, mpi, layout, argv, env=None):
    """A hash of each rank's results, and the number of calls that ran on kolo."""
    ranks = sum(layout)
    program = cluster.start_mpirun(mpi, layout, argv, env)
    program.wait_for(lambda text: len(HASH.findall(text)) == ranks, 60)
    if env:
        program.wait_for(lambda text: len(TAKEN.findall(text)) == ranks, 30)
    text = "".join(program.text())
    # Debian's MPICH may hang in MPI_Finalize between nodes, whatever ran before.
    program.end()
    taken = set(TAKEN.findall(text))
    assert len(taken) <= 1, text
    return sorted(HASH.findall(text)), int(taken.pop()[0]) if taken else 0


@case(nodes=3, limit=150)
def results_on_several_nodes_are_those_of_mpi(cluster):
    preload = cluster.prefix + "/lib/libkolo_pmpi.so.0"
    for mpi in MPIS:
        program = cluster.compile_without_kolo("mpi/dropin.c", mpi)
        for layout in ([2, 1, 2], [1, 1, 1]):
            seed = random.randrange(1 << 24)
            print("seed %d, %s, %s" % (seed, mpi, layout))
            argv = [program, str(seed), "200"]
            plain, _ = hashes(cluster, mpi, layout, argv)
            for way in ("kolo", "mpi"):
                env = {"LD_PRELOAD": preload, "KOLO_PMPI_ATTACH": "0", "KOLO_REPORT": "1",
                       "KOLO_PMPI_NODES": way, "KOLO_PMPI_TABLE": "none"}
                found, taken = hashes(cluster, mpi, layout, argv, env)
                assert found == plain, (way, layout, found, plain)
                assert taken == 200 if way == "kolo" else 20 < taken < 200, (way, taken)
