//! The trees: the two trees between nodes, and for each channel the chain inside the node.

use super::sheet::{MARGIN, PAGE, Sheet, aside, heading, kind, shown, tint};
use crate::canvas::{Anchor, Canvas, Frame, INK, Look, PLAIN, Pen, colour, plain};
use kolo::topo::graph::NodeKind;
use kolo::topo::node_graph::TreePart;

/// Trees over more nodes are not drawn: their nodes would be smaller than a point.
const MOST_NODES: usize = 256;
/// Two trees stand side by side up to so many nodes.
const SIDE_BY_SIDE: usize = 24;
/// More members on a line are not all drawn.
const ON_LINE: usize = 16;
const LEVEL: f64 = 40.;
const CELL: f64 = 25.;

/// Draws the trees from `top` on.
pub(super) fn draw(sheet: &Sheet, canvas: &mut Canvas, top: f64) {
    let nodes = sheet.nodes();
    let more = match nodes {
        1 => "inside the node a chain: sums go up to its head on the left, results go down",
        _ => {
            "nodes are joined by two binary trees, each for half of the data; inside a node a chain"
        }
    };
    heading(canvas, top, "Trees", more);
    let mut y = top + 22.;
    if nodes > 1 && nodes <= MOST_NODES {
        y = between_nodes(sheet, canvas, y);
    } else if nodes > 1 {
        let text = format!("Trees over {nodes} nodes are too large for this picture.");
        canvas.text(MARGIN, y + 6., &text, aside());
        y += 30.;
    }
    chains(sheet, canvas, y);
}

fn between_nodes(sheet: &Sheet, canvas: &mut Canvas, top: f64) -> f64 {
    let nodes = sheet.nodes() as u32;
    let side_by_side = sheet.nodes() <= SIDE_BY_SIDE;
    let width = if side_by_side { PAGE / 2. - 20. } else { PAGE };
    let count = sheet.channels.count();
    let mut y = top;
    let mut end = top;
    for is_second in [false, true] {
        let x = if side_by_side && is_second {
            MARGIN + PAGE / 2. + 20.
        } else {
            MARGIN
        };
        let name = if is_second {
            "second tree"
        } else {
            "first tree"
        };
        let runs = |channel: &usize| sheet.channels.trees[*channel].is_second == is_second;
        let channels: Vec<usize> = (0..count).filter(runs).collect();
        if channels.is_empty() {
            continue;
        }
        let text = format!("{name}: {}", ranges(&channels));
        let pen = Pen {
            bold: true,
            ..PLAIN
        };
        canvas.text(x, y + 10., &text, pen);
        let tree = Tree::new(nodes, |node| (sheet.parent)(is_second, node, nodes));
        let bottom = tree.draw(canvas, x, y + 26., width);
        end = end.max(bottom);
        if !side_by_side {
            y = bottom + 16.;
        }
    }
    end + 26.
}

/// `channels 0-7`.
fn ranges(channels: &[usize]) -> String {
    match channels {
        [one] => format!("channel {one}"),
        // Halves and repeats: the first run says enough.
        all => {
            let mut runs: Vec<(usize, usize)> = Vec::new();
            for &channel in all {
                match runs.last_mut() {
                    Some(run) if run.1 + 1 == channel => run.1 = channel,
                    _ => runs.push((channel, channel)),
                }
            }
            let text: Vec<String> = runs.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            format!("channels {}", text.join(", "))
        }
    }
}

/// A tree over nodes, laid out so that no two nodes share a column.
struct Tree {
    parent: Vec<Option<u32>>,
    /// Column and level of every node.
    place: Vec<(usize, usize)>,
}

impl Tree {
    fn new(nodes: u32, parent: impl Fn(u32) -> Option<u32>) -> Tree {
        let parent: Vec<Option<u32>> = (0..nodes).map(parent).collect();
        let mut children = vec![Vec::new(); nodes as usize];
        for (node, parent) in parent.iter().enumerate() {
            if let Some(list) = parent.and_then(|parent| children.get_mut(parent as usize)) {
                list.push(node);
            }
        }
        let mut tree = Tree {
            place: vec![(0, 0); nodes as usize],
            parent,
        };
        let mut column = 0;
        let roots = (0..nodes as usize).filter(|&node| tree.parent[node].is_none());
        for root in roots.collect::<Vec<_>>() {
            tree.lay(root, 0, &children, &mut column);
        }
        tree
    }

    /// Children of lower number to the left, the others to the right. A tree is as deep as the
    /// logarithm of its nodes; the bound stops what is none.
    fn lay(&mut self, node: usize, level: usize, children: &[Vec<usize>], column: &mut usize) {
        if level > 64 {
            return;
        }
        let (left, right): (Vec<usize>, Vec<usize>) = match children[node].as_slice() {
            [first, rest @ ..] if !rest.is_empty() => (vec![*first], rest.to_vec()),
            all => all.iter().partition(|&&child| child < node),
        };
        left.iter()
            .for_each(|&child| self.lay(child, level + 1, children, column));
        self.place[node] = (*column, level);
        *column += 1;
        right
            .iter()
            .for_each(|&child| self.lay(child, level + 1, children, column));
    }

