#!/usr/bin/env python3
"""Emulates a small cluster (and, if wanted, a Slurm installation) on one machine.

Each node is a set of Linux namespaces (network, UTS, mount, IPC, PID) with its own host name, IP
addresses, /proc, /sys, /dev/shm, /tmp and boot id. A head ("head") holds the bridges, slurmctld
and munged. All of it lives below one PID namespace, so killing one process removes every process,
interface and mount that was made. README.md beside this file says how to use it.
"""
import argparse
import glob
import os
import shutil
import signal
import sys
import tempfile

sys.dont_write_bytecode = True      # run as root, it would leave root's files in the tree
from emulator.base import HEAD, PREFIX, SELF, Fail, clean_env, die  # noqa: E402
from emulator.client import agent_call, agent_connect, head_call  # noqa: E402
from emulator.control import (down, find_work, links_of, live_opts, live_state,  # noqa: E402
                              node_num, up)
from emulator.spaces import hosts_file, tc_rate  # noqa: E402


def cmd_up(a):
    def term(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, term)
    work, t = up(a)
    sys.stderr.write("cluster: %d nodes up in %.1f s\n" % (a.nodes, t))
    print(work)
    return 0


def cmd_with(a):
    def term(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, term)
    signal.signal(signal.SIGHUP, term)
    work, t = up(a, pdeathsig=True)
    try:
        if a.verbose:
            sys.stderr.write("cluster: %d nodes up in %.1f s\n" % (a.nodes, t))
        return agent_call(work, a.on, a.cmd)
    finally:
        if a.keep_logs:
            shutil.copytree(work + "/log", a.keep_logs, dirs_exist_ok=True)
        down(work)


def cmd_down(a):
    if a.stale:                              # never one that is up
        for d in glob.glob(os.path.join(tempfile.gettempdir(), PREFIX + "*")):
            if os.path.exists(d + "/state.json") and not live_state(d):
                down(os.path.realpath(d))
        return 0
    down(find_work(a))
    return 0


def cmd_run_on(a):
    return agent_call(find_work(a), a.node, a.cmd)


def cmd_head(a):
    return agent_call(find_work(a), HEAD, a.cmd)


def cmd_rsh(a):
    """rsh/ssh look-alike for mpirun: [-x|-q|-n|-T|-l USER] HOST COMMAND..."""
    v = a.cmd
    while v and v[0].startswith("-"):
        v = v[2:] if v[0] in ("-l", "-o", "-p") else v[1:]
    if not v:
        raise Fail("rsh: no host")
    work = find_work(a)
    host, cmd = v[0].split(".")[0], " ".join(v[1:]) or "exec /bin/sh -i"
    for i, line in enumerate(hosts_file(live_opts(work)).split("\n")):
        f = line.split()
        if len(f) > 1 and v[0] == f[0]:
            host = f[1].split("-r")[0]
    env = clean_env(work)                   # like ssh: no variable of the caller
    return agent_call(work, host, ["/bin/sh", "-c", cmd], env=env, cwd=env["HOME"])


def cmd_rate(a):
    work = find_work(a)
    for node, dev in links_of(work, a.what, a.rail):
        rc = agent_call(work, node, [sys.executable, SELF, "_tc", dev, a.rate],
                        env=clean_env(work), cwd="/")
        if rc:
            return rc
    return 0


def cmd_link(a):
    work = find_work(a)
    for node, dev in links_of(work, a.what, a.rail):
        if node == HEAD:
            rc = agent_call(work, HEAD, ["ip", "link", "set", dev, a.state],
                            env=clean_env(work), cwd="/")
            if rc:
                return rc
    return 0


def cmd_kill_node(a):
    head_call(find_work(a), call="kill", node=node_num(a.node))
    return 0


def cmd_boot_node(a):
    head_call(find_work(a), call="boot", node=node_num(a.node))
    return 0


