#!/usr/bin/env python3
"""Builds the package for RHEL and Fedora from what is built here, and reads its requirements.

    BUILT=target/debug tests/install/rpm.py

The recipe is config/packaging/rpm/kolo.spec, without the parts that unpack and compile. What the
package requires must be named as RHEL and Fedora name it: a requirement that no package there
provides makes a package that nobody can install. Their names were taken from RHEL 9 and Fedora 40.
"""
import os
import pathlib
import platform
import random
import re
import subprocess
import sys
import tempfile
import tomllib

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = TOP / "config/packaging/rpm/kolo.spec"
PACKAGE = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]
VERSION, RUST = PACKAGE["version"], PACKAGE["rust-version"]
ARCH = platform.machine()
MPIS = ("openmpi", "mpich")
# The libraries of MPIs lie in folders of their own there, and say in what they provide which MPI
# they are of: nothing provides `libmpi.so.40()(64bit)`.
OF_MPI = {"openmpi": f"libmpi.so.40()(64bit)(openmpi-{ARCH})",
          "mpich": f"libmpi.so.12()(64bit)(mpich-{ARCH})"}
# What glibc, libgcc, libstdc++, hwloc-libs, libibverbs, libfabric, bash and rpm itself provide, as
# patterns.
PROVIDED = [r"ld-linux-[\w-]+\.so\.\d\((GLIBC_[\d.]+)?\)\(64bit\)",
            r"lib(c|m)\.so\.6\((GLIBC_[\d.]+)?\)\(64bit\)",
            r"libgcc_s\.so\.1\((GCC_[\d.]+)?\)\(64bit\)",
            r"libstdc\+\+\.so\.6\(((GLIBCXX|CXXABI)_[\d.]+)?\)\(64bit\)",
            r"libhwloc\.so\.15\(\)\(64bit\)", r"libibverbs\.so\.1\((IBVERBS_[\d.]+)?\)\(64bit\)",
            r"libfabric\.so\.1\((FABRIC_[\d.]+)?\)\(64bit\)",
            r"rtld\(GNU_HASH\)", r"/bin/sh", r"/usr/bin/(env|bash)", r"rpmlib\(\w+\) <= .*"]


def check(holds: bool, what: str) -> None:
    """Ends the program with `what` unless it holds."""
    if not holds:
        sys.exit(f"FAIL  RPM: {what}")


