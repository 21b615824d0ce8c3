#!/usr/bin/env python3
"""Checks the machine code of the kernels against what their source relies on.

    kernels/check_sass.py FATBIN [--ptx-version 7.0]   all kernels, each architecture, the PTX
    kernels/check_sass.py --self-test PTX              breaks kernels, and sees each rule fail

Needs cuobjdump and nvdisasm in the PATH (kernels/build.sh sets it), and for the self-test ptxas.
Each rule of RULES says what it found, and which kernel of which architecture breaks it, in which
instruction.
"""
import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]
PROTOCOLS = ["Simple", "Ll", "Ll128"]
THREADS = 640  # of a block at most: KOLO_KERNEL in device.h
REGISTERS = 65536  # of a multiprocessor
SHARED = 48 * 1024  # of a block, without asking the driver for more
# How far an instruction that orders memory is from the one that it belongs to.
NEAR = 16
# Loads of 16 bytes that a thread has under way at once.
LEAST_LOADS = 8
# Folds that take longer than their loads: there ptxas begins some loads later, to save registers.
LONG_FOLDS = r"_Float8|_(Int8|Uint8|Float16|Bfloat16)_(Max|Min)$"


@dataclasses.dataclass
class Kernel:
    """A kernel's code in one architecture: its instructions, and those of its subroutines."""

    name: str
    arch: str
    code: list[str] = dataclasses.field(default_factory=list)
    subroutines: list[str] = dataclasses.field(default_factory=list)
    usage: dict[str, int] = dataclasses.field(default_factory=dict)

    def lines(self, pattern: str) -> list[str]:
        """The instructions outside of subroutines that match from their name on."""
        return [line for line in self.code if re.match(pattern, line)]

    @property
    def protocol(self) -> str:
        return self.name.split("_")[1]

    @property
    def op(self) -> str:
        return self.name.split("_")[3]


class Broken(Exception):
    """A rule does not hold: what is wrong, and the instruction."""


def expected() -> list[str]:
    """The names of all kernels, from kernels.def."""
    text = (HERE / "kernels.def").read_text()
    listed = re.findall(r"KOLO_EACH\(([A-Z]\w*), ([A-Z]\w*)\)", text)
    return [f"kolo2_{one}_{kind}_{op}" for one in PROTOCOLS for kind, op in listed]


