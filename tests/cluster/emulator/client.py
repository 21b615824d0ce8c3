"""The caller's side of an agent: run a command on a node, or ask the head for something.

One request per connection on the UNIX socket nodes/NAME/agent.sock: the caller's fds 0-2
(SCM_RIGHTS), then a JSON head with its length. The answer is one JSON line. It works from any
namespace because the socket is a file.
"""
import array
import json
import os
import signal
import socket
import struct
import sys

from .base import HEAD, Fail


def agent_connect(work, node):
    d = os.path.join(work, "nodes", node)
    try:
        dfd = os.open(d, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        raise Fail("no node called %s in %s" % (node, work))
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:                              # the short name keeps below the 107-byte limit
        s.connect("/proc/self/fd/%d/agent.sock" % dfd)
    except OSError as e:
        raise Fail("%s does not answer (%s)" % (node, e.strerror))
    finally:
        os.close(dfd)
    return s


def agent_request(work, node, req, fds=(0, 1, 2)):
    s = agent_connect(work, node)
    body = json.dumps(req).encode()
    try:
        s.sendmsg([struct.pack("!I", len(body))],
                  [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        s.sendall(body)
    except OSError as e:
        raise Fail("%s: %s" % (node, e.strerror))
    return s


def agent_call(work, node, argv, env=None, cwd=None, detach=None):
    """Run argv on a node with our own stdin/stdout/stderr; the exit status."""
    req = {"argv": argv, "env": dict(os.environ) if env is None else env,
           "cwd": cwd or os.getcwd(), "umask": os.umask(0o022), "detach": detach}
    os.umask(req["umask"])
    s = agent_request(work, node, req)

    def fwd(sig, _frame):
        try:
            s.sendall(json.dumps({"sig": int(sig)}).encode() + b"\n")
        except OSError:
            pass
    old = {}
    if not detach:
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                    signal.SIGUSR1, signal.SIGUSR2):
            old[sig] = signal.signal(sig, fwd)
    buf = b""
    try:
        while b"\n" not in buf:
            try:
                b = s.recv(4096)
            except ConnectionResetError:
                b = b""
            if not b:
                sys.stderr.write("cluster: %s went away\n" % node)
                return 255
            buf += b
    finally:
        for sig, h in old.items():
            signal.signal(sig, h)
    rep = json.loads(buf)
    if rep.get("error"):
        sys.stderr.write("cluster: %s: %s\n" % (node, rep["error"]))
    return rep["rc"]


def head_call(work, **req):
    s = agent_request(work, HEAD, req)
    buf = b""
    while b"\n" not in buf:
        b = s.recv(4096)
        if not b:
            break
        buf += b
    rep = json.loads(buf) if buf else {"rc": 0}
    if rep.get("error"):
        raise Fail(rep["error"])
