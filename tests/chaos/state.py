"""The processes of a round: found by a mark in their environment, and asked what they do."""
import glob
import os
import shutil
import subprocess

import board as boards

PROGRAM = "chaos-rank"


def tagged(tag):
    """Processes that have the round's mark in their environment and live."""
    mark, found = b"CHAOS_TAG=%s\0" % tag.encode(), []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as f:
                if mark in f.read() + b"\0":
                    found.append(int(path.split("/")[2]))
        except OSError:
            continue
    return found


def is_rank(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip() == PROGRAM
    except OSError:
        return False


def lives(pid):
    """Whether a process is there, and not only waits for its parent to notice its end."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def find_ranks(match):
    """The process number of each rank as this process sees it, which the rank itself does not."""
    by_place = {}
    for pid in tagged(match.tag):
        try:
            with open("/proc/%d/status" % pid) as f:
                own = [line.split()[-1] for line in f if line.startswith("NSpid:")]
            by_place[os.readlink("/proc/%d/ns/pid" % pid), int(own[0])] = pid
        except (OSError, IndexError):
            continue
    found = {}
    for rank in range(match.nranks):
        key = match.place.space(rank, match.drawn.layout), match.board.pid(rank)
        if key in by_place:
            found[rank] = by_place[key]
    return found


def first_lines(path, count=1):
    try:
        with open(path, errors="replace") as f:
            return [line.rstrip() for line in f][:count]
    except OSError as error:
        return [error.strerror]


def threads(pid):
    """What each thread of a process waits for in the kernel."""
    lines = []
    for task in sorted(glob.glob("/proc/%d/task/*" % pid)):
        status = [line for line in first_lines(task + "/status", 12) if line.startswith("State")]
        lines.append("    %s %s %s" % (" ".join(first_lines(task + "/comm")), " ".join(status),
                                       " ".join(first_lines(task + "/wchan"))))
        lines += ["        " + line for line in first_lines(task + "/stack", 4)]
    return lines


def backtrace(pid):
    """Where its threads are, if there is a debugger."""
    if not shutil.which("gdb"):
        return ["    (no gdb here: no backtrace)"]
    words = ["gdb", "-batch", "-nx", "-p", str(pid), "-ex", "set print frame-arguments none",
             "-ex", "thread apply all bt 14"]
    try:
        said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, errors="replace").stdout
    except subprocess.TimeoutExpired:
        return ["    (gdb did not end)"]
    lines = [line for line in said.splitlines() if line.startswith(("#", "Thread"))]
    return ["    " + line[:160] for line in lines if "/rustc/" not in line]


def outputs(match, count=12):
    """The last lines that the ranks have printed: kolo's own report among them."""
    lines = []
    for path in sorted(glob.glob(match.folder + "/out.*")):
        lines += ["  %s: %s" % (os.path.basename(path), line)
                  for line in first_lines(path, 100000)[-count:]]
    return "\n".join(lines)


def report(match):
    """All that can be seen of a round that does not end."""
    lines = []
    for rank in range(match.nranks):
        calls, _, state, line, loops = match.board.place(rank)
        lines.append("rank %d: %s, %d calls begun, line %d of the script, %d loops, pid %s"
                     % (rank, boards.STATES[state], calls, line, loops,
                        match.pids.get(rank, "?")))
    for pid in tagged(match.tag):
        if is_rank(pid):
            lines += ["process %d" % pid] + threads(pid) + backtrace(pid)
    return "\n".join(lines) + "\n" + outputs(match)
