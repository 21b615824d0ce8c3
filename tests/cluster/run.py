#!/usr/bin/env python3
"""Runs the tests that need several nodes, on emulated ones, against an installed kolo.

    sudo tests/cluster/run.py PREFIX            all
    sudo tests/cluster/run.py PREFIX WORD...    those whose file or name contains one of the words
    VERBOSE=1 ...                               show what tests print even when they pass, and what
                                                a failed assertion came from

A test is a function marked with @case in a file of tests/cluster/cases; harness.py says what it can
do. Each runs in a process and a cluster of its own, one after the other. Without root or sudo, or
where namespaces are not allowed, one line says so, nothing is run, and the exit status is 0.
"""
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
import harness  # noqa: E402

SKIPPED = 77
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


def why_not():
    """A sentence if the cluster cannot be made here, or None."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    os.environ["PATH"] = path
    tried = subprocess.run(["unshare", "--net", "--uts", "--mount", "--ipc", "--pid", "--fork",
                            "ip", "link", "add", "probe0", "type", "veth", "peer", "name",
                            "probe1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if tried.returncode:
        return "namespaces are not allowed here (%s)" % tried.stdout.strip().split("\n")[-1]
    return None


def missing():
    """Commands that are not installed."""
    import shutil
    return [name for name in NEEDED if not shutil.which(name)]


def run_case(prefix, function, options):
    """The body of the test's own process."""
    try:
        with harness.make(prefix, options) as cluster:
            function(cluster)
    except harness.Skip as skip:
        print(skip)
        return SKIPPED
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


def supervised(prefix, function, options):
    """Runs a test in a process group of its own under its limit: status, output, seconds."""
    begin = time.monotonic()
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(reader)
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
    os.set_blocking(reader, False)
    text, status, deadline = b"", None, begin + options.limit
    told = False
    while status is None:
        time.sleep(0.05)
        text = drain(reader, text)
        done, code = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(code)
        elif time.monotonic() > deadline and not told:
            told = True
            os.kill(pid, signal.SIGTERM)     # it takes its cluster down
        elif time.monotonic() > deadline + 20:
            os.killpg(pid, signal.SIGKILL)
    text = drain(reader, text)
    os.close(reader)
    if told:
        text += b"not finished after %d s\n" % options.limit
        status = status or 1
    return status, text.decode(errors="replace"), time.monotonic() - begin


def drain(reader, text):
    while True:
        try:
            piece = os.read(reader, 65536)
        except BlockingIOError:
            return text
        if not piece:
            return text
        text += piece


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    prefix, words = os.path.realpath(sys.argv[1]), sys.argv[2:]
    if os.geteuid():
        sudo = subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL).returncode == 0 \
            if any(os.access(os.path.join(d, "sudo"), os.X_OK)
                   for d in os.environ.get("PATH", "").split(":")) else False
        if not sudo:
            print("skip  the cluster tests: they need root, or sudo without a password")
            return 0
        keep = ["%s=%s" % (n, os.environ[n]) for n in ("VERBOSE", "PATH") if n in os.environ]
        os.execvp("sudo", ["sudo", "-n", "env", *keep, sys.executable, *sys.argv])
    lacking = missing()
    if lacking:
        print("the cluster tests need %s: `make deps` installs them" % ", ".join(lacking))
        return 1
    reason = why_not()
    if reason:
        print("skip  the cluster tests: " + reason)
        return 0
    passed = failed = skipped = 0
    for label, function, options in cases(words):
        status, text, seconds = supervised(prefix, function, options)
        if status == 0:
            passed += 1
            print("ok    cluster %s (%.0f s)" % (label, seconds))
            if os.environ.get("VERBOSE"):
                print("".join("      %s\n" % line for line in text.splitlines()), end="")
        elif status == SKIPPED:
            skipped += 1
            print("skip  cluster %s: %s" % (label, text.strip()))
        else:
            failed += 1
            print("FAIL  cluster %s (%.0f s)" % (label, seconds))
            print("".join("      %s\n" % line for line in text.splitlines()[-60:]), end="")
        sys.stdout.flush()
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
