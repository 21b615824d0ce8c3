"""Links, folders and names that other users plant where the epilog and `kolo doctor` look.

What is planted is drawn; KOLO_TEST_SEED draws it again. A round is one script on a node, whose
/tmp and /dev/shm are its own: it plants, runs the epilog as root, asks the doctor, and says which
of the victim's files are gone.
"""
import os
import random
import re
import shlex
import time

from harness import SOURCE, case

EPILOG = os.path.join(SOURCE, "slurm", "epilog.sh")
VICTIM, OTHER = 65534, 2
# A number that no process has.
DEAD = 4194000
# Names of results that look like notes or segments.
LURES = ("restart.000100", "core.4194000", "output.42", "libm.so.6", "machine", "machine.4194000",
         "machine.4194001", "vader_segment.x", "mpich_shm.7", "kolo-data", "keep.txt")


def by(uid, script):
    """A script as a user does it."""
    return "setpriv --reuid=%d --regid=%d --clear-groups sh -c %s" % (uid, uid,
                                                                      shlex.quote(script))


class Draw:
    """A victim's results, and what is planted around them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lures = self.random.sample(LURES, self.random.randint(4, len(LURES)))
        # The results may lie where the links lie, so that hard links reach them, too.
        self.home = "/tmp/results%d" % self.random.randrange(1000)
        make = "mkdir -m %s %s && cd %s && for name in %s; do echo precious >$name; done" % (
            self.random.choice(("0700", "0711", "0755")), self.home, self.home,
            " ".join(self.lures))
        self.lines, self.goes = ["umask 022", by(VICTIM, make)], []

    def lure(self):
        return "%s/%s" % (self.home, self.random.choice(self.lures))

    def linked_folder(self, folder):
        """The whole folder is a link of somebody else."""
        self.lines.append(by(self.random.choice((OTHER, VICTIM)),
                             "ln -s %s %s" % (self.home, folder)))

    def folder_of_another(self, folder):
        """Somebody else was first, and put links there; hard ones too."""
        kind = self.random.choice(("ln -s", "ln"))
        links = "; ".join("%s %s %s/machine.%d" % (kind, self.lure(), folder, DEAD + i)
                          for i in range(3))
        self.lines.append("(umask 0; %s); chown %d %s; chmod 0777 %s" % (
            "mkdir %s; %s" % (folder, links), OTHER, folder, folder))

    def open_folder(self, folder):
        """The user's own, but others may write there."""
        self.lines.append(by(VICTIM, "mkdir %s; chmod %s %s; echo x >%s/machine.%d" % (
            folder, self.random.choice(("0777", "0770", "0750", "1777")), folder, folder, DEAD)))
        self.lines.append("ln %s %s/machine.%d" % (self.lure(), folder, DEAD + 1))

    def closed_folder(self, folder):
        """Root's, by a mistake of somebody: the user cannot even enter it."""
        self.lines.append("mkdir -m 0700 {0}; echo x >{0}/machine.{1}".format(folder, DEAD))

    def own_folder(self, folder):
        """As kolo makes it: a note of a dead process goes, and nothing else."""
        self.lines.append(by(VICTIM, "mkdir -m 0700 {0}; cd {0}; echo x >machine.{1}; "
                             "echo x >machine; echo x >machine.$PPID; echo x >restart.000100; "
                             "echo x >machine.0{1}; echo x >machine.{1}.7; echo x >xmachine.{1}; "
                             "ln -s {2} machine.{3}; mkdir machine.{4}; mkfifo machine.{5}; "
                             "ln {2} machine.{6}".format(folder, DEAD, self.lure(), DEAD + 1,
                                                         DEAD + 2, DEAD + 3, DEAD + 4)))
        self.goes.append("%s/machine.%d" % (folder, DEAD))

    def moved_folder(self, folder):
        """/tmp lets others rename: a private folder of the user comes in its place."""
        self.lines.append(by(VICTIM, "mkdir -m 0700 /tmp/private; echo precious "
                             ">/tmp/private/machine.%d" % DEAD))
        self.lines.append("chmod 0777 /tmp")
        self.lines.append(by(OTHER, "mv /tmp/private %s" % folder))

    def segments(self):
        """Names of segments in /dev/shm: links, folders, names with line ends, and a real one."""
        words = ["ln -s %s /dev/shm/vader_segment.link" % self.lure(),
                 "ln -s %s /dev/shm/ucx_shm_folder" % self.home,
                 "mkdir /dev/shm/mpich_shm.folder; echo x >/dev/shm/mpich_shm.folder/machine.9",
                 "touch \"/dev/shm/sm_segment.a\n? 1:1 restart\"",
                 "touch /dev/shm/kolo-mine"]
        self.random.shuffle(words)
        for line in words[:self.random.randint(1, len(words))]:
            self.lines.append(by(self.random.choice((OTHER, VICTIM)), line))
        self.lines.append(by(VICTIM, "echo x >/dev/shm/osc_sm.dead; echo x >/dev/shm/osc_sm.open; "
                             "echo x >/dev/shm/osc_sm.two"))
        self.lines.append("ln /dev/shm/osc_sm.two /dev/shm/other")
        # Somebody else's process has it open.
        self.lines.append("exec 9</dev/shm/osc_sm.open")
        self.goes.append("/dev/shm/osc_sm.dead")


