"""What becomes of measured times: choices, medians, ratios, a table, a picture.

A *point* is (ranks, collective, bytes). A *turn* is a list of (variant, point, microseconds): each
variant once. Ratios are taken within a turn, and then their median; above 1 kolo is faster.
"""
import math
import statistics
from xml.sax.saxutils import escape

SIZES = (8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
COLLECTIVES = ("all_reduce", "all_gather", "all_to_all", "broadcast", "reduce_scatter", "reduce",
               "gather", "scatter", "all_gather_v", "gather_v", "scatter_v", "all_to_all_v",
               "barrier", "sendrecv")
# Configurations so near to the best are as good: a trial's noise is no reason to start one more.
NEAR = 1.03
KOLO = ("private", "mapped")


def size_of(word):
    """Bytes of 8, 64K, 1M, 2G."""
    units = {"K": 10, "M": 20, "G": 30}
    if word[-1:].upper() in units:
        return int(word[:-1]) << units[word[-1].upper()]
    return int(word)


def size_name(bytes_):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if bytes_ >= 1 << shift and bytes_ % (1 << shift) == 0:
            return "%d %s" % (bytes_ >> shift, unit)
    return "%d B" % bytes_


def parsed(output):
    """{(collective, bytes): (least, median, late)} of what a program printed, in microseconds."""
    found = {}
    for line in output.splitlines():
        words = line.split()
        if words[:1] == ["result"] and len(words) == 7:
            found[words[1], int(words[2])] = tuple(map(float, words[4:]))
    return found


def chosen(trial):
    """The variant of each point, from one time of each: {variant: {point: time}}.

    As few variants as reach the best time of each point but for NEAR: the one that is near at most
    points first."""
    points = {point for times in trial.values() for point in times}
    best = {point: min(times[point] for times in trial.values() if point in times)
            for point in points}
    open_points, choice = set(points), {}
    while open_points:
        near = {variant: {p for p in open_points if times.get(p, math.inf) <= NEAR * best[p]}
                for variant, times in trial.items()}
        variant = max(sorted(near), key=lambda v: len(near[v]))
        choice.update({point: variant for point in near[variant]})
        open_points -= near[variant]
    return choice


class Spread:
    """Median, least and greatest of several figures."""

    def __init__(self, values):
        self.median, self.least, self.most = statistics.median(values), min(values), max(values)

    def __str__(self):
        return "%s [%s, %s]" % tuple(map(short, (self.median, self.least, self.most)))


def short(value):
    """Three digits, as many as a reader compares."""
    if value < 100:
        return "%.2f" % value if value < 10 else "%.1f" % value
    return "{:,.0f}".format(value)


class Row:
    """A point: times of the peer that was chosen before, of kolo's kinds of memory, and ratios."""

    def __init__(self, point, peer, turns):
        self.point, self.peer = point, peer
        self.times, self.ratios = {}, {}
        for name in (peer, *KOLO, "ideal"):
            own = [turn[name, point] for turn in turns if (name, point) in turn]
            if own:
                self.times[name] = Spread(own)
            both = [turn[peer, point] / turn[name, point] for turn in turns
                    if (name, point) in turn and (peer, point) in turn]
            if both and name != peer:
                self.ratios[name] = Spread(both)

    def loses(self, name="private"):
        return name in self.ratios and self.ratios[name].median < 1


def rows_of(turns, choice):
    """Rows in the order of ranks, collectives and sizes."""
    def order(point):
        return point[0], COLLECTIVES.index(point[1]), point[2]
    return [Row(point, choice[point], turns) for point in sorted(choice, key=order)
            if any((choice[point], point) in turn for turn in turns)]


def table(rows):
    """Lines of Markdown; where kolo is slower than the best peer, the last column says so."""
    lines = ["| ranks | collective | size | best peer | peer us | kolo us | ratio | mapped us | "
             "ratio | ideal | kolo loses |", "|" + "---|" * 11]
    for row in rows:
        ranks, collective, size = row.point
        cells = [str(ranks), collective, "" if collective == "barrier" else size_name(size),
                 "%s (%s)" % row.peer, str(row.times[row.peer])]
        for name in KOLO:
            cells += [str(row.times.get(name, "")), str(row.ratios.get(name, ""))]
        cells.append(str(row.ratios.get("ideal", "")))
        cells.append(", ".join(name for name in KOLO if row.loses(name)))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


# ---- The picture ----

COLORS = {"private": "#2a6fb0", "mapped": "#d9822b", "ideal": "#3a8f4d"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 46, 28, 26
LOW, HIGH = 0.25, 16


def picture(rows, title):
    """An SVG: a panel for each number of ranks and collective, ratio against size."""
    panels = {}
    for row in rows:
        if row.point[1] != "barrier":
            panels.setdefault(row.point[:2], []).append(row)
    columns = min(3, max(1, len(panels)))
    lines = math.ceil(len(panels) / columns)
    width, height = columns * (WIDTH + GAP) + GAP, lines * (HEIGHT + GAP) + 70
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
           'font-family="sans-serif" font-size="11">' % (width, height),
           '<rect width="%d" height="%d" fill="white"/>' % (width, height),
           '<text x="%d" y="22" font-size="15">%s</text>' % (GAP, escape(title))]
    for i, (name, color) in enumerate(COLORS.items()):
        word = {"private": "kolo", "mapped": "kolo, mapped buffers", "ideal": "ideal program"}[name]
        out.append('<circle cx="%d" cy="40" r="4" fill="%s"/><text x="%d" y="44">%s</text>'
                   % (GAP + 5 + 150 * i, color, GAP + 14 + 150 * i, word))
    for i, (key, own) in enumerate(panels.items()):
        x, y = GAP + i % columns * (WIDTH + GAP), 56 + i // columns * (HEIGHT + GAP)
        out += ['<g transform="translate(%d %d)">' % (x, y), *panel(key, own), "</g>"]
    return "\n".join(out + ["</svg>", ""])


def panel(key, rows):
    sizes = [row.point[2] for row in rows]

    def across(size):
        return LEFT + (sizes.index(size) + 0.5) * (WIDTH - LEFT) / len(sizes)

    def up(ratio):
        share = math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
        return HEIGHT - 20 - share * (HEIGHT - 20 - TOP)

    out = ['<text x="%d" y="18" font-weight="bold">%s, %d ranks</text>' % (LEFT, key[1], key[0])]
    ratio = LOW
    while ratio <= HIGH:
        shade = "#444" if ratio == 1 else "#ddd"
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/>'
                   % (LEFT, WIDTH, up(ratio), up(ratio), shade))
        out.append('<text x="%d" y="%.1f" text-anchor="end">%g</text>'
                   % (LEFT - 5, up(ratio) + 4, ratio))
        ratio *= 2
    for size in sizes:
        out.append('<text x="%.1f" y="%d" text-anchor="middle" font-size="9">%s</text>'
                   % (across(size), HEIGHT - 6, size_name(size)))
    for name, color in COLORS.items():
        known = [row for row in rows if name in row.ratios]
        path = " ".join("%.1f,%.1f" % (across(row.point[2]), up(row.ratios[name].median))
                        for row in known)
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>'
                   % (path, color))
        for row in known:
            at, spread = across(row.point[2]), row.ratios[name]
            out.append('<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s"/>'
                       % (at, at, up(spread.least), up(spread.most), color))
            out.append('<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>'
                       % (at, up(spread.median), color))
    return out
