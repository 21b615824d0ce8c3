"""What a round must come to: every rank has the right results, or an error that names a culprit."""
import os
import re

import board as boards

# After these, no rank can have all results.
ENDS = {"kill", "abort", "exit", "quit", "leave", "cut", "power"}


def culprits(drawn):
    """The ranks that somebody may blame for the end of the round."""
    blamed, nodes = set(), of_nodes(drawn.layout)
    for fault in drawn.faults:
        if fault.kind in ("power", "cut"):
            blamed |= {rank for rank, node in enumerate(nodes) if node == nodes[fault.rank]}
        elif fault.kind in ENDS:
            blamed.add(fault.rank)
    return blamed


def of_nodes(layout):
    return [i for i, n in enumerate(layout) for _ in range(n)]


def gone(drawn):
    """The ranks that the faults end, of which no word is expected."""
    return {rank for rank in culprits(drawn)
            if not any(fault.kind == "cut" for fault in drawn.faults)}


def said(folder, rank):
    """(first word, rest) of what a rank has told."""
    try:
        with open(os.path.join(folder, "rank.%d" % rank)) as f:
            word, _, rest = f.read().partition(" ")
            return word, rest.strip()
    except OSError:
        return "", ""


def names(text, ranks, words):
    """Whether a sentence names one of the ranks, or has one of the words."""
    found = {int(number) for number in re.findall(r"\brank (\d+)", text)}
    found |= {int(number) for number in re.findall(r"\[peer (\d+)\]", text)}
    return bool(found & ranks) or any(re.search(r"\b%s\b" % word, text) for word in words)


def as_part(ranks, me, colors):
    """What ranks are called in the part that rank `me` belongs to: those that are in it."""
    return {rank // colors for rank in ranks if rank % colors == me % colors}


def failed_in(folder, rank):
    """"world" or "part": where a rank's error was; empty where it had none."""
    word, text = said(folder, rank)
    return text.split(" ")[0] if word == "error" else ""


def judge(drawn, place, folder, board):
    """The sentences that say what is wrong with a round that has ended."""
    blamed, absent, wrong = culprits(drawn), gone(drawn), []
    nodes = of_nodes(drawn.layout)
    for rank in range(sum(drawn.layout)):
        word, text = said(folder, rank)
        state = boards.STATES[board.state(rank)]
        if word == "wrong":
            wrong.append("rank %d has wrong data %s" % (rank, text))
        elif rank in absent:
            if word == "right":
                wrong.append("rank %d, which should have gone, has all results" % rank)
        elif not word:
            wrong.append("rank %d ended without a word (%s)" % (rank, state))
        elif word == "right" and blamed:
            wrong.append("rank %d has all results, although %s" % (rank, drawn.faults))
        elif word == "error" and not blamed:
            wrong.append("rank %d failed, and nothing should have failed: %s" % (rank, text))
        elif word == "error":
            # A cut lies between two nodes: who is on the other side is to blame for this one.
            cut = any(fault.kind == "cut" for fault in drawn.faults)
            others = {r for r, node in enumerate(nodes) if node != nodes[rank]}
            ranks = blamed | others if cut else blamed
            hosts = [name for r in ranks if nodes[r] != nodes[rank]
                     for name in place.names(r, drawn.layout)]
            if cut:
                hosts += place.names(rank, drawn.layout)
            where, _, text = text.partition(" ")
            # Who has failed in the part has ended the world too, and the other way round.
            known = ranks - {rank} | {r for r in range(sum(drawn.layout))
                                      if drawn.colors and failed_in(folder, r) not in ("", where)}
            if where == "part":
                known = as_part(known, rank, drawn.colors)
            if not names(text, known, hosts):
                wrong.append("rank %d does not name rank %s: %s"
                             % (rank, " or ".join(map(str, sorted(ranks - {rank}))), text))
    return wrong + untold(drawn, folder)


def untold(drawn, folder):
    """What is wrong with who heard of an abort: a rank that aborts ends right after, and those on
    other nodes must hear of the abort, not only that a process has ended."""
    if {fault.kind for fault in drawn.faults} & ENDS != {"abort"} or drawn.colors:
        return []
    nodes, (aborter,) = of_nodes(drawn.layout), culprits(drawn)
    errors = [text for rank, node in enumerate(nodes) if node != nodes[aborter]
              for word, text in [said(folder, rank)] if word == "error"]
    if errors and not any("CommAbort" in text for text in errors):
        return ["no rank of another node heard that rank %d called CommAbort: %s"
                % (aborter, errors[0])]
    return []
