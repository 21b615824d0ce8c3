#!/usr/bin/env python3
"""Holds the recipes of config/packaging against the tree, as far as that goes without their tools.

    tests/install/packaging.py PACKED    PACKED is an installation for /usr, by DESTDIR

Versions and names are those of Cargo.toml, the variables that make is given are in the Makefile,
and the package for Debian takes every installed file. (That for RHEL and Fedora is in rpm.py.)
"""
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import types

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
RECIPES = TOP / "config/packaging"
CARGO = tomllib.loads((TOP / "Cargo.toml").read_text())
VERSION = CARGO["workspace"]["package"]["version"]
RUST = CARGO["workspace"]["package"]["rust-version"]
MAKEFILE = (TOP / "Makefile").read_text() + (TOP / "bindings/install.sh").read_text()


def check(holds: bool, what: str) -> None:
    """Ends the program with `what` unless it holds."""
    if not holds:
        sys.exit(f"FAIL  packaging: {what}")


def words_for_make(words: list[str], of: str) -> dict[str, str]:
    """Words as NAME=VALUE; each name is one that make or the installer reads."""
    given = dict(word.split("=", 1) for word in words)
    for name in given:
        stem = re.sub(r"_(openmpi|mpich)$", "_", name)
        check(re.search(rf"\b{stem}", MAKEFILE) is not None, f"{of} sets {name}: nobody reads it")
    return given


class Spec:
    """As much of Spack's specs as the recipe asks for."""

    def __init__(self, *has: str):
        self.has = has
        prefix = types.SimpleNamespace(lib="/llvm/lib", bin=types.SimpleNamespace(mpicc_abi="m"))
        self.part = types.SimpleNamespace(mpicc="/mpi/mpicc", mpifc="/mpi/mpifort", prefix=prefix)

    def satisfies(self, what: str) -> bool:
        return what in self.has

    def __getitem__(self, _: str):
        return self.part


def recipe_of_spack(release: str, names: dict) -> type:
    """The class of the recipe, as a release of Spack imports it."""
    base = {"MakefilePackage": type("MakefilePackage", (), {})}
    places = {"0.23": {"spack": {}, "spack.package": names | base, "spack.build_systems": {},
                       "spack.build_systems.makefile": base},
              "1.0": {"spack": {}, "spack.package": names, "spack_repo": {},
                      "spack_repo.builtin": {}, "spack_repo.builtin.build_systems": {},
                      "spack_repo.builtin.build_systems.makefile": base}}[release]
    for place, inside in places.items():
        sys.modules[place] = types.ModuleType(place)
        sys.modules[place].__dict__.update(inside)
        sys.modules[place].__path__ = []
    # Both releases put these into the recipe before it builds.
    recipe = {"spack_fc": "/spack/gfortran", "make": names["make"]}
    try:
        exec(compile((RECIPES / "spack/package.py").read_text(), "package.py", "exec"), recipe)
    except (ImportError, NameError) as error:
        check(False, f"Spack {release} cannot read its recipe: {error}")
    for place in places:
        del sys.modules[place]
    check(issubclass(recipe["Kolo"], base["MakefilePackage"]), f"Spack {release}: another kind")
    return recipe["Kolo"]


def spack(release: str) -> None:
    """Runs the recipe with directives that only take notes."""
    notes: dict[str, list[tuple]] = {}

    def directive(name: str):
        return lambda *args, **rest: notes.setdefault(name, []).append((args, rest))

    names = {name: directive(name) for name in
             ("license", "version", "variant", "depends_on", "conflicts")}
    built: list[tuple] = []
    names |= {"join_path": lambda *parts: "/".join(map(str, parts)),
              "make": lambda *words: built.append(words)}
    kolo = recipe_of_spack(release, names)
    check((VERSION,) in [args for args, _ in notes["version"]], f"Spack has no {VERSION}")
    needed = [args[0] for args, _ in notes["depends_on"]]
    check(f"rust@{RUST}:" in needed and "hwloc@2:" in needed, f"Spack needs {needed}")
    for has, family in ((("+fortran", "^openmpi"), "openmpi"), (("+fortran",), "mpich"),
                        (("+abi",), "abi")):
        package = kolo()
        package.spec = Spec(*has)
        package.prefix = types.SimpleNamespace(lib="/p/lib")
        package.build(None, None)
        package.install(None, None)
        (target, *words) = built[-1]
        given = words_for_make(words, "Spack")
        check(target == "install" and given["FAMILIES"] == family, f"Spack: {built[-1]}")
        check(bool(given["COMPILERS"]) == (family != "abi"), f"Spack: {given}")


def easybuild() -> None:
    """Runs the recipe as EasyBuild does, with its templates left as they are."""
    (path,) = (RECIPES / "easybuild").glob("*.eb")
    recipe = {"SOURCE_TAR_GZ": ""}
    exec(compile(path.read_text(), path.name, "exec"), recipe)
    chain = recipe["toolchain"]
    name = f"{recipe['name']}-{recipe['version']}-{chain['name']}-{chain['version']}.eb"
    check(path.name == name, f"EasyBuild wants the name {name}")
    check(recipe["version"] == VERSION, f"EasyBuild has {recipe['version']}")
    given = words_for_make(recipe["installopts"].split(), "EasyBuild")
    check(given["PREFIX"] == "%(installdir)s", f"EasyBuild: {given}")
    rust = dict(recipe["builddependencies"])["Rust"]
    newer = [tuple(map(int, text.split("."))) for text in (rust, RUST)]
    check(newer[0] >= newer[1], f"EasyBuild builds with Rust {rust}, kolo needs {RUST}")


