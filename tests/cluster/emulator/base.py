"""What all parts of the emulator share: errors, commands, files, processes, environment."""
import ctypes
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SELF = os.path.join(HERE, "cluster.py")
PREFIX = "cluster."
NET = "10.77"                       # private: lives only inside the namespaces
HEAD = "head"
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


class Fail(Exception):
    pass


def die(msg):
    sys.stderr.write("cluster: %s\n" % msg)
    sys.exit(125)


def sh(*cmd, check=True, stdin=None, quiet=False):
    p = subprocess.run(cmd, input=stdin, text=True,
                       stderr=subprocess.DEVNULL if quiet else None)
    if check and p.returncode:
        raise Fail("%s: exit status %d" % (" ".join(cmd), p.returncode))
    return p.returncode


def prctl_pdeathsig(sig):
    libc.prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0)


def unshare(flags):
    if libc.unshare(flags):
        e = ctypes.get_errno()
        raise Fail("unshare: %s (root or CAP_SYS_ADMIN is needed)" % os.strerror(e))


def write(path, text, mode=0o644):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def starttime(pid):
    """Start time of a process, to tell it from a later one with its number."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            s = f.read().rsplit(")", 1)[1].split()
        return None if s[0] in "ZX" else s[19]
    except (OSError, IndexError):
        return None


def default_env(work):
    e = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
         "HOME": os.environ.get("HOME", "/root"), "USER": "root", "SHELL": "/bin/sh",
         "LANG": "C.UTF-8",
         "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
         "OMPI_MCA_plm_rsh_agent": os.path.join(work, "bin", "rsh")}
    conf = os.path.join(work, "etc", "slurm.conf")
    if os.path.exists(conf):
        e["SLURM_CONF"] = conf
    return e


def clean_env(work):
    return dict(default_env(work), CLUSTER_DIR=work)
