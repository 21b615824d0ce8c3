"""A whole model, examples/tsunami: its bits do not depend on the nodes of its ranks."""
import os
import subprocess

from harness import SOURCE, case

# High waves at 180 E on the equator, where blocks of the grid meet, so that a wrong halo is seen.
NAMELIST = "&tsunami hours = 4, resolution = 2, source_lon = 180, source_lat = 0.3, up = 20 /\n"
WORDS = ("checksum", "bits")


def build(cluster):
    """The path of the program, built against the installed kolo as its Makefile tells a user."""
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(cluster.prefix, "lib", "pkgconfig"))

    def flags(*words):
        return subprocess.check_output(["pkg-config", *words], env=env, text=True).strip()

    folder = os.path.join(cluster.folder, "tsunami")
    made = subprocess.run(
        ["make", "-s", "-C", os.path.join(SOURCE, "examples", "tsunami"), "BUILD=" + folder,
         "FC=mpifort.openmpi", "KOLO_PREFIX=" + cluster.prefix,
         "KOLO_FFLAGS=" + flags("--cflags", "kolo-fortran"),
         "KOLO_LIBS=" + flags("--libs", "kolo-fortran", "kolo-mpi-openmpi")],
        env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert made.returncode == 0, made.stdout
    return os.path.join(folder, "tsunami")


def command(cluster, program):
    """The program and its arguments but for the library that it runs over."""
    namelist = os.path.join(cluster.folder, "high")
    with open(namelist, "w") as f:
        f.write(NAMELIST)
    return [program, "--quiet", "--no-netcdf", "--no-picture", "--namelist", namelist, "--comm"]


def told(run):
    """What the program says of its field and its sums."""
    said = run.ok().out
    lines = {line.split()[0]: line for line in said.split("\n") if line.startswith(WORDS)}
    assert len(lines) == len(WORDS), said
    return lines


@case(nodes=3, limit=240)
def the_tsunami_has_the_same_bits_on_several_nodes(cluster):
    argv = command(cluster, build(cluster))

    def results(layout, comm):
        return told(cluster.mpirun("openmpi", layout, argv + [comm], limit=100))

    one = results([4], "kolo")
    for layout in ([2, 2], [1, 2, 2], [3, 1, 3]):
        with cluster.moved("node2") as moved:
            several = results(layout, "kolo")
        assert several == one, (layout, several, one)
        # Its halos crossed the link, each step anew.
        assert min(moved.sent, moved.received) > 128 << 10, (layout, vars(moved))
    # The field, though not its sums, has the bits of plain MPI.
    assert results([2, 2], "mpi")["checksum"] == one["checksum"]


@case(nodes=4, switches=2, slurm=True, limit=240)
def the_tsunami_has_the_same_bits_under_srun(cluster):
    argv = command(cluster, build(cluster))
    results = []
    for nodes in (1, 2, 4):
        words = ["-N%d" % nodes, "--ntasks-per-node=%d" % (4 // nodes), "--mpi=pmix"]
        with cluster.moved("node1") as moved:
            results.append(told(cluster.srun(words, argv + ["kolo"], limit=100)))
        assert nodes == 1 or min(moved.sent, moved.received) > 128 << 10, (nodes, vars(moved))
    assert results[1:] == results[:1] * 2, results
