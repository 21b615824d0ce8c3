"""The files of a Slurm installation for one emulated cluster."""
import os
import shutil

from .base import HEAD, NET, Fail, write
from .spaces import switch_of


def slurm_setup(work, o):
    need = ["slurmctld", "slurmd", "srun", "munged"]
    miss = [n for n in need if not shutil.which(n)]
    if miss:
        raise Fail("not found: %s (apt-get install slurm-wlm munge)"
                   % " ".join(miss))
    etc = work + "/etc"
    for d in ("etc", "munge", "state", "spool"):
        os.makedirs(os.path.join(work, d), exist_ok=True)
    with open(work + "/munge/key", "wb") as f:
        f.write(os.urandom(1024))
    os.chmod(work + "/munge/key", 0o600)
    os.chmod(work + "/munge", 0o755)
    n = o["nodes"]
    rng = "node[1-%d]" % n if n > 1 else "node1"
    conf = """\
ClusterName=emu
SlurmctldHost=%(head)s(%(net)s.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%(w)s/munge/sock
CredType=cred/munge
StateSaveLocation=%(w)s/state
SlurmdSpoolDir=%(w)s/spool/%%n
SlurmctldPidFile=%(w)s/slurmctld.pid
SlurmdPidFile=%(w)s/slurmd-%%n.pid
PlugStackConfig=%(w)s/etc/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldParameters=enable_configless
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=10
TCPTimeout=2
KillWait=2
InactiveLimit=0
UnkillableStepTimeout=10
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmctldDebug=info
SlurmdDebug=info
""" % {"head": HEAD, "net": NET, "w": work}
    if o["switches"] > 1:
        conf += "TopologyPlugin=topology/tree\n"
        t = ""
        for s in range(1, o["switches"] + 1):
            m = [str(i) for i in range(1, n + 1) if switch_of(i, o) == s]
            if m:
                t += "SwitchName=sw%d Nodes=node[%s]\n" % (s, ",".join(m))
        t += "SwitchName=spine Switches=sw[1-%d]\n" % o["switches"]
        write(etc + "/topology.conf", t)
    for i in range(1, n + 1):
        conf += ("NodeName=node%d NodeAddr=%s.0.%d CPUs=%d RealMemory=4000 State=UNKNOWN\n"
                 % (i, NET, i, o["slots"]))
    conf += "PartitionName=test Nodes=%s Default=YES MaxTime=INFINITE State=UP\n" % rng
    write(etc + "/slurm.conf", conf)
    write(etc + "/plugstack.conf", "# no plugins\n")