    fn draw(&self, canvas: &mut Canvas, x: f64, y: f64, width: f64) -> f64 {
        let unit = (width / self.place.len() as f64).min(52.);
        let side = (unit - 2.).min(30.);
        let at = |node: usize| {
            let (column, level) = self.place[node];
            (
                x + unit * (column as f64 + 0.5),
                y + LEVEL * level as f64 + 10.,
            )
        };
        for (node, parent) in self.parent.iter().enumerate() {
            if let Some(parent) = parent {
                canvas.line(at(*parent as usize), at(node), "#8a4a93", 1.4);
            }
        }
        let mut bottom = y;
        for node in 0..self.place.len() {
            let (cx, cy) = at(node);
            let frame = Frame {
                x: cx - side / 2.,
                y: cy - 9.,
                width: side,
                height: 18.,
            };
            let look = Look {
                bold: self.parent[node].is_none(),
                ..plain("#ffffff", INK, 11.)
            };
            canvas.labelled(frame, &node.to_string(), look);
            bottom = bottom.max(cy + 9.);
        }
        bottom
    }
}

fn chains(sheet: &Sheet, canvas: &mut Canvas, top: f64) {
    let several = sheet.nodes() > 1;
    let mut top = top;
    if several {
        let text = "inside each node, ranks by their position there; N: network port, P: talks to \
                    the parent and the first child node, S: to the second child node";
        canvas.text(MARGIN, top + 10., text, aside());
        top += 36.;
    }
    let trees = &sheet.found.graph.trees;
    let groups = sheet.distinct(trees, |channel| sheet.channels.trees[channel].part);
    let names: Vec<String> = groups.iter().map(|group| group.name()).collect();
    let longest = names
        .iter()
        .map(|name| crate::canvas::text_width(name, 12.))
        .fold(0., f64::max);
    let label = 34. + longest.min(220.) * 1.08;
    let members = sheet.found.graph.ranks.len().min(ON_LINE) as f64;
    let width = label + if several { 34. } else { 0. } + CELL * members + 30.;
    let across = ((PAGE / width) as usize).max(1);
    for (at, (group, name)) in groups.iter().zip(&names).enumerate() {
        let x = MARGIN + width * (at % across) as f64;
        let y = top + 44. * (at / across) as f64;
        canvas.dot(x + 6., y + 9., 6., colour(group.part), "none");
        let name = crate::canvas::shortened(name, 12., 220.);
        canvas.text(x + 18., y + 13., &name, PLAIN);
        chain(
            sheet,
            canvas,
            group.part,
            &trees[group.part],
            (x + label, y),
        );
    }
}

fn chain(sheet: &Sheet, canvas: &mut Canvas, part: usize, tree: &TreePart, at: (f64, f64)) {
    let line = colour(part);
    let (mut x, y) = at;
    let mark = Pen {
        anchor: Anchor::Middle,
        size: 9.,
        bold: true,
        colour: line,
    };
    if let Some(exit) = tree.head_exit {
        let (fill, edge) = tint(NodeKind::Net);
        let frame = Frame {
            x,
            y,
            width: 28.,
            height: 18.,
        };
        let look = plain(fill, edge, 10.);
        canvas.labelled(frame, &format!("N{}", exit.net), look);
        canvas.line((x + 28., y + 9.), (x + 34., y + 9.), edge, 2.);
        x += 34.;
    }
    let picks = shown(tree.chain.len(), ON_LINE);
    for (at, pick) in picks.iter().enumerate() {
        match pick.map(|pick| tree.chain[pick]) {
            None => canvas.text(x + 5., y + 13., "…", PLAIN),
            Some(member) => {
                let (fill, _) = tint(kind(sheet));
                let frame = Frame {
                    x,
                    y,
                    width: CELL - 6.,
                    height: 18.,
                };
                let look = Look {
                    width: if at == 0 { 2.2 } else { 1.2 },
                    bold: at == 0,
                    ..plain(fill, line, 11.)
                };
                canvas.labelled(frame, &member.to_string(), look);
                let roles = [(at == 0, "P"), (member == tree.second, "S")];
                let roles: String = roles
                    .iter()
                    .filter(|(is, _)| *is)
                    .map(|(_, r)| *r)
                    .collect();
                if tree.head_exit.is_some() && !roles.is_empty() {
                    canvas.text(x + (CELL - 6.) / 2., y + 28., &roles, mark);
                }
            }
        }
        if at + 1 < picks.len() {
            canvas.line((x + CELL - 6., y + 9.), (x + CELL, y + 9.), line, 2.);
        }
        x += CELL;
    }
}