def run(*words: str | pathlib.Path, **env: str) -> str:
    """What a command prints; it must succeed and complain of nothing."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=TOP,
                          env=dict(os.environ, **env))
    check(done.returncode == 0, f"{words[0]}: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


def parsed(mpi: str, *more: str) -> str:
    """The recipe with its macros expanded."""
    said = run("rpmspec", "--parse", "--define", f"mpi {mpi}", *more, SPEC)
    check(f"\nVersion:        {VERSION}\n" in said, "another version in kolo.spec")
    check(f"cargo >= {RUST}\n" in said, f"kolo.spec does not ask for Rust {RUST}")
    (line,) = re.findall(r"^make build (.*)$", said, re.MULTILINE)
    given = dict(word.split("=", 1) for word in line.split())
    check(given["MPI"] == given["FAMILIES"] == mpi and f"MPICC_{mpi}" in given, f"built by {given}")
    return said


def recipe() -> None:
    """Each MPI has its own names, for each kind of distribution, and without the package of one."""
    for mpi in MPIS:
        said = parsed(mpi, "--define", "fedora 40")
        check(f"\nRequires:       {OF_MPI[mpi]}\n" in said, f"Fedora's {mpi} is not required")
        check(f"\nBuildRequires:  {mpi}-devel\n" in said, f"{mpi}-devel is not required")
        plain = OF_MPI[mpi].removesuffix(f"({mpi}-{ARCH})")
        check(f"\nRequires:       {plain}\n" in parsed(mpi, "--undefine", "rhel", "--undefine",
                                                       "fedora"), "another distribution's")
        site = parsed(mpi, "--without", "system_mpi", "--define", f"mpi_modules site/{mpi}")
        check("\nRequires:" not in site and f"{mpi}-devel" not in site, "a site's MPI: required")
        check(f'MODULES_{mpi}="site/{mpi}" ' in site, "a site's own MPI: its module")


def built(mpi: str, work: pathlib.Path) -> pathlib.Path:
    """The package of what is built here, as RHEL would call it, without what debuggers read."""
    text = SPEC.read_text()
    for old, new in ((r"^%setup .*$", "true"), (r"^make build .*$", "true"),
                     (r"^(MODULES_.* bindings/install.sh .*)$", r"cd '%s'\n\1\n"
                      r"find %%{buildroot} -name .debug -prune -exec rm -r {} +\n"
                      r"sed -i /[.]debug$/d %%{buildroot}%%{top}/share/kolo/manifest" % TOP)):
        text, found = re.subn(old, new, text, flags=re.MULTILINE)
        check(found == 1, f"the recipe has {found} lines {old}")
    spec = work / "kolo.spec"
    spec.write_text(text)
    words = {"mpi": mpi, "rhel": "9", "_topdir": work, "_binary_payload": "w.ufdio",
             "__os_install_post": "%{nil}"}
    defined = [word for name, value in words.items() for word in ("--define", f"{name} {value}")]
    run("rpmbuild", "-bb", "--nodeps", "--quiet", *defined, spec, KERNELS="/nonexistent")
    (package,) = work.glob("RPMS/*/*.rpm")
    return package


def installable(mpi: str, package: pathlib.Path) -> None:
    """Every requirement is one that RHEL and Fedora fulfil."""
    check(package.name.startswith(f"kolo-{mpi}-{VERSION}-"), f"{mpi} makes {package.name}")
    required = run("rpm", "-qp", "--requires", package).splitlines()
    check(OF_MPI[mpi] in required, f"{mpi} is not required: {required}")
    check(len(required) >= 10, f"these are no requirements of libraries: {required}")
    known = [*PROVIDED, re.escape(OF_MPI[mpi]), rf"config\(kolo-{mpi}\) = .*"]
    for one in required:
        check(any(re.fullmatch(pattern, one) for pattern in known),
              f"nothing in RHEL or Fedora provides {one}")
    provided = run("rpm", "-qp", "--provides", package)
    check(".so" not in provided, f"libraries are offered to the whole system: {provided}")
    # Packages of several MPIs and versions have no file in common.
    names = run("rpm", "-qpl", package).splitlines()
    own = f"/opt/kolo/{VERSION}/{mpi}"
    shared = [name for name in names if not f"{name}/".startswith(f"{own}/")]
    check(shared == ["/opt/kolo", f"/opt/kolo/{VERSION}"], f"not below {own}: {shared}")
    for name in (f"lib/kolo/{mpi}/libkolo_mpi.so.0", f"share/modulefiles/kolo/{VERSION}-{mpi}"):
        check(f"{own}/{name}" in names, f"{name} is not in it")


def reads_settings(mpi: str, package: pathlib.Path, work: pathlib.Path) -> None:
    """Settings that were kept and do not hold are told when the package is there."""
    (script,) = re.findall(r"^posttrans .*:\n((?:.|\n)*)", run("rpm", "-qp", "--scripts", package))
    place = work / VERSION / mpi
    for name in ("bin", "etc"):
        (place / name).mkdir(parents=True)
    here = TOP / os.environ.get("BUILT", "target/release")
    (place / "bin/kolo").symlink_to((here / "kolo").resolve())
    for text, told in (("nchannels = 3\n", True), ("# mine\n", False)):
        (place / "etc/kolo.toml").write_text(text)
        said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True,
                              env=dict(os.environ, RPM_INSTALL_PREFIX=str(work))).stderr
        found = f"{place}/etc/kolo.toml, line 1" in said and "`nchannels`" in said
        check(found == ("every job ends" in said) == told, f"kept settings {text}: {said}")


def main() -> int:
    recipe()
    seed = int(os.environ.get("KOLO_TEST_SEED") or random.randrange(1 << 32))
    mpi = random.Random(seed).choice(MPIS)
    with tempfile.TemporaryDirectory() as folder:
        package = built(mpi, pathlib.Path(folder))
        installable(mpi, package)
        reads_settings(mpi, package, pathlib.Path(folder))
    print(f"ok    the RPM for {mpi} requires what RHEL and Fedora have (KOLO_TEST_SEED={seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
