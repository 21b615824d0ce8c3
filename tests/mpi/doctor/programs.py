#!/usr/bin/env python3
"""Programs of both MPIs, each brought in a way that is drawn, and what `kolo doctor` says of them.

SEED=7 draws the same again. A program is C or Fortran, and names its MPI itself or through
libraries that are found by RPATH, RUNPATH or LD_LIBRARY_PATH. It loads one MPI, or both, or the
libkolo_mpi of one of them. The doctor must name each of these faults, and nothing else.
"""
import itertools
import json
import os
import random
import subprocess
import sys

PREFIX, KOLO, MPI, MPIRUN = (os.environ[name] for name in ("PREFIX", "KOLO", "MPI", "MPIRUN"))
OTHER = {"openmpi": "mpich", "mpich": "openmpi"}[MPI]
# Each launcher as the doctor knows it: `--node` asks no other process.
STARTED = {"openmpi": {"OMPI_COMM_WORLD_SIZE": "2"}, "mpich": {"PMI_SIZE": "2"}}[MPI]
SEED = int(os.environ.get("SEED") or random.randrange(1 << 32))
DRAWN = random.Random(SEED)
NUMBER = itertools.count()

C = "int MPI_Init(int *, char ***); int MPI_Finalize(void);" \
    "int %s(void); int %s(void) { return MPI_Init(0, 0) || MPI_Finalize(); }\n"
FORTRAN = "subroutine %s() bind(c)\n use mpi\n integer :: e\n call mpi_init(e)\n" \
          " call mpi_finalize(e)\nend subroutine\n"