LIST = ("find /tmp /dev/shm /run/user -xdev -not -path '/tmp/kolo-cluster*' "
        "-printf '%p %y %i\\n' 2>/dev/null | tr -cd '[:print:]\\n' | sort")
SWEEP = ("find /tmp /dev/shm /run/user -xdev -mindepth 1 -maxdepth 1 -not -name 'kolo-cluster*' "
         "-not -name tmp -exec rm -rf {} +; chmod 1777 /tmp; exec 9<&-")


def rounds(cluster, draw, uid):
    """What is gone after the epilog, what the doctor would remove, and what was said."""
    script = draw.lines + [
        "echo BEFORE; " + LIST,
        "echo DOCTOR; cd /; %s doctor --json 2>/dev/null" % cluster.kolo,
        "echo VICTIM; " + by(VICTIM, "cd /; %s doctor --json 2>/dev/null" % cluster.kolo),
        "echo DRY; sh %s --dry-run %d 2>&1" % (EPILOG, uid),
        "echo MIDDLE; " + LIST,
        "echo SAID; SLURM_JOB_UID=%d SLURM_JOB_ID=4711 sh %s 2>&1; echo status $?" % (uid, EPILOG),
        "echo AFTER; " + LIST, SWEEP]
    said = cluster.sh("node1", "\n".join(script))
    parts = re.split(r"^(BEFORE|DOCTOR|VICTIM|DRY|MIDDLE|SAID|AFTER)\n", said, flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2]))
    assert found["BEFORE"] == found["MIDDLE"], found
    before, after = (found[name].split("\n") for name in ("BEFORE", "AFTER"))
    found["gone"] = sorted(line.rsplit(" ", 2)[0] for line in set(before) - set(after))
    assert not set(after) - set(before), found
    for who in ("DOCTOR", "VICTIM"):
        # A line for each folder and user.
        fixes = re.findall(r'"fix": *"rm ([^"]*)"', found[who])
        found[who] = sorted(path for fix in fixes for path in shlex.split(fix))
    return found


@case(nodes=1, limit=90)
def planted_links_lead_nowhere(cluster):
    seed = int(os.environ.get("KOLO_TEST_SEED") or random.randrange(1 << 32))
    print("KOLO_TEST_SEED=%d" % seed)
    kinds = [Draw.linked_folder, Draw.folder_of_another, Draw.open_folder, Draw.closed_folder,
             Draw.own_folder, Draw.moved_folder]
    for number, kind in enumerate(kinds):
        what = (seed, number, kind.__name__)
        draw = Draw(seed + number)
        kind(draw, "/tmp/kolo-%d" % VICTIM)
        # Root's own folder is planted for the doctor that root runs.
        if kind is not Draw.moved_folder:
            draw.lines.append(by(OTHER, "ln -s %s /tmp/kolo-0" % draw.home))
        draw.segments()
        found = rounds(cluster, draw, VICTIM)
        assert found["gone"] == sorted(draw.goes), (what, draw.lines, found)
        assert "status 0" in found["SAID"], (what, found)
        assert sorted(re.findall(r": (\S+) removed", found["SAID"])) == sorted(draw.goes), found
        assert sorted(re.findall(r": (\S+) would be removed", found["DRY"])) == sorted(draw.goes), \
            found
        # Root is told of everybody's segments, and of notes in the usual folders that are their
        # users' alone; the user of all of his.
        segments = {path for path in draw.goes if path.startswith("/dev/shm")}
        assert segments <= set(found["DOCTOR"]) <= set(draw.goes), (what, found)
        if kind is Draw.own_folder:
            assert found["DOCTOR"] == sorted(draw.goes), (what, found)
        assert found["VICTIM"] == sorted(draw.goes), (what, found)
        refused = kind in (Draw.linked_folder, Draw.folder_of_another, Draw.open_folder,
                           Draw.closed_folder)
        assert ("not the user's alone" in found["SAID"]) == refused, (what, found)


