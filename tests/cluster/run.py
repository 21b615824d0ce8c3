#!/usr/bin/env python3
"""Runs the tests that need several nodes, on emulated ones, against an installed kolo.

    sudo tests/cluster/run.py PREFIX            all
    sudo tests/cluster/run.py PREFIX WORD...    those whose file or name contains one of the words
    VERBOSE=1 ...                               show what tests print even when they pass, and what
                                                a failed assertion came from

A test is a function marked with @case in a file of tests/cluster/cases; harness.py says what it can
do. Each runs in a process and a cluster of its own, two at a time (most of them mostly wait), and
those marked `alone` after all others, one by one. Without root or sudo, or where namespaces are not
allowed, one line says so, and nothing is run; that fails under CI=true (tests/skipped.txt).
"""
import contextlib
import glob
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True      # run as root, it would leave root's files in the tree
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "skip"))
import harness  # noqa: E402
from skip import skip  # noqa: E402

SKIPPED = 77
AT_A_TIME = 3
# What the tests of this folder call; `make deps` installs it.
NEEDED = ("ip", "tc", "ss", "nsenter", "unshare", "slurmctld", "slurmd", "munged", "iperf3")


def cases(words):
    """(file, function, options) of the tests that the words choose."""
    found = []
    for path in sorted(glob.glob(os.path.join(HERE, "cases", "*.py"))):
        name = os.path.splitext(os.path.basename(path))[0]
        del harness.CASES[:]
        importlib.import_module("cases." + name)
        for function, options in harness.CASES:
            label = "%s.%s" % (name, function.__name__)
            if not words or any(word in label for word in words):
                found.append((label, function, options))
    return found


def missing():
    """Commands that are not installed."""
    import shutil
    return [name for name in NEEDED if not shutil.which(name)]


def run_case(prefix, function, options):
    """The body of the test's own process."""
    try:
        with harness.make(prefix, options) as cluster:
            function(cluster)
    except harness.Skip as skipped:
        return SKIPPED if skip("cluster." + function.__name__, skipped) == 0 else 1
    except AssertionError as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        here = [f for f in traceback.extract_tb(error.__traceback__) if "/cases/" in f.filename]
        where = here[-1] if here else where
        print("%s:%d: %s\n%s" % (os.path.basename(where.filename), where.lineno, where.line, error))
        if os.environ.get("VERBOSE"):
            traceback.print_exc(file=sys.stdout)
        return 1
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


def out_of_time(_signal, frame):
    """Ends the test as a failed assertion does, so that it takes its cluster down."""
    places = ["%s:%d" % (os.path.basename(f.filename), f.lineno)
              for f in traceback.extract_stack(frame) if f.filename.startswith(HERE)]
    sys.exit("ended by its time limit at " + " < ".join(reversed(places)))


class Running:
    """A test in a process group of its own, under its limit."""

    def __init__(self, prefix, label, function, options):
        self.label, self.limit, self.begin = label, options.limit, time.monotonic()
        self.text, self.told = b"", False
        self.reader, writer = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            os.close(self.reader)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, out_of_time)
            status = 1
            try:
                status = run_case(prefix, function, options)
            except SystemExit as ended:
                print(ended)
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.close(writer)
        os.set_blocking(self.reader, False)

    def look(self):
        """Its status, once it has ended."""
        self.drain()
        done, code, used = os.wait4(self.pid, os.WNOHANG)
        if not done:
            late = time.monotonic() - self.begin - self.limit
            if late > 0 and not self.told:
                self.told = True
                os.kill(self.pid, signal.SIGTERM)     # it takes its cluster down
            elif late > 20:
                os.killpg(self.pid, signal.SIGKILL)
            return None
        self.drain()
        os.close(self.reader)
        self.busy = used.ru_utime + used.ru_stime
        status = os.waitstatus_to_exitcode(code)
        if self.told:
            self.text += b"not finished after %d s\n" % self.limit
        return status or int(self.told)

    def drain(self):
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.reader, 65536):
                self.text += piece

    def lines(self):
        return self.text.decode(errors="replace").splitlines()


def ended(prefix, chosen):
    """Runs tests, and gives (status, test) of each as it ends."""
    waiting, running = sorted(chosen, key=lambda test: test[2].alone), []
    try:
        while waiting or running:
            alone = bool(waiting) and waiting[0][2].alone
            if waiting and len(running) < (1 if alone else AT_A_TIME):
                running.append(Running(prefix, *waiting.pop(0)))
                continue
            time.sleep(0.05)
            looked = [(test.look(), test) for test in running]
            running = [test for status, test in looked if status is None]
            yield from ((status, test) for status, test in looked if status is not None)
    finally:
        # After an interruption: each takes its cluster down.
        for test in running:
            test.limit = time.monotonic() - test.begin
        while running:
            time.sleep(0.05)
            running = [test for test in running if test.look() is None]


def main():
    if sys.argv[1:2] in (["--help"], ["-h"]):
        print(__doc__.strip())
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    prefix, words = os.path.realpath(sys.argv[1]), sys.argv[2:]
    if os.geteuid():
        sudo = subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL).returncode == 0 \
            if any(os.access(os.path.join(d, "sudo"), os.X_OK)
                   for d in os.environ.get("PATH", "").split(":")) else False
        if not sudo:
            return skip("cluster", "it needs root, or sudo without a password")
        names = ("VERBOSE", "PATH", "CI", "KOLO_TEST_SEED", "KOLO_TEST_FULL")
        keep = ["%s=%s" % (n, os.environ[n]) for n in names if n in os.environ]
        os.execvp("sudo", ["sudo", "-n", "env", *keep, sys.executable, *sys.argv])
    lacking = missing()
    if lacking:
        print("the cluster tests need %s: `make deps` installs them" % ", ".join(lacking))
        return 1
    reason = harness.why_not()
    if reason:
        return skip("cluster", reason)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    count = dict.fromkeys(("ok", "FAIL", "skip"), 0)
    for status, test in ended(prefix, cases(words)):
        what = "cluster %s (%.0f s, busy %.0f s)" % (
            test.label, time.monotonic() - test.begin, test.busy)
        word = {0: "ok", SKIPPED: "skip"}.get(status, "FAIL")
        count[word] += 1
        print("%-5s %s" % (word, what))
        shown = test.lines()[-60:] if word != "ok" else []
        if os.environ.get("VERBOSE"):
            shown = test.lines()
        print("".join("      %s\n" % line for line in shown), end="", flush=True)
    print(", ".join("%d %s" % (number, word) for word, number in count.items()))
    return 0 if count["FAIL"] == 0 and count["ok"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
