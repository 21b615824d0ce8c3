#!/usr/bin/env python3
"""Builds the tests in Rust and runs them, several programs at a time: many of them mostly wait.

    tests/rust.py [OPTIONS OF CARGO TEST]       for example --workspace --exclude kolo-mpi

As `cargo test --no-fail-fast` does it, but that runs one program after the other. A program's
output is printed when it has failed, and one line of each is printed always. CARGO names the cargo.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

CARGO = os.environ.get("CARGO", "cargo")
# Each program itself runs as many tests at a time as there are cores.
AT_A_TIME = 3
# The longest programs come first, so that none of them is left over at the end.
FIRST = ("plans", "ranks", "cli", "bootstrap", "nodes", "fortran", "tuner", "comm", "net",
         "faults", "cuda", "large", "interleavings", "kolo", "bundle", "abi", "mismatches", "dtype",
         "shm", "simulator")
# What tests load and do not link to: they ask for it, and find it built.
LOADED = ("kolo-c", "kolo-verbs", "kolo-ofi", "kolo-softgpu")
LIMIT = 900.0


class Program:
    """One program of tests, and how it is started."""

    def __init__(self, name, command, folder):
        self.name, self.command, self.folder = name, command, folder

    def rank(self):
        return FIRST.index(self.name) if self.name in FIRST else len(FIRST)

    def start(self, libraries):
        environment = dict(os.environ, CARGO_MANIFEST_DIR=self.folder)
        known = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = libraries + (":" + known if known else "")
        self.output = tempfile.TemporaryFile()
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            self.command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def is_over(self):
        """Whether it has ended, which it must within the limit."""
        if time.monotonic() - self.begin > LIMIT:
            os.killpg(self.process.pid, signal.SIGABRT)
        ended, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if not ended:
            return False
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.busy = used.ru_utime + used.ru_stime
        return True

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)

    def report(self):
        """Prints what is to be known of it; whether it passed."""
        seconds = time.monotonic() - self.begin
        self.output.seek(0)
        text = self.output.read().decode(errors="replace")
        results = [line for line in text.split("\n") if line.startswith("test result:")]
        status = self.process.returncode
        passed = status == 0 and bool(results)
        if not passed:
            print(text)
        for line in results[-1:] or ["test result: none, exit status %d" % status]:
            print("%-4s %-20s %5.0f s, busy %4.0f s   %s" % (
                "ok" if passed else "FAIL", self.name, seconds, self.busy,
                line.removeprefix("test result: ")))
        sys.stdout.flush()
        counts = re.search(r"(\d+) passed; (\d+) failed", results[-1]) if results else None
        self.counts = [int(count) for count in counts.groups()] if counts else [0, 1]
        return passed


def build(options):
    """The programs, and the folder of the libraries that they load."""
    command = [CARGO, "test", "--no-run", "--message-format=json-render-diagnostics", *options]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    programs = []
    for line in built.stdout.splitlines():
        said = json.loads(line)
        if said.get("reason") != "compiler-artifact" or not said["profile"]["test"]:
            continue
        if said["executable"]:
            folder = os.path.dirname(said["manifest_path"])
            programs.append(Program(said["target"]["name"], [said["executable"]], folder))
    return programs


def build_loaded(options):
    """Builds what the programs load, before several of them wait for each other with it."""
    command = [CARGO, "build", "--message-format=json-render-diagnostics"]
    command += [one for one in options if one in ("--locked", "--release")]
    for package in LOADED:
        command += ["-p", package]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    for line in built.stdout.splitlines():
        said = json.loads(line)
        is_library = said.get("reason") == "compiler-artifact" and \
            said["target"]["name"] == "kolo" and said["target"]["crate_types"] == ["lib"]
        if is_library and not said["fresh"]:
            sys.exit("The library was compiled a second time, which takes minutes: a package has "
                     "other features here than where tests are built. Name those features among "
                     "kolo's dependencies in Cargo.toml, as it does for bitflags.")


def run(waiting, libraries):
    """Runs all; the names of those that failed."""
    running, failed = [], []
    try:
        while waiting or running:
            while waiting and len(running) < AT_A_TIME:
                running.append(waiting.pop(0))
                running[-1].start(libraries)
            time.sleep(0.1)
            for program in [one for one in running if one.is_over()]:
                running.remove(program)
                if not program.report():
                    failed.append(program.name)
    finally:
        for program in running:
            program.stop()
    return failed


def main():
    options = sys.argv[1:]
    programs = build(options)
    if not programs:
        sys.exit("no test was built")
    if "--workspace" in options:
        build_loaded(options)
    libraries = os.path.dirname(programs[0].command[0])
    here = os.getcwd()
    programs.append(Program("doc-tests", [CARGO, "test", "--doc", *options], here))
    programs.sort(key=Program.rank)
    failed = run(list(programs), libraries)
    print("%d passed, %d failed" % tuple(map(sum, zip(*[one.counts for one in programs]))))
    if failed:
        sys.exit("failed: " + ", ".join(failed))


main()
