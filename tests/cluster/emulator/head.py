"""The head: bridges between the nodes, slurmctld and munged, and the power switch of the nodes."""
import contextlib
import os
import signal
import time

from .agent import Agent
from .base import HEAD, NET, Fail, clean_env, sh
from .spaces import node_main, private_mounts, spawn_ns, switch_of, tc_rate


class Head:
    def __init__(self, work, opts):
        self.work, self.o = work, opts
        self.node_pid = {}

    def main(self, ready_w, alive_r):
        o, work = self.o, self.work
        os.setsid()
        log = os.open(os.path.join(work, "log", "head-init.log"),
                      os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(null)
        os.close(log)
        private_mounts(work, HEAD, o)
        self.network()
        if o["slurm"]:
            self.start_munge()
        waits = [self.boot(i) for i in range(1, o["nodes"] + 1)]
        self.agent = Agent(work, HEAD, {"boot": self.call_boot, "kill": self.call_kill,
                                        "stop": self.call_stop})
        for i, p in self.node_pid.items():
            self.agent.on_exit[p] = lambda _rc, i=i: self.node_pid.pop(i, None)
        if o["slurm"]:
            argv = ["slurmctld", "-D", "-i", "-f", work + "/etc/slurm.conf"]
            self.agent.daemon("slurmctld", argv, clean_env(work))
        for i, r in enumerate(waits, 1):
            if os.read(r, 1) != b"r":
                raise Fail("node%d did not start, see log/node%d-init.log" % (i, i))
            os.close(r)
        if o["ttl"]:
            self.agent.stop_at = time.monotonic() + o["ttl"]
        os.write(ready_w, b"r")
        os.close(ready_w)
        # `up` keeps its end of this pipe open until all is well
        if os.read(alive_r, 1) != b"k":
            raise Fail("the starting process went away")
        os.close(alive_r)
        self.agent.loop()
        self.finish()

    def network(self):
        o = self.o
        c = ["link set lo up"]
        for r in range(o["rails"]):
            c += ["link add sp%d type bridge" % r,
                  "addr add %s.%d.254/24 dev sp%d" % (NET, r, r),
                  "addr add fd77:%d::fe/64 dev sp%d nodad" % (r, r),
                  "link set sp%d mtu %d up" % (r, o["mtu"])]
            if o["switches"] > 1:
                for s in range(1, o["switches"] + 1):
                    c += ["link add sw%dr%d type bridge" % (s, r),
                          "link set sw%dr%d mtu %d up" % (s, r, o["mtu"]),
                          "link add up%dr%d mtu %d type veth peer name dn%dr%d mtu %d"
                          % (s, r, o["mtu"], s, r, o["mtu"]),
                          "link set up%dr%d master sw%dr%d up" % (s, r, s, r),
                          "link set dn%dr%d master sp%d up" % (s, r, r)]
        sh("ip", "-batch", "-", stdin="\n".join(c) + "\n")

    def boot(self, i):
        o = self.o
        go_r, go_w = os.pipe()
        rd_r, rd_w = os.pipe()

        def init():
            # whoever asked for the boot passed files along: the node must not keep them open
            for fd in map(int, os.listdir("/proc/self/fd")):
                if fd not in (0, 1, 2, go_r, rd_w):
                    with contextlib.suppress(OSError):
                        os.close(fd)
            node_main(self.work, i, o, go_r, rd_w)
        pid = spawn_ns(init)
        os.close(go_r)
        os.close(rd_w)
        self.node_pid[i] = pid
        c = []
        for r in range(o["rails"]):
            br = "sp%d" % r if o["switches"] == 1 else "sw%dr%d" % (switch_of(i, o), r)
            c += ["link add n%dr%d mtu %d type veth peer name eth%d mtu %d netns %d"
                  % (i, r, o["mtu"], r, o["mtu"], pid),
                  "link set n%dr%d master %s up" % (i, r, br)]
        sh("ip", "-batch", "-", stdin="\n".join(c) + "\n")
        if o["rate"]:
            for r in range(o["rails"]):
                tc_rate("n%dr%d" % (i, r), o["rate"])
        os.write(go_w, b"g")
        os.close(go_w)
        return rd_r

    def start_munge(self):
        w = self.work
        sh("munged", "--force", "--key-file=" + w + "/munge/key",
           "--socket=" + w + "/munge/sock", "--pid-file=" + w + "/munge/pid",
           "--log-file=" + w + "/log/munged.log", "--seed-file=" + w + "/munge/seed",
           "--num-threads=4")

    def call_boot(self, req):
        i = int(req["node"])
        if i in self.node_pid:
            raise Fail("node%d is up" % i)
        for r in range(self.o["rails"]):     # the link of the dead node, if still there
            sh("ip", "link", "del", "n%dr%d" % (i, r), check=False, quiet=True)
        r = self.boot(i)
        p = self.node_pid[i]
        self.agent.on_exit[p] = lambda _rc: self.node_pid.pop(i, None)
        ok = os.read(r, 1) == b"r"
        os.close(r)
        if not ok:
            raise Fail("node%d did not start" % i)

    def call_kill(self, req):
        i = int(req["node"])
        if i not in self.node_pid:
            raise Fail("node%d is not up" % i)
        os.kill(self.node_pid[i], signal.SIGKILL)

    def call_stop(self, req):
        self.agent.stop_at = time.monotonic()
        return None

    def finish(self):
        os._exit(0)                          # PID 1 gone: the kernel ends the rest
