"""Starting, finding and ending a cluster."""
import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from .base import HEAD, PREFIX, SELF, Fail, clean_env, starttime, write
from .head import Head
from .slurm import slurm_setup
from .spaces import spawn_ns


def find_work(a):
    w = a.workdir or os.environ.get("CLUSTER_DIR")
    if w:
        return os.path.realpath(w)
    live = [d for d in glob.glob(os.path.join(tempfile.gettempdir(), PREFIX + "*"))
            if live_state(d)]
    if len(live) == 1:
        return os.path.realpath(live[0])
    raise Fail("%s cluster is up: name it with --workdir or CLUSTER_DIR"
               % ("no" if not live else "more than one"))


def live_state(work):
    try:
        with open(os.path.join(work, "state.json")) as f:
            st = json.load(f)
    except (OSError, ValueError):
        return None
    return st if starttime(st["pid"]) == st["start"] else None


def opts_of(a):
    if not 1 <= a.nodes <= 64:
        raise Fail("-n must be 1 to 64")
    return {"nodes": a.nodes, "slots": a.slots, "rails": a.rails, "switches": a.switches,
            "rate": a.rate, "mtu": a.mtu, "shm_size": a.shm_size, "slurm": a.slurm,
            "share": [os.path.realpath(s) for s in a.share + [os.getcwd()]], "ttl": a.ttl}


def up(a, pdeathsig=False):
    o = opts_of(a)
    t0 = time.monotonic()
    if a.workdir:
        work = os.path.realpath(a.workdir)
        if live_state(work):
            raise Fail("%s is already up" % work)
        made = not os.path.exists(work)
        os.makedirs(work, exist_ok=True)
        if os.listdir(work):
            raise Fail("%s is not empty" % work)
    else:
        work, made = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)), True
    pid = None
    try:
        os.chmod(work, 0o755)
        for d in ("log", "nodes", "bin"):
            os.makedirs(os.path.join(work, d), exist_ok=True)
        write(work + "/bin/rsh", "#!/bin/sh\nexec %s %s --workdir %s rsh \"$@\"\n"
              % tuple(map(shlex.quote, (sys.executable, SELF, work))), 0o755)
        if o["slurm"]:
            slurm_setup(work, o)
        rd_r, rd_w = os.pipe()
        al_r, al_w = os.pipe()

        def init():
            os.close(rd_r)
            os.close(al_w)
            Head(work, o).main(rd_w, al_r)
        pid = spawn_ns(init, pdeathsig)
        os.close(rd_w)
        os.close(al_r)
        write(work + "/state.json", json.dumps({"pid": pid, "start": starttime(pid),
                                                "made": made, "opts": o}))
        if os.read(rd_r, 1) != b"r":
            raise Fail("start failed; logs:\n" + tail_logs(work))
        if o["slurm"]:
            wait_idle(work, o["nodes"], a.timeout)
        os.write(al_w, b"k")
        os.close(al_w)
        os.close(rd_r)
    except BaseException:
        if pid:
            kill_head(pid, starttime(pid))
        if made:
            shutil.rmtree(work, ignore_errors=True)
        raise
    return work, time.monotonic() - t0


def tail_logs(work):
    out = ""
    for f in sorted(glob.glob(work + "/log/*")):
        with open(f, errors="replace") as h:
            t = h.read()[-1500:]
        if t.strip():
            out += "--- %s\n%s\n" % (os.path.basename(f), t)
    return out


def wait_idle(work, n, timeout):
    end = time.monotonic() + timeout
    env = clean_env(work)
    out = ""
    while time.monotonic() < end:
        # slurmctld is reachable only from inside: ask through the head
        out = capture(work, HEAD, ["sinfo", "-h", "-o", "%D %t"], env)
        if out.split() == [str(n), "idle"]:
            return
        time.sleep(0.15)
    raise Fail("nodes not idle after %d s (%s)\n%s" % (timeout, out.strip(), tail_logs(work)))


def capture(work, node, argv, env=None):
    """Output of a command on a node.  The head answers only once it loops, so
    before that the namespaces are entered directly."""
    st = json.load(open(work + "/state.json"))
    p = subprocess.run(["nsenter", "-t", str(st["pid"]), "-a", "--"] + argv, env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return p.stdout


def kill_head(pid, start):
    if not pid or starttime(pid) != start or start is None:
        return
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    end = time.monotonic() + 15
    while starttime(pid) == start and time.monotonic() < end:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pass
        time.sleep(0.01)
    if starttime(pid) == start:
        sys.stderr.write("cluster: process %d does not end\n" % pid)


def down(work):
    st = None
    try:
        with open(os.path.join(work, "state.json")) as f:
            st = json.load(f)
    except (OSError, ValueError):
        raise Fail("%s holds no cluster" % work)
    kill_head(st["pid"], st["start"])
    for d in ("etc", "munge", "state", "spool", "log", "nodes", "bin"):
        shutil.rmtree(os.path.join(work, d), ignore_errors=True)
    files = [os.path.join(work, f) for f in ("state.json", "slurmctld.pid")]
    for f in files + glob.glob(work + "/slurmd-*.pid"):
        try:
            os.unlink(f)
        except OSError:
            pass
    if st.get("made"):
        shutil.rmtree(work, ignore_errors=True)


def node_num(name):
    if name.startswith("node") and name[4:].isdigit():
        return int(name[4:])
    raise Fail("%s: expected node1, node2, ..." % name)


def live_opts(work):
    with open(os.path.join(work, "state.json")) as f:
        return json.load(f)["opts"]


def links_of(work, what, rail):
    """(node, device) pairs for a node's link or a switch's uplink."""
    o = live_opts(work)
    rails = range(o["rails"]) if rail is None else [rail]
    out = []
    for r in rails:
        if what.startswith("switch"):
            s = int(what[6:])
            out += [(HEAD, "up%dr%d" % (s, r)), (HEAD, "dn%dr%d" % (s, r))]
        else:
            i = node_num(what)
            out += [(HEAD, "n%dr%d" % (i, r)), (what, "eth%d" % r)]
    return out
