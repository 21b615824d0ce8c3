"""Plays a round: starts its ranks, lets its faults strike, waits, looks what is left."""
import os
import signal
import time

import board as boards
from draw import script
from judge import ENDS, gone, judge
from places import listening
import state

LOOK = 0.001        # seconds between two looks at the board
# Loops of the script after the last fault that did no harm, and loops at least; one of each in
# rounds that have become long.
MORE_LOOPS = 2
LEAST_LOOPS = 3
LONG = 5
# Longest round, in seconds, though it moves.
LONGEST = 240


class Wrong(Exception):
    """What a round came to, in lines."""


class Match:
    """A round that is being played."""

    def __init__(self, drawn, place, folder, programs):
        self.drawn, self.place, self.folder = drawn, place, folder
        self.program = programs[drawn.start]
        self.nranks = sum(drawn.layout)
        self.tag = "%d-%d" % (os.getpid(), drawn.seed)
        self.pids = {}              # of the ranks, as this process sees them
        self.until = []             # (moment, what to do): a fault that did no harm ends
        self.cuts = []              # nodes whose cables are pulled for good
        self.waiting = list(drawn.faults)
        self.last_loop = None       # the loop at which the last fault had struck
        self.seen, self.moved = None, 0

    def play(self):
        drawn = self.drawn
        with open(self.folder + "/script", "w") as f:
            f.write(script(drawn))
        self.board = boards.Board(self.folder + "/board")
        self.board.put(boards.ABORTS, int(drawn.aborts))
        self.board.put(boards.ACTOR, -1, "<i")
        self.board.put(boards.MPI, {"openmpi": boards.MPI_THAT_ENDS,
                                    "mpich": boards.MPI_THAT_MAY_NOT_END}.get(drawn.start, 0))
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("KOLO_", "NCCL_", "OMPI_", "PMI", "SLURM_"))}
        env.update(drawn.env, CHAOS_TAG=self.tag)
        self.begin = self.moved = time.monotonic()
        self.started, self.port = self.place.start_ranks(drawn, self.program, self.folder, env)
        try:
            self.drive()
            self.settle()
            wrong = judge(drawn, self.place, self.folder, self.board)
        finally:
            for process in self.started:
                process.end()
            self.place.end_strangers()
            self.end_all()
        wrong += self.left_behind()
        if wrong:
            raise Wrong("\n".join(wrong))

    # ------------------------------------------------------------------ until all have told

    def drive(self):
        """Until every rank has told what became of it, or is gone."""
        self.strangers_at_the_start()
        while True:
            now = time.monotonic()
            self.look_for_a_hang(now)
            states = [self.board.state(rank) for rank in range(self.nranks)]
            for due in [due for due in self.until if due[0] <= now]:
                self.until.remove(due)
                due[1]()
                self.struck()
            if all(state != boards.NOT_YET for state in states):
                self.strike(now)
            if all(state >= boards.RIGHT or self.is_gone(rank)
                   for rank, state in enumerate(states)):
                return
            self.look_for_silent_ends(states)
            if not self.waiting and not self.until and self.is_enough():
                self.board.put(boards.FINISH, 1)
            time.sleep(LOOK)

    def look_for_a_hang(self, now):
        """A round in which nothing has moved for too long, or that never ends."""
        seen = [self.board.place(rank) for rank in range(self.nranks)]
        if seen != self.seen:
            self.seen, self.moved = seen, now
        if now - self.moved > self.drawn.limit or now - self.begin > LONGEST:
            raise Wrong("nothing has moved for %d s, after %d s\n%s" % (
                now - self.moved, now - self.begin, state.report(self)))

    def strangers_at_the_start(self):
        """Garbage while the ranks meet, at the port that is known beforehand."""
        for fault in list(self.waiting):
            if fault.kind == "garbage" and fault.detail == "start":
                self.waiting.remove(fault)
                self.place.junk(0, self.drawn.layout, [self.port])

    def is_enough(self):
        loops = min(self.board.place(rank)[4] for rank in range(self.nranks))
        long = time.monotonic() - self.begin > LONG
        more, least = (1, 1) if long else (MORE_LOOPS, LEAST_LOOPS)
        last = -more if self.last_loop is None else self.last_loop
        return loops >= max(least, last + more) \
            and not any(fault.kind in ENDS for fault in self.drawn.faults)

    def struck(self):
        self.last_loop = max(self.board.place(rank)[4] for rank in range(self.nranks))

    def is_gone(self, rank):
        return rank in gone(self.drawn) and rank in self.pids \
            and not state.lives(self.pids[rank])

    def look_for_silent_ends(self, states):
        """A rank that has ended without a word, though nobody wanted it to."""
        for rank, process in enumerate(self.started):
            if self.drawn.start == "plain" and states[rank] < boards.RIGHT \
                    and rank not in gone(self.drawn) and process.status() is not None \
                    and self.board.state(rank) < boards.RIGHT:
                raise Wrong("rank %d ended without a word, status %s\n%s" % (
                    rank, process.status(), state.outputs(self)))

    # ------------------------------------------------------------------ faults

    def strike(self, now):
        """Lets those faults strike whose calls have come."""
        if not self.pids:
            self.pids = state.find_ranks(self)
        for fault in list(self.waiting):
            if self.board.calls(fault.rank) < fault.at:
                continue
            self.waiting.remove(fault)
            if fault.delay:
                time.sleep(fault.delay)
            getattr(self, fault.kind)(fault, now)
            self.struck()

    def later(self, fault, what):
        self.until.append((time.monotonic() + fault.length, what))

    def signal(self, rank, number):
        try:
            os.kill(self.pids[rank], number)
        except (ProcessLookupError, KeyError):
            pass

    def kill(self, fault, _now):
        self.signal(fault.rank, signal.SIGKILL)

    def stop(self, fault, _now):
        self.signal(fault.rank, signal.SIGSTOP)
        self.later(fault, lambda: self.signal(fault.rank, signal.SIGCONT))

    def by_itself(self, fault, _now):
        self.board.part(fault.rank, fault.kind, self.board.calls(fault.rank) + 1 + fault.at % 3)

    abort = exit = quit = leave = by_itself

    def garbage(self, fault, _now):
        ports = listening([self.pids[fault.rank]]) if fault.rank in self.pids else []
        if ports:
            self.place.junk(fault.rank, self.drawn.layout, ports)

    def pull(self, fault, _now):
        layout = self.drawn.layout

        def plug():
            # What was cut meanwhile stays cut.
            if self.place.names(fault.rank, layout) not in self.cuts:
                self.place.cable(fault.rank, layout, fault.detail, "up")

        self.place.cable(fault.rank, layout, fault.detail, "down")
        self.later(fault, plug)

    def cut(self, fault, _now):
        self.cuts.append(self.place.names(fault.rank, self.drawn.layout))
        self.place.cable(fault.rank, self.drawn.layout, None, "down")

    def slow(self, fault, _now):
        self.place.rate(fault.rank, self.drawn.layout, fault.detail)

    def loss(self, fault, _now):
        self.place.lose(fault.rank, self.drawn.layout, fault.detail)

    def power(self, fault, _now):
        self.place.power(fault.rank, self.drawn.layout)

    # ------------------------------------------------------------------ the end

    def settle(self):
        """All have told: now they end, by themselves."""
        self.board.put(boards.BYE, 1)
        end = time.monotonic() + 20
        alive = []
        while time.monotonic() < end:
            for due in self.until:
                due[1]()                # who is stopped goes on
            self.until = []
            alive = [pid for pid in state.tagged(self.tag) if state.is_rank(pid)]
            if not alive:
                return
            time.sleep(0.01)
        raise Wrong("processes %s have told what became of them, and do not end\n%s" % (
            alive, state.report(self)))

    def end_all(self):
        """Ends what the round has started and is still there, such as an mpirun that waits."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            there = state.tagged(self.tag)
            if not there:
                return
            for pid in there:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    def left_behind(self):
        """What is still there when all processes have ended."""
        end, left = time.monotonic() + 3, ["?"]
        while left and time.monotonic() < end:
            left = self.place.leftovers()
            time.sleep(0.01 if left else 0)
        return ["left behind: " + one for one in left]
