#!/usr/bin/env python3
"""Breaks one line of a mechanism at a time, and sees its test fail.

    tests/mutations.py [ROW...]      all mutations, or those of these rows of docs/checklist.md

The mutations stand in tests/mutations.txt, one a line:

    ROW | FILE | a text that FILE has once | what stands there instead | arguments of cargo test

The tests that the arguments choose must pass as things are, and one of them must fail with the
mutation, which must compile. Works on a copy of what git knows, under build/mutations. CARGO names
the cargo.
"""
import filecmp
import os
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
COPY = os.path.join(ROOT, "build", "mutations")
CARGO = os.environ.get("CARGO", "cargo")
# A mutated program may wait for ever: that is noticed too.
LIMIT = 600


class Mutation:
    """One line of the list."""

    def __init__(self, number, line):
        parts = line.split(" | ")
        if len(parts) != 5:
            sys.exit("mutations.txt:%d: there must be 5 parts, and here are %d"
                     % (number, len(parts)))
        row, self.file, self.old, self.new, arguments = (part.strip() for part in parts)
        self.rows = row.split("/")
        self.arguments = arguments.split()
        self.place = "mutations.txt:%d (row %s, %s)" % (number, row, self.file)

    def read(self):
        with open(os.path.join(COPY, self.file)) as f:
            return f.read()

    def write(self, text):
        with open(os.path.join(COPY, self.file), "w") as f:
            f.write(text)


def listed():
    with open(os.path.join(HERE, "mutations.txt")) as f:
        lines = enumerate(f.read().split("\n"), 1)
        return [Mutation(number, line) for number, line in lines if line.strip()]


def remove_others(names):
    """Removes what an earlier copy had and the tree has no more, but what cargo has built."""
    for folder, folders, files in os.walk(COPY):
        if folder == COPY:
            folders[:] = [name for name in folders if name != "target"]
        for name in files:
            path = os.path.join(folder, name)
            known = os.path.relpath(path, COPY)
            if known not in names or not os.path.lexists(os.path.join(ROOT, known)):
                os.remove(path)


def copy_tree():
    """What git knows of this tree, as it is now."""
    known = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    names = [name for name in known.decode().split("\0") if name]
    remove_others(set(names))
    for name in names:
        source, goal = os.path.join(ROOT, name), os.path.join(COPY, name)
        if not os.path.lexists(source):
            continue
        # Only what differs is copied, and is as old as the copy: cargo builds what is newer than
        # what it has built, and that may have a mutation in it that was taken back since.
        if os.path.islink(source) or not os.path.exists(goal) or not filecmp.cmp(
                source, goal, shallow=False):
            os.makedirs(os.path.dirname(goal), exist_ok=True)
            if os.path.lexists(goal):
                os.remove(goal)
            shutil.copy(source, goal, follow_symlinks=False)


def cargo_test(arguments):
    """"passed", "failed", "hangs", "nothing ran" or "does not compile"; and what was said."""
    words = [CARGO, "test", "--locked", "--no-fail-fast"] + arguments
    environment = dict(os.environ, CARGO_TARGET_DIR=os.path.join(COPY, "target"))

    def run(words, limit):
        process = subprocess.Popen(words, cwd=COPY, env=environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            text, _ = process.communicate(timeout=limit)
            return process.returncode, text
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]

    status, text = run(words + ["--no-run"], None)
    if status != 0:
        return "does not compile", text
    status, text = run(words, LIMIT)
    if status is None:
        return "hangs", text
    if "running " not in text or not any(
            line.startswith("test ") and " ... " in line for line in text.split("\n")):
        return "nothing ran", text
    return ("passed" if status == 0 else "failed"), text


def tried(mutation, sound):
    """What became of one mutation; empty if it was noticed."""
    whole = mutation.read()
    if whole.count(mutation.old) != 1:
        return "the text is there %d times" % whole.count(mutation.old)
    key = tuple(mutation.arguments)
    if key not in sound:
        sound[key] = cargo_test(mutation.arguments)[0]
    if sound[key] != "passed":
        return "without it the test is to pass, and it: " + sound[key]
    try:
        mutation.write(whole.replace(mutation.old, mutation.new))
        result, text = cargo_test(mutation.arguments)
    finally:
        mutation.write(whole)
    if result in ("failed", "hangs"):
        return ""
    last = "\n".join("      " + line for line in text.strip().split("\n")[-15:])
    return result + (", so nobody noticed it" if result == "passed" else "") + "\n" + last


def main():
    wanted = set(sys.argv[1:])
    mutations = [one for one in listed() if not wanted or wanted & set(one.rows)]
    if not mutations:
        sys.exit("there is no mutation of row " + ", ".join(sorted(wanted)))
    copy_tree()
    sound, missed = {}, 0
    for mutation in mutations:
        bad = tried(mutation, sound)
        missed += bool(bad)
        print("%-4s  %s%s" % ("FAIL" if bad else "ok", mutation.place, ": " + bad if bad else ""),
              flush=True)
    print("%d mutations, %d noticed, %d not" % (len(mutations), len(mutations) - missed, missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