def cmd_status(a):
    work = find_work(a)
    st = live_state(work)
    print("%s %s" % (work, "up pid %d" % st["pid"] if st else "down"))
    if not st:
        return 1
    o = st["opts"]
    for name in [HEAD] + ["node%d" % i for i in range(1, o["nodes"] + 1)]:
        try:
            agent_connect(work, name).close()
            print("%s up" % name)
        except Fail:
            print("%s down" % name)
    if o["slurm"]:
        sys.stdout.flush()
        return agent_call(work, HEAD, ["sinfo", "-N", "-l"], env=clean_env(work), cwd="/")
    return 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "_tc":
        tc_rate(sys.argv[2], sys.argv[3])
        return 0
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--workdir", help="folder of the cluster (default: CLUSTER_DIR, "
                    "the only one that is up, or for `up` a new one)")
    sub = ap.add_subparsers(dest="sub", required=True)

    def updef(p):
        p.add_argument("-n", "--nodes", type=int, default=2)
        p.add_argument("--slots", type=int, default=4, help="CPUs Slurm thinks a node has")
        p.add_argument("--rails", type=int, default=1, help="network cards per node")
        p.add_argument("--switches", type=int, default=1,
                       help="leaf switches below one spine (and topology/tree in Slurm)")
        p.add_argument("--rate", default="", help="speed of each node's link, e.g. 1gbit")
        p.add_argument("--mtu", type=int, default=1500)
        p.add_argument("--shm-size", default="1g", help="size of each node's /dev/shm")
        p.add_argument("--share", action="append", default=[], metavar="DIR",
                       help="folder below /tmp that all nodes see (the current one always)")
        p.add_argument("--slurm", action="store_true", help="with slurmctld, slurmd and munged")
        p.add_argument("--ttl", type=int, default=14400,
                       help="end by itself after so many seconds (0: never)")
        p.add_argument("--timeout", type=int, default=20, help="seconds to wait for Slurm")

    p = sub.add_parser("up", help="start; prints the folder of the cluster")
    updef(p)
    p.set_defaults(fn=cmd_up)
    p = sub.add_parser("with", help="start, run CMD on the head, stop whatever happens")
    updef(p)
    p.add_argument("--on", default=HEAD)
    p.add_argument("--keep-logs", metavar="DIR")
    p.add_argument("-v", "--verbose", action="store_true")
    p.add_argument("cmd", nargs=argparse.REMAINDER)
    p.set_defaults(fn=cmd_with)
    p = sub.add_parser("down", help="stop and remove everything")
    p.add_argument("--stale", action="store_true",
                   help="remove the folders of clusters whose processes are gone")
    p.set_defaults(fn=cmd_down)
    p = sub.add_parser("run-on", help="run a command on a node")
    p.add_argument("node")
    p.add_argument("cmd", nargs=argparse.REMAINDER)
    p.set_defaults(fn=cmd_run_on)
    p = sub.add_parser("head", help="run a command on the head (srun, sbatch, mpirun)")
    p.add_argument("cmd", nargs=argparse.REMAINDER)
    p.set_defaults(fn=cmd_head)
    p = sub.add_parser("rsh", help="remote shell agent for mpirun")
    p.add_argument("cmd", nargs=argparse.REMAINDER)
    p.set_defaults(fn=cmd_rsh)
    p = sub.add_parser("rate", help="shape a link: nodeX or switchX, 100mbit or off")
    p.add_argument("what")
    p.add_argument("rate")
    p.add_argument("--rail", type=int)
    p.set_defaults(fn=cmd_rate)
    p = sub.add_parser("link", help="pull or plug the cable of nodeX or switchX")
    p.add_argument("what")
    p.add_argument("state", choices=("up", "down"))
    p.add_argument("--rail", type=int)
    p.set_defaults(fn=cmd_link)
    p = sub.add_parser("kill-node", help="power loss: SIGKILL to all of a node")
    p.add_argument("node")
    p.set_defaults(fn=cmd_kill_node)
    p = sub.add_parser("boot-node", help="start a killed node again")
    p.add_argument("node")
    p.set_defaults(fn=cmd_boot_node)
    p = sub.add_parser("status")
    p.set_defaults(fn=cmd_status)
    a = ap.parse_args()
    if getattr(a, "cmd", None) is not None:
        if a.cmd and a.cmd[0] == "--":
            a.cmd = a.cmd[1:]
        if not a.cmd:
            ap.error("a command is needed")
    if os.geteuid():
        die("needs root (namespaces, veth, munged)")
    try:
        return a.fn(a)
    except Fail as e:
        die(str(e))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
