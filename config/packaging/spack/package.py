# Copyright The kolo developers.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

"""kolo for Spack, from 0.23 on: put this file into a repository (`spack repo create`), as
`packages/kolo/package.py` beside its `repo.yaml`."""

from spack.package import *

try:
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:  # Spack before 1.0
    from spack.build_systems.makefile import MakefilePackage


class Kolo(MakefilePackage):
    """Collective communication for batch HPC jobs: the architecture of NCCL on the memory of
    cores, called from C, Fortran and Rust, started by mpirun or srun."""

    homepage = "https://example.org/kolo"
    git = "https://example.org/kolo.git"

    license("MIT OR Apache-2.0")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("abi", default=False, description="For any MPI with MPI 5's standard interface")
    variant("fortran", default=True, description="Build the Fortran module")

    depends_on("c", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("rust@1.89:", type="build")
    depends_on("gmake", type="build")
    depends_on("cmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("llvm+clang", type="build")
    depends_on("hwloc@2:")
    depends_on("rdma-core")
    depends_on("mpi")
    depends_on("mpich@5:", when="+abi")

    conflicts("+fortran", when="+abi", msg="the standard interface of MPI 5 is for C alone")

    def setup_build_environment(self, env):
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)
        # cargo keeps what it fetches beside the build.
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))
        # Spack's own modules know what must be loaded before.
        env.set(f"MODULES_{self.family}", "")
        if self.family == "abi":
            env.set("MPICC_ABI", self.spec["mpi"].prefix.bin.mpicc_abi)

    @property
    def family(self):
        """Whose binary interface the MPI has."""
        if self.spec.satisfies("+abi"):
            return "abi"
        return "openmpi" if self.spec.satisfies("^openmpi") else "mpich"

    @property
    def words(self):
        """What make is told."""
        mpi = self.spec["mpi"]
        words = [
            f"FAMILIES={self.family}",
            f"MPI={self.family}",
            "COMPILERS={0}".format(spack_fc if self.spec.satisfies("+fortran") else ""),
            f"PREFIX={self.prefix}",
        ]
        if self.family != "abi":
            words.append(f"MPICC_{self.family}={mpi.mpicc}")
            if self.spec.satisfies("+fortran"):
                words.append(f"MPIFC_{self.family}={mpi.mpifc}")
        return words

    def build(self, spec, prefix):
        make("build", *self.words)

    def install(self, spec, prefix):
        make("install", *self.words)

    def setup_run_environment(self, env):
        env.set(
            "KOLO_MPI_LIBRARY",
            join_path(self.prefix.lib, "kolo", self.family, "libkolo_mpi.so"),
        )
        env.prepend_path(
            "PKG_CONFIG_PATH", join_path(self.prefix.lib, "kolo", self.family, "pkgconfig")
        )
