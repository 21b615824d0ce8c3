"""One MPI with and without libkolo_pmpi.so, by turns: `peers.py --dropin`.

A *cell* is (library, ranks, collective, bytes); its ratio in a turn is the time without the drop-in
over the time with it, above 1 the drop-in is faster. What loses in one series of turns has another
one, and is lost if it loses there too.
"""
import math
import os
import sys

import libraries
import report

PLAIN, DROPIN = "plain", "dropin"
# The drop-in takes no messages.
COLLECTIVES = tuple(name for name in report.COLLECTIVES if name != "sendrecv")
# Least ratios of a cell, where ranks have cores of their own and where they share them.
OWN, SHARED = 0.95, 0.8


def bound(ranks, cores):
    return OWN if ranks <= cores else SHARED


def run_of(plan, told, library, side, ranks, points):
    """A run of one side; the library is loaded into the ranks alone."""
    run = plan.run((library.name, library.configurations[0].name), ranks, points)
    if side == DROPIN:
        preload = os.path.join(os.path.abspath(told.kolo), "lib", "libkolo_pmpi.so.0")
        table = told.table
        if table not in ("none", "built-in"):
            table = os.path.abspath(table)
        at = run["argv"].index(library.program())
        run["argv"][at:at] = ["env", "LD_PRELOAD=" + preload, "KOLO_PMPI_ATTACH=0",
                              "KOLO_PMPI_TABLE=" + table]
    return run


def series(plan, told, library, ranks, wanted):
    """{(collective, bytes): ratios} of as many turns as are told; `wanted` limits the cells."""
    import peers
    ratios = {}
    for turn in range(told.turns):
        runs = []
        for points in plan.points(ranks):
            own = {c: [s for s in sizes if wanted is None or (c, s) in wanted]
                   for c, sizes in points.items()}
            own = {c: sizes for c, sizes in own.items() if sizes}
            if own:
                sides = (PLAIN, DROPIN) if turn % 2 == 0 else (DROPIN, PLAIN)
                runs += [(side, run_of(plan, told, library, side, ranks, own)) for side in sides]
        results = peers.performed([run for _, run in runs], told.run_by)
        times = {PLAIN: {}, DROPIN: {}}
        for (side, _), result in zip(runs, results):
            what = "%s, %s, turn %d" % (library.name, side, turn + 1)
            times[side].update(peers.times_of(result, ranks, what, 0 if told.least else 1))
        print("turn %d of %d: %s on %d ranks" % (turn + 1, told.turns, library.name, ranks),
              file=sys.stderr)
        for (_, *cell), plain in times[PLAIN].items():
            other = times[DROPIN].get((ranks, *cell))
            if other:
                ratios.setdefault(tuple(cell), []).append(plain / other)
    return ratios


def losing(ratios, least):
    """The cells whose median ratio is below the least."""
    return {cell for cell, own in ratios.items() if report.Spread(own).median < least}


def lost(first, second, least):
    """Cells that lose in both series."""
    return losing(first, least) & losing(second, least)


def means(ratios):
    """{collective: geometric mean of the median ratios of its sizes}"""
    of = {}
    for (collective, _), own in ratios.items():
        of.setdefault(collective, []).append(math.log(report.Spread(own).median))
    return {collective: math.exp(sum(logs) / len(logs)) for collective, logs in of.items()}


def table(name, ranks, first, second, cells):
    """Lines of Markdown for one library on one number of ranks."""
    def order(cell):
        return report.COLLECTIVES.index(cell[0]), cell[1]
    lines = ["| MPI | ranks | collective | size | ratio | second series | |", "|" + "---|" * 7]
    for cell in sorted(first, key=order):
        again = str(report.Spread(second[cell])) if cell in second else ""
        size = "" if cell[0] == "barrier" else report.size_name(cell[1])
        lines.append("| %s | %d | %s | %s | %s | %s | %s |" % (
            name, ranks, cell[0], size, report.Spread(first[cell]), again,
            "lost" if cell in cells else ""))
    for collective, mean in sorted(means(first).items(), key=lambda one: order((one[0], 0))):
        lines.append("| %s | %d | %s | mean | %s | | |" % (name, ranks, collective,
                                                          report.short(mean)))
    return lines


def main(plan, told):
    """Measures and prints; 1 if a cell is lost."""
    import peers
    told.collective = tuple(name for name in told.collective if name in COLLECTIVES)
    for library in plan.peers:
        libraries.compile_for(library)
    any_lost = False
    for library in plan.peers:
        for ranks in told.np:
            least = bound(ranks, peers.cores())
            first = series(plan, told, library, ranks, None)
            again = losing(first, least)
            second = series(plan, told, library, ranks, again) if again else {}
            cells = lost(first, second, least)
            any_lost = any_lost or bool(cells)
            print("\n".join(table(library.title, ranks, first, second, cells)), flush=True)
    return int(any_lost)