def sh(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


class Build:
    """A program, its libraries, and the folders of LD_LIBRARY_PATH that it needs."""

    def __init__(self):
        self.folder = "p%d" % next(NUMBER)
        os.makedirs(self.folder)
        self.search = []
        self.words = []

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def where(self):
        """How the loader finds a library of the folder."""
        way = DRAWN.choice(["rpath", "runpath", "variable", "origin"])
        self.words.append(way)
        if way == "variable":
            self.search.append(os.path.abspath(self.folder))
            return ["-Wl,-rpath-link," + self.folder]
        tags = "--disable-new-dtags" if way == "rpath" else "--enable-new-dtags"
        place = "$ORIGIN" if way == "origin" else os.path.abspath(self.folder)
        return ["-Wl,%s,-rpath,%s" % (tags, place)]

    def library(self, mpi):
        """A library that calls this MPI; its file, and the function that does."""
        name = "call%d" % next(NUMBER)
        out = os.path.join(self.folder, "lib%s.so" % name)
        language = DRAWN.choice(["c", "fortran"])
        self.words += [language, mpi]
        common = ["-shared", "-fPIC", "-Wl,--as-needed", "-o", out]
        if language == "c":
            compiler, source = "mpicc." + mpi, self.file(name + ".c", C % (name, name))
        else:
            compiler, source = "mpifort." + mpi, self.file(name + ".f90", FORTRAN % name)
            common.append("-J" + self.folder)
        sh(compiler, *common, source)
        return out, name

    def above(self, library):
        """One more library, which needs that one."""
        path, name = library
        upper = "over%d" % next(NUMBER)
        out = os.path.join(self.folder, "lib%s.so" % upper)
        text = "int %s(void); int %s(void); int %s(void) { return %s(); }\n"
        source = self.file(upper + ".c", text % (name, upper, upper, name))
        sh("cc", "-shared", "-fPIC", *self.where(), "-o", out, source, "-L" + self.folder,
           "-l:" + os.path.basename(path))
        self.words.append("above")
        return out, upper

    def program(self, libraries, more=()):
        """A program that calls all of these."""
        names = [name for _, name in libraries]
        text = "".join("int %s(void);\n" % name for name in names)
        text += "int main(void) { return %s; }\n" % " + ".join(["0"] + [n + "()" for n in names])
        out = os.path.join(self.folder, "model")
        needed = ["-l:" + os.path.basename(path) for path, _ in libraries]
        sh("cc", *self.where(), "-o", out, self.file("model.c", text), "-L" + self.folder,
           "-Wl,--allow-shlib-undefined,--no-as-needed", *needed, *more)
        return out

    def chain(self, mpi):
        """Its MPI at the end of up to two more libraries."""
        library = self.library(mpi)
        for _ in range(DRAWN.randrange(3)):
            library = self.above(library)
        return library

    def asked(self, path):
        """The findings on MPI, and the notes."""
        env = dict(os.environ, **STARTED)
        if self.search:
            env["LD_LIBRARY_PATH"] = ":".join(self.search)
        done = subprocess.run([KOLO, "doctor", "--node", "--json", path], env=env, text=True,
                              capture_output=True, timeout=60)
        assert done.returncode in (0, 1), (self.words, done.stdout, done.stderr)
        said = json.loads(done.stdout)
        found = [one for one in said["findings"] if one["check"] == "MPI"]
        assert all(one["fix"] and "\n" not in one["what"] + one["fix"] for one in found), found
        return found, said["notes"]

    def finds(self, path, *words, notes=()):
        """Asserts that exactly one thing is found, with these words; without words, nothing."""
        found, noted = self.asked(path)
        text = "%s: %s\nfound: %s\nnotes: %s" % (path, self.words, found, noted)
        assert len(found) == (1 if words else 0), text
        for one in found:
            assert all(word in one["what"] + "; fix: " + one["fix"] for word in words), text
        if notes:
            assert len(noted) == 1 and all(word in noted[0] for word in notes), text
        else:
            assert noted == [], text


def kolo_mpi(mpi):
    """The words that link a program to the libkolo_mpi of this MPI."""
    folder = os.path.join(PREFIX, "lib", "kolo", mpi)
    lib = os.path.join(PREFIX, "lib")
    return ["-L" + folder, "-L" + lib, "-lkolo_mpi", "-lkolo", "-Wl,-rpath," + folder,
            "-Wl,-rpath," + lib]


def one_mpi():
    """A program of one MPI, in each language and through libraries."""
    for mpi in (MPI, OTHER):
        build = Build()
        words = ["is linked to " + OTHER] if mpi == OTHER else []
        build.finds(build.program([build.chain(mpi)]), *words)
    build = Build()
    source = build.file("all.f90", "program all\n use mpi\n integer :: e\n call mpi_init(e)\n"
                        " call mpi_finalize(e)\nend program\n")
    out = os.path.join(build.folder, "all")
    sh("mpifort." + OTHER, "-J" + build.folder, "-Wl,--as-needed", source, "-o", out)
    build.finds(out, "is linked to " + OTHER)
    return build, out


def both():
    """Two MPIs in one program, in either order."""
    build = Build()
    mpis = [MPI, OTHER]
    DRAWN.shuffle(mpis)
    libraries = [build.chain(mpi) for mpi in mpis]
    build.finds(build.program(libraries), "loads two MPIs", MPI, OTHER)


def of_kolo():
    """The libkolo_mpi of one MPI, alone or in a program of one."""
    for built, mpi in itertools.product((MPI, OTHER), (None, MPI, OTHER)):
        build = Build()
        build.words.append("libkolo_mpi of " + built)
        chain = [build.chain(mpi)] if mpi else []
        path = build.program(chain, kolo_mpi(built))
        if mpi not in (None, built):
            found, _ = build.asked(path)
            whats = [one["what"] for one in found]
            assert any("libkolo_mpi of " + built in what and mpi in what for what in whats), (
                build.words, whats)
            assert len(found) == (1 if mpi == MPI else 2), (build.words, whats)
        else:
            build.finds(path, *(["is linked to " + OTHER] if built == OTHER else []))


def untold():
    """Programs whose MPI cannot be told, which is said; and one that needs none."""
    build = Build()
    script = build.file("run.sh", "#!/bin/sh\nexec ./model\n")
    build.finds(script, notes=["run.sh", "a script", "#!/bin/sh"])
    source = build.file("main.c", "int main(void) { return 0; }\n")
    for kind, words, note in (
            ("static", ["-static", "-s"], "static"), ("plain", [], "loads no MPI")):
        out = os.path.join(build.folder, kind)
        sh("cc", source, *words, "-o", out)
        build.finds(out, notes=[kind, note])
    source = build.file("open.c", "#include <dlfcn.h>\n"
                        "int main(int n, char **a) { return n > 1 && !dlopen(a[1], 1); }\n")
    out = os.path.join(build.folder, "opens")
    sh("cc", source, "-o", out, "-ldl")
    build.finds(out, notes=["opens", "dlopen"])
    away = build.library(MPI)
    out = build.program([away])
    os.remove(away[0])
    build.finds(out, os.path.basename(away[0]), "does not find", "LD_LIBRARY_PATH",
                notes=["loads no MPI"])


def under_mpirun(build, path):
    """The whole command, as a user types it."""
    words = MPIRUN.split() + ["-n", "2", KOLO, "doctor"]
    done = subprocess.run(words + [path], text=True, capture_output=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if "MPI: " in line]
    assert done.returncode != 0 and len(lines) == 1, (done.stdout, done.stderr)
    assert "is linked to " + OTHER in lines[0] and "; fix: " in lines[0], lines
    script = os.path.join(build.folder, "run.sh")
    with open(script, "w") as out:
        out.write("#!/bin/sh\nexec ./model\n")
    done = subprocess.run(words + [script], text=True, capture_output=True, timeout=60)
    assert "MPI: " + script in done.stderr and "a script" in done.stderr, done.stderr
    assert not done.stderr.rstrip().endswith(": nothing found"), done.stderr


def main():
    print("SEED=%d" % SEED)
    build, path = one_mpi()
    both()
    of_kolo()
    untold()
    under_mpirun(build, path)
    print("doctor (%s): ok" % MPI)


if __name__ == "__main__":
    sys.exit(main())