def run(*command: str | pathlib.Path, cwd: pathlib.Path | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAIL  {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


# ---- reading


def kernels_of(cubin: pathlib.Path, arch: str) -> list[Kernel]:
    """What nvdisasm prints, without addresses and predicates, by kernel."""
    found: dict[str, Kernel] = {}
    kernel, lines = None, []
    for line in run("nvdisasm", "-c", cubin).splitlines():
        if begin := re.match(r"\.text\.(\w+):", line):
            kernel = found.setdefault(begin[1], Kernel(begin[1], arch))
            lines = kernel.code
        elif kernel and re.match(r"\s*\$\S*__internal_\S*:", line):
            lines = kernel.subroutines
        elif kernel and (one := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;", line)):
            lines.append(one[1])
    for name, usage in re.findall(
        r"Function (\w+):\s*\n\s*(REG:.*)", run("cuobjdump", "-res-usage", cubin)
    ):
        pairs = re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage)
        found[name].usage = {key: int(value) for key, value in pairs}
    return list(found.values())


def images(fatbin: pathlib.Path, folder: pathlib.Path) -> tuple[dict[str, pathlib.Path], list[str]]:
    """Takes a fat binary apart: the machine code by architecture, and the text of all PTX."""
    run("cuobjdump", "--extract-elf", "all", "--extract-ptx", "all", fatbin.resolve(), cwd=folder)
    cubins = {}
    for path in folder.glob("*.cubin"):
        cubins[re.search(r"\.(sm_\w+)\.cubin$", path.name)[1]] = path
    return cubins, [path.read_text() for path in folder.glob("*.ptx")]


# ---- the rules: each returns what it found, or raises Broken


def memory(kernel: Kernel) -> str:
    for line in kernel.code + kernel.subroutines:
        if re.match(r"(LDL|STL)\b", line):
            raise Broken(f"local memory: {line}")
    if kernel.usage["STACK"] or kernel.usage["LOCAL"]:
        raise Broken(f"a stack of {kernel.usage['STACK']} bytes, {kernel.usage['LOCAL']} local")
    return "no local memory"


def resources(kernel: Kernel) -> str:
    # A warp gets registers by 256: 8 for each of its threads.
    warps = THREADS // 32
    most = REGISTERS // warps // 256 * 8
    if kernel.usage["REG"] > most:
        raise Broken(f"{kernel.usage['REG']} registers, and {THREADS} threads have {most} each")
    if kernel.usage["SHARED"] > SHARED:
        raise Broken(f"{kernel.usage['SHARED']} bytes of shared memory of {SHARED}")
    return f"{kernel.usage['REG']} registers, {kernel.usage['SHARED']} bytes of shared memory"


def width(kernel: Kernel) -> str:
    line = r"\.STRONG\.SYS\b" if kernel.protocol != "Simple" else r"\s"
    counts = []
    for what in ["LDG", "STG"]:
        wide = kernel.lines(rf"{what}\.E\.128{line}")
        if not wide:
            raise Broken(f"no {what} of 16 bytes" + (" past the cache" if "SYS" in line else ""))
        counts.append(f"{len(wide)} {what}")
    # A line in two halves: 8-byte accesses past the cache are counts only, which order memory.
    for torn in kernel.lines(r"(LDG|STG)\.E\.(U8|U16|S8|S16)?\.?STRONG") if "SYS" in line else []:
        if not re.match(r"LDG\.E\.STRONG\.SYS", torn):
            raise Broken(f"a part of a line: {torn}")
    return "16 bytes: " + ", ".join(counts)


def order(kernel: Kernel) -> str:
    """Counts: a load, then the first-level cache forgets; all is visible, then a store."""
    loads = stores = 0
    for at, line in enumerate(kernel.code):
        if re.match(r"LDG\.E\.64\.STRONG\.SYS", line):
            loads += 1
            if not any(re.match(r"CCTL\.IVALL", after) for after in kernel.code[at : at + NEAR]):
                raise Broken(f"no acquire after {line}")
        if re.match(r"STG\.E\.64\.STRONG\.SYS", line):
            stores += 1
            before = kernel.code[max(0, at - NEAR) : at]
            if not any(re.match(r"MEMBAR\.\w+\.SYS", one) for one in before):
                raise Broken(f"no release before {line}")
    if not loads or not stores:
        raise Broken(f"{loads} loads that acquire, {stores} stores that release")
    return f"{loads} acquire, {stores} release"


def loads_in_flight(kernel: Kernel) -> str:
    """Passes of Simple, and lines of LL: eight loads, before what the first one brings is used."""
    if kernel.protocol == "Ll128":
        return "one load of a line"
    moves, folds, at = [], [], 0
    while at < len(kernel.code):
        loads, use = run_of_loads(kernel.code[at:])
        if loads >= LEAST_LOADS:
            (moves if re.match(r"STG\.E\.128\s", use) else folds).append(loads)
        at += loads or 1
    if kernel.protocol == "Ll":
        if not folds:
            raise Broken(f"no {LEAST_LOADS} lines at once")
        return f"{len(folds)} folds with {LEAST_LOADS} lines at once"
    if not moves or not (folds or re.search(LONG_FOLDS, kernel.name)):
        raise Broken(f"{len(moves)} moves and {len(folds)} folds with {LEAST_LOADS} loads at once")
    return f"{len(moves)} moves and {len(folds)} folds with {LEAST_LOADS} loads at once"


def run_of_loads(code: list[str]) -> tuple[int, str]:
    """The loads of 16 bytes from here on until one is used, and the instruction that uses it."""
    loaded: set[str] = set()
    loads = 0
    for line in code:
        name, *words = re.split(r"[\s,]+", line)
        wide = re.match(r"LDG\.E\.128(?:\.STRONG\.SYS)?\s+R(\d+)", line)
        if not loads and not wide:
            break
        sources = words if name.startswith(("ST", "RED")) else words[1:]
        if loaded & set(re.findall(r"\bR\d+\b", " ".join(sources))):
            return loads, line
        if wide:
            loads += 1
            loaded |= {f"R{int(wide[1]) + word}" for word in range(4)}
        elif name.startswith(("EXIT", "RET")):
            break
    return loads, ""


def contraction(kernel: Kernel) -> str:
    """The only fused operations are those of divisions, whose code is the same every time."""
    singles = len(kernel.lines(r"FCHK\b"))
    doubles = len(kernel.lines(r"MUFU\.RCP64H\b"))
    for kind, count in [("FFMA", 5 * singles + doubles), ("DFMA", 7 * doubles)]:
        fused = kernel.lines(rf"{kind}2?\b")
        if len(fused) != count:
            first = f"; one is {fused[0]}" if fused else ""
            raise Broken(
                f"{len(fused)} {kind} where {singles} + {doubles} divisions have {count}{first}"
            )
    if (singles or doubles) and kernel.op != "Sum":
        raise Broken(f"{singles + doubles} divisions: only sums have averages")
    for line in kernel.lines(r"H(FMA|ADD|MUL|MNMX)2|F(ADD|MUL)2|.*\.BF16"):
        # So constants are moved, a half becomes a float, and two floats become bfloat16.
        exact = r"HFMA2(\.MMA)?\s+\w+, -RZ, RZ,|HADD2\.F32\s+\w+, -RZ, \w+(\.reuse)?\.H[01]_H[01]$"
        if not re.match(exact + r"|F2FP\.BF16(\.F32)?\.PACK_AB\b", line):
            raise Broken(f"arithmetic in 16 bits, or of pairs: {line}")
    return f"{singles + doubles} divisions, nothing else is fused"


def flushing(kernel: Kernel) -> str:
    allowed = 0
    for line in kernel.lines(r"\S*\.FTZ"):
        # Of the division of integers: its operand is a reciprocal, at least 2^-32.
        if not re.match(r"F2I\.FTZ\.U32\.TRUNC\.NTZ\b", line):
            raise Broken(f"small numbers become zero: {line}")
        allowed += 1
    return f"only {allowed} conversions in divisions of integers"


RULES = {
    "memory": memory,
    "resources": resources,
    "width": width,
    "order": order,
    "loads in flight": loads_in_flight,
    "contraction": contraction,
    "flushing": flushing,
}


def broken_rules(kernel: Kernel) -> dict[str, str]:
    found = {}
    for name, rule in RULES.items():
        try:
            rule(kernel)
        except Broken as broken:
            found[name] = str(broken)
    return found


def check_ptx(text: str, version: str, names: list[str]) -> list[str]:
    """What is wrong with the PTX: a driver compiles it with rules of its own."""
    wrong = []
    if f".version {version}\n" not in text or ".target sm_80\n" not in text:
        wrong.append(f"it is not .version {version} for .target sm_80")
    if sorted(re.findall(r"\.entry (\w+)\(", text)) != sorted(names):
        wrong.append("it has other kernels than kernels.def")
    for line in text.splitlines():
        # Without .rn a multiplication and an addition may become one.
        if re.match(r"\s*(add|sub|mul|div)\.(?!rn\.f)(\w+\.)*f(16|32|64)", line):
            wrong.append(f"rounding is left to the driver: {line.strip()}")
        if re.match(r"\s*(fma|mad\.\w+\.f|\S*\.ftz|\S*\.approx)", line):
            wrong.append(f"fused, flushed or approximate: {line.strip()}")
    return wrong


def check(fatbin: pathlib.Path, version: str) -> bool:
    names, holds = expected(), True
    with tempfile.TemporaryDirectory() as folder:
        cubins, texts = images(fatbin, pathlib.Path(folder))
        if sorted(cubins) != sorted(ARCHITECTURES) or len(texts) != 1:
            print(f"FAIL  it holds {sorted(cubins)} and {len(texts)} texts of PTX")
            return False
        for line in check_ptx(texts[0], version, names):
            print(f"FAIL  PTX: {line}")
            holds = False
        for arch in ARCHITECTURES:
            holds &= check_architecture(kernels_of(cubins[arch], arch), arch, names)
    return holds


def check_architecture(kernels: list[Kernel], arch: str, names: list[str]) -> bool:
    """Every rule on every kernel; says what is extreme in what was found."""
    differing = set(names) ^ {kernel.name for kernel in kernels}
    if differing:
        print(f"FAIL  {arch}: kernels.def and the file differ in {sorted(differing)}")
        return False
    holds = True
    for name, rule in RULES.items():
        said = set()
        for kernel in kernels:
            try:
                said.add(rule(kernel))
            except Broken as broken:
                print(f"FAIL  {arch} {kernel.name}, {name}: {broken}")
                holds = False
        if said:
            ranked = sorted(said, key=lambda words: [int(n) for n in re.findall(r"\d+", words)])
            span = ranked[0] if len(ranked) == 1 else f"{ranked[0]} ... {ranked[-1]}"
            print(f"      {arch} {name}: {span}")
    if holds:
        print(f"ok    {arch}: {len(kernels)} kernels")
    return holds


# ---- the self-test

# Which kernel is broken how, and the rule that must notice: words of PTX, and what replaces them.
MUTANTS = [
    ("Simple_Float_Sum", r"\.maxntid \d+(, 1, 1)?", ".maxntid 1024", "memory"),
    ("Simple_Float16_Sum", r"(\.shared .*)\[\d+\];", r"\1[49152];", "resources"),
    (
        "Simple_Int32_Sum",
        r"ld\.global\.v2\.u64 \{(\S+), (\S+)\}, \[(\S+)\];",
        r"ld.global.u64 \1, [\3]; ld.global.u64 \2, [\3+8];",
        "width",
    ),
    (
        "Ll_Int32_Sum",
        r"st\.volatile\.global\.v2\.u64 \[(\S+)\], \{(\S+), (\S+)\};",
        r"st.volatile.global.u64 [\1], \2; st.volatile.global.u64 [\1+8], \3;",
        "width",
    ),
    ("Ll128_Int32_Sum", r"ld\.volatile\.global\.v2", "ld.global.v2", "width"),
    ("Simple_Int32_Sum", r"ld\.acquire\.sys", "ld.relaxed.sys", "order"),
    ("Ll128_Int32_Sum", r"st\.release\.sys", "st.relaxed.sys", "order"),
    (
        "Simple_Float_Sum",
        r"ld\.global\.v2\.u64 \{(\S+), (\S+)\}, \[(\S+)\];",
        r"ld.global.v2.u64 {\1, \2}, [\3]; st.global.u64 [\3], \1;",
        "loads in flight",
    ),
    (
        "Ll_Int32_Sum",
        r"ld\.volatile\.global\.v2\.u64 \{(\S+), (\S+)\}, \[(\S+)\];",
        r"ld.volatile.global.v2.u64 {\1, \2}, [\3]; st.global.u64 [\3], \1;",
        "loads in flight",
    ),
    ("Simple_Float_Sum", r"add\.rn(\.f32.*, )(\S+);", r"fma.rn\1\2, \2;", "contraction"),
    ("Ll_Double_Sum", r"add\.rn(\.f64.*, )(\S+);", r"fma.rn\1\2, \2;", "contraction"),
    ("Ll_Bfloat16_Max", r"setp\.eq\.f32", "setp.eq.ftz.f32", "flushing"),
    ("Ll128_Bfloat16_Prod", r"mul\.rn\.f32", "mul.rn.ftz.f32", "flushing"),
]


def one_kernel(text: str, name: str) -> str:
    header, *entries = re.split(r"(?m)^(?=\.visible \.entry|\s*// \.globl)", text)
    chosen = [entry for entry in entries if f".entry kolo2_{name}(" in entry]
    return header + chosen[0]


def assembled(text: str, folder: pathlib.Path) -> Kernel:
    (folder / "one.ptx").write_text(text)
    command = ["ptxas", "-O3", "--fmad", "true", "-arch", "sm_90"]
    run(*command, folder / "one.ptx", "-o", folder / "one.cubin")
    return kernels_of(folder / "one.cubin", "sm_90")[0]


def self_test(ptx: pathlib.Path) -> bool:
    text, holds = ptx.read_text(), True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        whole = {name: one_kernel(text, name) for name in dict.fromkeys(m[0] for m in MUTANTS)}
        for name, source in whole.items():
            if found := broken_rules(assembled(source, folder)):
                print(f"FAIL  {name} as it is breaks {found}")
                holds = False
        for name, words, instead, rule in MUTANTS:
            mutant, count = re.subn(words, instead, whole[name])
            found = broken_rules(assembled(mutant, folder)) if count else {}
            said = "ok   " if rule in found else "FAIL "
            holds &= rule in found
            print(f"{said} {name} with {count} times {instead}: {rule}: {found.get(rule)}")
    for words, instead in [("add.rn.f32", "add.f32"), (".version 7.0", ".version 8.0")]:
        if not check_ptx(text.replace(words, instead, 1), "7.0", expected()):
            print(f"FAIL  PTX with {instead} passes")
            holds = False
    if wrong := check_ptx(text, "7.0", expected()):
        print(f"FAIL  PTX as it is: {wrong[0]}")
        holds = False
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--ptx-version", default="7.0")
    parser.add_argument("--self-test", action="store_true")
    given = parser.parse_args()
    holds = self_test(given.file) if given.self_test else check(given.file, given.ptx_version)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
