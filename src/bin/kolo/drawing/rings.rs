//! The rings. On one node with few ranks: ranks on a circle, always at the same place, and arrows
//! in ring order. Else one line a node, ranks in ring order, and a line of the channel's colour
//! that leads from each node to the next and back.

use super::sheet::{MARGIN, NODES_SHOWN, PAGE, Sheet, aside, heading, kind, shown, tint};
use crate::canvas::{Anchor, Canvas, Frame, Look, PLAIN, Pen, colour, plain};
use kolo::base::Rank;
use kolo::topo::channels::Ring;
use kolo::topo::graph::NodeKind;
use kolo::topo::node_graph::RingPart;

/// More ranks of one node are not drawn on a circle.
const ON_CIRCLE: usize = 12;
/// More ranks on a line are not all drawn.
const ON_LINE: usize = 16;
const CELL: f64 = 25.;
const LINE: f64 = 34.;
const NET: f64 = 34.;

/// Draws the rings from `top` on, and gives the height where they end.
pub(super) fn draw(sheet: &Sheet, canvas: &mut Canvas, top: f64) -> f64 {
    let ranks = sheet.channels.rings[0].order.len();
    let on_circle = sheet.nodes() == 1 && ranks <= ON_CIRCLE;
    let by_proxy = |ring: &RingPart| {
        let last = ring.order.last();
        ring.exit.is_some_and(|exit| last != Some(&exit.proxy))
    };
    let is_pxn = sheet.found.graph.rings.iter().any(by_proxy);
    let more = match (sheet.nodes(), on_circle) {
        (1, true) => "each rank sends along the arrow",
        (1, false) => "ranks in ring order; the last one sends to the first",
        _ if is_pxn => {
            "ranks in ring order, node by node, from network port to network port (N); \
             a dashed box is the rank whose proxy sends (PXN)"
        }
        _ => "ranks in ring order, node by node, from network port to network port (N)",
    };
    heading(canvas, top, "Rings", more);
    let (width, height) = if on_circle {
        (PAGE / 6., 200.)
    } else {
        Lines::size(sheet)
    };
    let across = ((PAGE / width) as usize).max(1);
    let groups = sheet.rings();
    for (at, group) in groups.iter().enumerate() {
        let x = MARGIN + width * (at % across) as f64;
        let y = top + 22. + height * (at / across) as f64;
        let ring = &sheet.channels.rings[group.channels[0]];
        canvas.dot(x + 6., y + 4., 6., colour(group.part), "none");
        let pen = Pen {
            bold: true,
            ..PLAIN
        };
        let name = crate::canvas::shortened(&group.name(), 13., width - 40.);
        canvas.text(x + 18., y + 8., &name, pen);
        if on_circle {
            circle(sheet, canvas, ring, x + 10., y + 20., width.min(200.) - 30.)
        } else {
            Lines { sheet, ring, x }.draw(canvas, y + 30.)
        }
    }
    top + 22. + height * groups.len().div_ceil(across) as f64
}

fn circle(sheet: &Sheet, canvas: &mut Canvas, ring: &Ring, x: f64, y: f64, size: f64) {
    let count = ring.order.len();
    let (cx, cy, radius) = (x + size / 2., y + size / 2., size / 2. - 12.);
    let at = |rank: Rank| {
        let turn = std::f64::consts::TAU * f64::from(rank.0) / count as f64;
        (cx + radius * turn.sin(), cy - radius * turn.cos())
    };
    for &rank in ring.order.iter().filter(|_| count > 1) {
        let (from, to) = (at(rank), at(ring.neighbours(rank).1));
        let length = (to.0 - from.0).hypot(to.1 - from.1).max(1.);
        let toward = |a: (f64, f64), b: (f64, f64)| {
            let share = 13. / length;
            (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share)
        };
        canvas.arrow(
            toward(from, to),
            toward(to, from),
            colour(ring.part as usize),
            2.,
        );
    }
    let (fill, line) = tint(kind(sheet));
    for &rank in &ring.order {
        let (x, y) = at(rank);
        canvas.dot(x, y, 11., fill, line);
        let pen = Pen {
            anchor: Anchor::Middle,
            size: 11.,
            ..PLAIN
        };
        canvas.text(x, y + 4., &rank.to_string(), pen);
    }
}

/// A ring as lines.
struct Lines<'a, 'r> {
    sheet: &'a Sheet<'a>,
    ring: &'r Ring,
    x: f64,
}

/// One line: some ranks in ring order.
struct Row<'a> {
    name: String,
    ranks: &'a [Rank],
    /// The node, where there are several.
    node: Option<usize>,
}

