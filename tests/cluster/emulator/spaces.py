"""What makes a set of processes look like another machine: namespaces, mounts, names, links."""
import ctypes
import os
import signal
import sys
import uuid

from .agent import Agent
from .base import (CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUTS, HEAD, NET,
                   Fail, clean_env, libc, prctl_pdeathsig, sh, unshare, write)


def spawn_ns(fn, pdeathsig=False):
    """Fork fn() as PID 1 of new namespaces.  Returns its pid as seen from here."""
    r, w = os.pipe()
    mid = os.fork()
    if mid == 0:
        try:
            os.close(r)
            unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
            pid = os.fork()
            if pid == 0:
                os.close(w)
                if pdeathsig:
                    prctl_pdeathsig(signal.SIGKILL)
                try:
                    fn()
                except BaseException as e:  # noqa: PID 1 ends here whatever happens
                    if not isinstance(e, SystemExit):
                        sys.stderr.write("cluster: init: %r\n" % e)
                        sys.stderr.flush()
                os._exit(1)
            os.write(w, str(pid).encode())
            os.close(w)
            if pdeathsig:            # stay as the watched parent of PID 1
                prctl_pdeathsig(signal.SIGKILL)
                os.closerange(3, 1024)
                os.waitpid(pid, 0)
        except BaseException as e:
            sys.stderr.write("cluster: %s\n" % e)
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    os.close(w)
    out = b""
    while True:
        b = os.read(r, 64)
        if not b or out:
            break
        out += b
    os.close(r)
    if not pdeathsig:
        try:
            os.waitpid(mid, 0)
        except ChildProcessError:
            pass
    if not out:
        raise Fail("could not make the namespaces")
    return int(out)


MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18


def mount(src, dst, fstype=None, flags=0, data=None):
    """mount(2) itself: mount(8) would resolve /proc/self/fd/N to a covered path."""
    enc = lambda x: None if x is None else x.encode()  # noqa: E731
    if libc.mount(enc(src), enc(dst), enc(fstype), ctypes.c_ulong(flags), enc(data)):
        e = ctypes.get_errno()
        raise Fail("mount %s on %s: %s" % (src, dst, os.strerror(e)))


def private_mounts(work, name, opts):
    """What makes the machine look like another one.  Runs as PID 1 of the node."""
    d = os.path.join(work, "nodes", name)
    hold = d + "/hold"
    os.makedirs(hold, exist_ok=True)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc")
    write(d + "/hosts", hosts_file(opts))
    write(d + "/hostname", name + "\n")
    write(d + "/resolv.conf", "")
    write(d + "/machine-id", uuid.uuid4().hex + "\n")
    write(d + "/boot_id", str(uuid.uuid4()) + "\n")
    for src, dst in (("hosts", "/etc/hosts"), ("hostname", "/etc/hostname"),
                     ("resolv.conf", "/etc/resolv.conf"), ("machine-id", "/etc/machine-id"),
                     ("boot_id", "/proc/sys/kernel/random/boot_id")):
        if os.path.exists(dst):
            mount(d + "/" + src, os.path.realpath(dst), None, MS_BIND)
    mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=%s,mode=1777" % opts["shm_size"])
    # /sys anew: the old mount shows the network devices of the outer namespace
    cg = os.path.isdir("/sys/fs/cgroup")
    if cg:
        mount("/sys/fs/cgroup", hold, None, MS_BIND | MS_REC)
    mount("sysfs", "/sys", "sysfs")
    if cg:
        mount(hold, "/sys/fs/cgroup", None, MS_MOVE)
    # a /tmp of the node's own, with the shared folders below /tmp bound back
    fds = {s: os.open(s, os.O_PATH | os.O_DIRECTORY) for s in shares(work, opts)}
    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")
    for s, fd in fds.items():
        os.makedirs(s, exist_ok=True)
        mount("/proc/self/fd/%d" % fd, s, None, MS_BIND | MS_REC)
        os.close(fd)
    libc.sethostname(name.encode(), len(name))


def shares(work, opts):
    out = []
    for s in [work] + opts["share"]:
        s = os.path.realpath(s)
        if s == "/tmp":
            continue
        if s.startswith("/tmp/") and not any(s == o or s.startswith(o + "/") for o in out):
            out.append(s)
    return out


def hosts_file(opts):
    t = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for r in range(opts["rails"]):
        suf = "" if r == 0 else "-r%d" % r
        t.append("%s.%d.254 %s%s" % (NET, r, HEAD, suf))
        for i in range(1, opts["nodes"] + 1):
            t.append("%s.%d.%d node%d%s" % (NET, r, i, i, suf))
    return "\n".join(t) + "\n"


def switch_of(i, opts):
    """Leaf switch (1..S) of node i: contiguous blocks."""
    per = -(-opts["nodes"] // opts["switches"])
    return (i - 1) // per + 1


def node_main(work, i, opts, go_r, ready_w):
    name = "node%d" % i
    os.setsid()
    log = os.open(os.path.join(work, "log", name + "-init.log"),
                  os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    private_mounts(work, name, opts)
    if os.read(go_r, 1) != b"g":          # the head has put our links in place
        os._exit(1)
    cmds = ["link set lo up"]
    for r in range(opts["rails"]):
        cmds += ["addr add %s.%d.%d/24 dev eth%d" % (NET, r, i, r),
                 "addr add fd77:%d::%d/64 dev eth%d nodad" % (r, i, r),
                 "link set eth%d mtu %d up" % (r, opts["mtu"])]
    sh("ip", "-batch", "-", stdin="\n".join(cmds) + "\n")
    if opts["rate"]:
        for r in range(opts["rails"]):
            tc_rate("eth%d" % r, opts["rate"])
    a = Agent(work, name)
    if opts["slurm"]:
        a.daemon("slurmd-" + name, slurmd_argv(work, name), clean_env(work))
    os.write(ready_w, b"r")
    os.close(ready_w)
    os.close(go_r)
    a.loop()


def slurmd_argv(work, name):
    return ["slurmd", "-D", "-N", name, "-f", os.path.join(work, "etc", "slurm.conf")]


def tc_rate(dev, rate):
    if rate in ("off", "none", "0"):
        sh("tc", "qdisc", "del", "dev", dev, "root", check=False, quiet=True)
        return
    unit = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
    u = rate[-4:].lower()
    if u not in unit:
        raise Fail("rate: give it as 100mbit, 1gbit, 500kbit or off")
    bps = float(rate[:-4]) * unit[u] / 8
    burst = int(max(131072, bps / 200))      # 5 ms worth, never below two GSO packets
    sh("tc", "qdisc", "replace", "dev", dev, "root", "tbf", "rate", rate,
       "burst", str(burst), "latency", "50ms")