def debian(packed: pathlib.Path) -> None:
    """Every installed file is in the package once, with its mode."""
    deb = CARGO["package"]["metadata"]["deb"]
    taken: dict[str, str] = {}
    for source, target, mode in deb["assets"]:
        found = glob.glob(str(packed / source.removeprefix("build/package/")), recursive=True)
        check(bool(found), f"Debian: nothing is {source}")
        stem = source.removeprefix("build/package/").split("*")[0]
        for name in found:
            if pathlib.Path(name).is_dir():
                continue
            inside = pathlib.Path(name).relative_to(packed)
            place = target + str(inside)[len(stem):] if "*" in source else target + inside.name
            check(place == str(inside), f"Debian: {inside} would go to {place}")
            taken.setdefault(place, mode)
    # What only `make uninstall` reads stays away; so does a link to a folder, of which a copy would
    # be made.
    left = {"usr/share/kolo/manifest", "usr/share/kolo/sums", "usr/share/kolo/kolo.toml"}
    for path in packed.rglob("*"):
        name = str(path.relative_to(packed))
        if path.is_dir() or name in left:
            continue
        check(name in taken, f"Debian: {name} is in no asset")
        mode = oct(path.stat().st_mode & 0o777)[2:]
        check(path.is_symlink() or mode == taken[name] or name.startswith("usr/lib/"),
              f"Debian: {name} has mode {mode}, and {taken[name]} in the package")
    check(deb["conf-files"] == ["/etc/kolo/kolo.toml"], "Debian: settings are no conf-file")
    check((TOP / deb["triggers-file"]).is_file(), "Debian: no triggers")
    debian_names(deb)
    debian_settings(deb, packed)


def debian_names(deb: dict) -> None:
    """The packages of one MPI and of several have names of their own, and exclude each other."""
    names = {"kolo": deb} | {f"kolo-{mpi}": words for mpi, words in deb["variants"].items()}
    (known,) = re.findall(r"^KNOWN *:= (.*)$", MAKEFILE, re.MULTILINE)
    check(set(deb["variants"]) == set(known.split()), f"Debian: no package for each of {known}")
    for name, words in names.items():
        check(set(words["conflicts"].split(", ")) == set(names) - {name}, f"{name} beside others")
        check(words["conflicts"] == words["replaces"], f"{name} takes the place of others")
        check((words.get("provides") == "kolo") == (name != "kolo"), f"{name} is no kolo")
    for given, wanted in (((), None), (("MPI=mpich",), "mpich"),
                          (("FAMILIES=openmpi mpich",), None), (("FAMILIES=openmpi",), "openmpi")):
        said = subprocess.run(["make", "--dry-run", "deb", *given], capture_output=True, text=True,
                              check=True, cwd=TOP).stdout
        (made,) = re.findall(r"^.*cargo deb.*$", said, re.MULTILINE)
        found = re.search(r"--variant=(\w+)", made)
        check((found and found[1]) == wanted, f"make deb {given} does: {made}")


def debian_settings(deb: dict, packed: pathlib.Path) -> None:
    """Settings that were kept and do not hold are told when the package is there."""
    script = TOP / deb["maintainer-scripts"] / "postinst"
    with tempfile.TemporaryDirectory() as folder:
        settings = pathlib.Path(folder) / "kolo.toml"
        for text, told in (("nchannels = 3\n", True), ("# mine\n", False)):
            settings.write_text(text)
            env = {"PATH": f"{packed}/usr/bin:{os.environ['PATH']}", "SETTINGS": str(settings)}
            said = subprocess.run([script, "configure"], capture_output=True, text=True, check=True,
                                  env=env).stderr
            found = f"{settings}, line 1" in said and "`nchannels`" in said
            check(found == ("every job ends" in said) == told, f"Debian: kept {text}: {said}")


def pages() -> None:
    """Examples in the pages have this version, as the modules that are installed do."""
    of_sites = [*TOP.glob("docs/**/*.md"), TOP / "slurm/README.md", TOP / "README.md",
                TOP / "Makefile"]
    found = [(page.name, text) for page in of_sites
             for text in re.findall(r"(?:opt/kolo|load kolo|kolo)/(\d[\d.]*)", page.read_text())]
    check(len(found) >= 10, f"pages name only {found}")
    for page, text in found:
        check(text == VERSION, f"{page} tells of kolo {text}, and this is {VERSION}")


def main() -> int:
    for release in ("0.23", "1.0"):
        spack(release)
    easybuild()
    pages()
    debian(pathlib.Path(sys.argv[1]).resolve())
    print("ok    recipes for Spack, EasyBuild and Debian")
    return 0


if __name__ == "__main__":
    sys.exit(main())