impl<'r> Lines<'_, 'r> {
    /// The room of one ring.
    fn size(sheet: &Sheet) -> (f64, f64) {
        let ranks = sheet.channels.rings[0].order.len();
        let nodes = sheet.nodes();
        if nodes == 1 {
            let rows = ranks.div_ceil(ON_LINE) as f64;
            return (76. + CELL * ON_LINE.min(ranks) as f64, 50. + LINE * rows);
        }
        let most = (0..nodes)
            .map(|node| Lines::ranks_of(sheet, node))
            .max()
            .unwrap_or(1);
        let cells = most.min(ON_LINE) as f64;
        let rows = shown(nodes, NODES_SHOWN).len() as f64;
        (
            60. + 2. * NET + CELL * (cells + 1.) + 44.,
            50. + LINE * rows,
        )
    }

    fn ranks_of(sheet: &Sheet, node: usize) -> usize {
        sheet.channels.trees[0].nodes[node].chain.len()
    }

    /// The ring cut into lines; `None` stands for nodes that are left out.
    fn rows(&self) -> Vec<Option<Row<'r>>> {
        let order: &'r [Rank] = &self.ring.order;
        if self.sheet.nodes() == 1 {
            let row = |(at, ranks): (usize, &'r [Rank])| {
                Some(Row {
                    name: (ON_LINE * at).to_string(),
                    ranks,
                    node: None,
                })
            };
            return order.chunks(ON_LINE).enumerate().map(row).collect();
        }
        let mut start = 0;
        let mut all = Vec::new();
        for node in 0..self.sheet.nodes() {
            let count = Lines::ranks_of(self.sheet, node);
            all.push(&order[start..start + count]);
            start += count;
        }
        let row = |node: Option<usize>| {
            node.map(|node| Row {
                name: format!("node {node}"),
                ranks: all[node],
                node: Some(node),
            })
        };
        shown(all.len(), NODES_SHOWN).into_iter().map(row).collect()
    }

    fn draw(&self, canvas: &mut Canvas, top: f64) {
        let rows = self.rows();
        let line = colour(self.ring.part as usize);
        let mut ends: Vec<((f64, f64), (f64, f64))> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let y = top + LINE * at as f64;
            match row {
                Some(row) => ends.push(self.row(canvas, row, y)),
                None => {
                    let hidden = self.sheet.nodes() - (rows.len() - 1);
                    let text = format!("⋮  {hidden} more nodes");
                    canvas.text(self.x + 62., y + 13., &text, aside());
                }
            }
        }
        // From the end of each line to the beginning of the next, in the gap between them.
        for pair in ends.windows(2) {
            let ((from, y), (to, next)) = (pair[0].1, pair[1].0);
            let gap = y + LINE / 2.;
            let left = to - 7.;
            canvas.bent(
                &[(from, y), (from + 7., y), (from + 7., gap), (left, gap)],
                line,
                1.2,
            );
            canvas.bent(&[(left, gap), (left, next)], line, 1.2);
            canvas.arrow((left, next), (to, next), line, 1.2);
        }
        let (Some(&(first, _)), Some(&(_, last))) = (ends.first(), ends.last()) else {
            return;
        };
        // And from the last one back to the first, outside.
        let right = ends.iter().map(|(_, end)| end.0).fold(0., f64::max) + 14.;
        let above = first.1 - LINE / 2. + 1.;
        let left = first.0 - 7.;
        let back = [
            last,
            (right, last.1),
            (right, above),
            (left, above),
            (left, first.1),
        ];
        canvas.bent(&back, line, 1.2);
        canvas.arrow((left, first.1), first, line, 1.2);
    }

    /// Draws a line; gives the points where the ring comes in and goes out.
    fn row(&self, canvas: &mut Canvas, row: &Row, y: f64) -> ((f64, f64), (f64, f64)) {
        let middle = y + 9.;
        let right_of = Pen {
            anchor: Anchor::End,
            size: 11.,
            ..aside()
        };
        canvas.text(self.x + 44., middle + 4., &row.name, right_of);
        let mut x = self.x + 60.;
        let begin = (x, middle);
        if let Some(node) = row.node {
            let entry = self.ring.ports[node].entry;
            self.net(canvas, entry, x, y);
            x = self.step(canvas, x + NET - 6., middle);
        }
        let picks = shown(row.ranks.len(), ON_LINE);
        for (at, pick) in picks.iter().enumerate() {
            match pick.map(|pick| row.ranks[pick]) {
                Some(rank) => self.cell(canvas, rank, x, y, false),
                None => canvas.text(x + 5., middle + 4., "…", PLAIN),
            }
            x += CELL - 6.;
            if at + 1 < picks.len() {
                x = self.step(canvas, x, middle);
            }
        }
        if let Some(node) = row.node {
            let exit = self.ring.ports[node].exit;
            let through = exit
                .map(|exit| exit.proxy)
                .filter(|proxy| row.ranks.last() != Some(proxy));
            if let Some(proxy) = through {
                x = self.step(canvas, x, middle);
                self.cell(canvas, proxy, x, y, true);
                x += CELL - 6.;
            }
            x = self.step(canvas, x, middle);
            self.net(canvas, exit.map(|exit| exit.net), x, y);
            x += NET - 6.;
        }
        (begin, (x, middle))
    }

    /// A short line to the next box; gives where that begins.
    fn step(&self, canvas: &mut Canvas, x: f64, middle: f64) -> f64 {
        let line = colour(self.ring.part as usize);
        canvas.line((x, middle), (x + 6., middle), line, 2.);
        x + 6.
    }

    fn cell(&self, canvas: &mut Canvas, rank: Rank, x: f64, y: f64, is_proxy: bool) {
        let (fill, _) = tint(kind(self.sheet));
        let line = colour(self.ring.part as usize);
        let frame = Frame {
            x,
            y,
            width: CELL - 6.,
            height: 18.,
        };
        let look = Look {
            dashed: is_proxy,
            ..plain(if is_proxy { "#ffffff" } else { fill }, line, 11.)
        };
        canvas.labelled(frame, &rank.to_string(), look);
    }

    fn net(&self, canvas: &mut Canvas, net: Option<u32>, x: f64, y: f64) {
        let (fill, line) = tint(NodeKind::Net);
        let frame = Frame {
            x,
            y,
            width: NET - 6.,
            height: 18.,
        };
        let look = plain(fill, line, 10.);
        let text = net.map_or("-".to_owned(), |net| format!("N{net}"));
        canvas.labelled(frame, &text, look);
    }
}
