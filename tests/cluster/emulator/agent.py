"""PID 1 of the head or of a node: reaps children and runs commands that callers ask for."""
import array
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time

from .base import Fail, default_env


class Agent:
    """PID 1 of the head or of a node: reaps children and runs commands."""

    def __init__(self, work, name, extra=None):
        self.extra = extra or {}
        self.work, self.name = work, name
        d = os.path.join(work, "nodes", name)
        os.makedirs(d, exist_ok=True)
        sock = os.path.join(d, "agent.sock")
        if os.path.lexists(sock):
            os.unlink(sock)
        self.srv = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        cwd = os.getcwd()
        os.chdir(d)
        self.srv.bind("agent.sock")
        os.chmod("agent.sock", 0o600)
        os.chdir(cwd)
        self.srv.listen(64)
        self.srv.setblocking(False)
        self.jobs = {}                # pid -> connection or None
        self.dying = []               # (deadline, pid)
        self.on_exit = {}             # pid -> callback
        self.bye = None               # connection of whoever asked for the end
        self.stop_at = None
        r, self.wake = os.pipe()
        for fd in (r, self.wake):
            os.set_blocking(fd, False)
        self.wake_r = r
        signal.set_wakeup_fd(self.wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def spawn(self, argv, env, cwd, fds, umask=0o022):
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for s in range(1, signal.NSIG):
                if s not in (signal.SIGKILL, signal.SIGSTOP):
                    try:
                        signal.signal(s, signal.SIG_DFL)
                    except (OSError, ValueError):
                        pass
            keep = [fcntl.fcntl(f, fcntl.F_DUPFD, 10) for f in fds]
            for i, f in enumerate(keep):
                os.dup2(f, i)
            os.closerange(3, 65536)
            os.umask(umask)
            try:
                os.chdir(cwd)
            except OSError:
                os.write(2, ("cluster: %s: no folder %s here, using /\n"
                             % (self.name, cwd)).encode())
                os.chdir("/")
            os.execvpe(argv[0], argv, env)
        except OSError as e:
            os.write(2, ("cluster: %s: %s: %s\n" % (self.name, argv[0], e.strerror)).encode())
            os._exit(127 if e.errno == errno.ENOENT else 126)
        finally:
            os._exit(126)

    def daemon(self, name, argv, env):
        log = os.open(os.path.join(self.work, "log", name + ".log"),
                      os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open("/dev/null", os.O_RDWR)
        pid = self.spawn(argv, env, "/", (null, log, log))
        os.close(log)
        os.close(null)
        return pid

    def accept(self):
        c, _ = self.srv.accept()
        c.setblocking(True)
        c.settimeout(5)
        fds = []
        try:
            msg, anc, _f, _a = c.recvmsg(4, socket.CMSG_SPACE(12))
            for level, typ, data in anc:
                if level == socket.SOL_SOCKET and typ == socket.SCM_RIGHTS:
                    a = array.array("i")
                    a.frombytes(data[:len(data) - len(data) % a.itemsize])
                    fds += list(a)
            want, = struct.unpack("!I", msg)
            body = b""
            while len(body) < want:
                b = c.recv(want - len(body))
                if not b:
                    raise ValueError("short request")
                body += b
            self.handle(c, json.loads(body), fds)
        except (OSError, ValueError, struct.error, KeyError, Fail) as e:
            self.answer(c, 125, str(e))
        finally:
            for f in fds:
                os.close(f)

    def answer(self, c, rc, error=None, **kw):
        if c is None:
            return
        try:
            c.sendall(json.dumps(dict(kw, rc=rc, error=error)).encode() + b"\n")
        except OSError:
            pass
        c.close()

    def handle(self, c, req, fds):
        if "call" in req:
            fn = self.extra[req["call"]]
            res = fn(req)
            if res == "later":
                self.bye = c
            else:
                self.answer(c, 0, **(res or {}))
            return
        env = dict(req["env"], CLUSTER_DIR=self.work, CLUSTER_NODE=self.name)
        for k, v in default_env(self.work).items():
            env.setdefault(k, v)
        if req.get("detach"):
            pid = self.daemon(req["detach"], req["argv"], env)
            self.jobs[pid] = None
            self.answer(c, 0, pid=pid)
            return
        pid = self.spawn(req["argv"], env, req["cwd"], fds, req["umask"])
        c.setblocking(False)
        self.jobs[pid] = c

    def hangup(self, pid):
        self.kill_session(pid, signal.SIGTERM)
        self.dying.append((time.monotonic() + 2, pid))

    @staticmethod
    def kill_session(sid, sig):
        """Signal all of a session: salloc puts its child in a group of its own."""
        for p in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.getsid(int(p)) == sid:
                    os.kill(int(p), sig)
            except OSError:
                pass

    def reap(self):
        while True:
            try:
                pid, st = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            rc = os.waitstatus_to_exitcode(st)
            if rc < 0:
                rc = 128 - rc
            if pid in self.on_exit:
                self.on_exit.pop(pid)(rc)
            self.answer(self.jobs.pop(pid, None), rc)

    def loop(self):
        while True:
            conns = {c: p for p, c in self.jobs.items() if c is not None}
            tmo = 1.0 if (self.dying or self.stop_at) else None
            r, _, _ = select.select([self.srv, self.wake_r] + list(conns), [], [], tmo)
            for x in r:
                if x is self.srv:
                    try:
                        self.accept()
                    except OSError:
                        pass
                elif x == self.wake_r:
                    try:
                        os.read(self.wake_r, 4096)
                    except OSError:
                        pass
                elif x in conns:
                    pid = conns[x]
                    try:
                        b = x.recv(4096)
                    except OSError:
                        b = b""
                    if not b:
                        self.jobs[pid] = None
                        x.close()
                        self.hangup(pid)
                    else:
                        for line in b.splitlines():
                            try:
                                os.killpg(pid, json.loads(line)["sig"])
                            except (OSError, ValueError, KeyError):
                                pass
            self.reap()
            now = time.monotonic()
            for item in [i for i in self.dying if i[0] <= now]:
                self.dying.remove(item)
                self.kill_session(item[1], signal.SIGKILL)
            if self.stop_at and now >= self.stop_at:
                return
