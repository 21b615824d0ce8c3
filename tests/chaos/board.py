"""What the driver and the ranks see of each other: a file that all map. board.h has the layout."""
import mmap
import os
import struct

MOST_RANKS = 16
NOT_YET, TOGETHER, RIGHT, FAILED, WRONG, ACTED = range(6)
STATES = ("not started", "together", "right", "error", "wrong", "acted")
ACTS = ("none", "abort", "exit", "quit", "leave")
NO_MPI, MPI_THAT_ENDS, MPI_THAT_MAY_NOT_END = range(3)
PLACE = 64
FINISH, BYE, MPI, ABORTS, ACTOR, ACT, ACTOR_CALL = 0, 4, 8, 12, 16, 20, 24


class Board:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.write(bytes(PLACE * (1 + MOST_RANKS)))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)

    def close(self):
        self.map.close()
        os.unlink(self.path)

    def put(self, at, value, form="<I"):
        struct.pack_into(form, self.map, at, value)

    def part(self, rank, act, call):
        """`rank` shall do `act` by itself before its call `call`."""
        self.put(ACTOR, rank, "<i")
        self.put(ACTOR_CALL, call, "<Q")
        self.put(ACT, ACTS.index(act))

    def place(self, rank):
        """(calls begun, process number in its own namespace, state, line of the script, loops)"""
        return struct.unpack_from("<QIIII", self.map, PLACE * (1 + rank))

    def calls(self, rank):
        return self.place(rank)[0]

    def pid(self, rank):
        return self.place(rank)[1]

    def state(self, rank):
        return self.place(rank)[2]