@case(nodes=1)
def the_epilog_becomes_the_user_by_what_there_is(cluster):
    needed = "id cat env sh ls sed sort stat grep tr sleep rm ln timeout".split()
    for way in ("setpriv", "runuser", "su", None):
        tools = os.path.join(cluster.folder, "tools-%s" % way)
        script = ["mkdir -p " + tools] + [
            "ln -sf $(command -v %s) %s/" % (name, tools) for name in needed + [way] if name]
        script += [by(VICTIM, "mkdir -p -m 0700 /tmp/kolo-%d; echo x >/tmp/kolo-%d/machine.%d; "
                      "id >/dev/shm/ucx_shm_dead" % (VICTIM, VICTIM, DEAD)),
                   "sed 's|^PATH=.*|PATH={0}|' {1} >{0}/epilog; SLURM_JOB_UID={2} sh {0}/epilog "
                   "2>&1; ls /tmp/kolo-{2} /dev/shm".format(tools, EPILOG, VICTIM)]
        said = cluster.sh("node1", "\n".join(script))
        if way:
            assert said.count(" removed\n") == 2 and "ucx_shm_dead\n" not in said.split(
                "/dev/shm:\n")[1], (way, said)
        else:
            assert "there is no setpriv, runuser or su here" in said, said
            assert "ucx_shm_dead\n" in said and "machine.%d" % DEAD in said, said


# A folder of the user where nothing answers: who looks there cannot be ended, and holds what he
# writes to.
STUCK = """#!/bin/sh
echo "kolo epilog: looks"
setsid sleep 30 &
exec sleep 30
"""


@case(nodes=1)
def the_epilog_ends_by_itself_and_is_heard(cluster):
    """As slurmd starts it: without PATH, and with nobody who reads what it prints."""
    tools = os.path.join(cluster.folder, "tools")
    logged = os.path.join(cluster.folder, "logged")
    files = {"setpriv": STUCK, "logger": "#!/bin/sh\necho \"$*\" >>%s\n" % logged}
    os.makedirs(tools)
    for name, text in files.items():
        with open(os.path.join(tools, name), "w") as f:
            f.write(text)
        os.chmod(os.path.join(tools, name), 0o755)
    slurmd = "env -i SLURM_SCRIPT_CONTEXT=epilog_slurmd SLURM_JOB_UID=%d " % VICTIM
    plant = by(VICTIM, "echo x >/dev/shm/ucx_shm_dead")
    # The shell of other distributions looks in /usr/local/bin and /usr/bin alone, so that commands
    # of /usr/sbin would be missed; here those that are needed lie in no usual folder at all.
    for shell in ("dash", "bash"):
        said = cluster.sh("node1", "{0}; mount --bind {1}/logger $(command -v logger); {2} PATH="
                          "/nowhere $(command -v {3}) {4} 2>&1; ls /dev/shm".format(
                              plant, tools, slurmd, shell, EPILOG))
        assert said == "kolo epilog: /dev/shm/ucx_shm_dead removed\n", (shell, said)
        with open(logged) as f:
            assert f.read() == "-t kolo-epilog -- " + said, shell
        os.unlink(logged)
    begin = time.monotonic()
    said = cluster.sh("node1", "{0}; sed 's|^LIMIT=60 |LIMIT=1 |; s|^PATH=|&{1}:|' {2} >{1}/it; "
                      "{3} sh {1}/it 2>&1 | cat; ls /dev/shm".format(
                          plant, tools, EPILOG, slurmd))
    assert time.monotonic() - begin < 20, said
    assert "it did not end within 1 s" in said and "ucx_shm_dead\n" in said, said
