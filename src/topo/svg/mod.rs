//! The machine, its rings and its trees as one picture: what `kolo topo --svg FILE` writes.
//!
//! Three parts from top to bottom: the node with its links and the ports that each ring uses; every
//! ring, in ring order, node by node; the trees between nodes and the chains inside them. A channel
//! has one colour everywhere. Channels with equal rings are drawn once, nodes beyond a few are
//! counted and not drawn.

mod canvas;
mod machine;
mod rings;
mod trees;

use super::channels::Channels;
use super::search::Found;
use super::seats::Seated;
use canvas::{ASIDE, Canvas, PLAIN, Pen};

/// The left and right margin.
const MARGIN: f64 = 24.;
/// The width between them.
const PAGE: f64 = 1300.;
/// So many nodes of a ring are drawn; of more the first and the last.
const NODES_SHOWN: usize = 12;

/// The parent of a node in the first (`false`) or second tree over so many nodes.
pub type Parent<'a> = &'a dyn Fn(bool, u32, u32) -> Option<u32>;

/// What is drawn: the channels of a job whose nodes are all like the seated one.
#[derive(Clone, Copy)]
pub struct Sheet<'a> {
    /// The headline.
    pub title: &'a str,
    /// The node with its ranks.
    pub seated: &'a Seated,
    /// What the search found on it.
    pub found: &'a Found,
    /// The channels of all nodes.
    pub channels: &'a Channels,
    /// How nodes hang in the trees.
    pub parent: Parent<'a>,
}

impl Sheet<'_> {
    fn nodes(&self) -> usize {
        self.channels.nets.len()
    }

    /// The parts that differ from all before them, each with the channels that run it or one like
    /// it. `of` is the part of a channel.
    fn distinct<P: PartialEq>(&self, parts: &[P], of: impl Fn(usize) -> u32) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let channels = (0..self.channels.count()).filter(|&c| of(c) as usize == index);
            let channels: Vec<usize> = channels.collect();
            match groups.iter_mut().find(|group| parts[group.part] == *part) {
                Some(group) => group.channels.extend(channels),
                None => groups.push(Group {
                    part: index,
                    channels,
                }),
            }
        }
        groups.retain(|group| !group.channels.is_empty());
        groups
            .iter_mut()
            .for_each(|group| group.channels.sort_unstable());
        groups
    }

    /// The rings that differ.
    fn rings(&self) -> Vec<Group> {
        let rings = &self.found.graph.rings;
        self.distinct(rings, |channel| self.channels.rings[channel].part)
    }

    /// The picture as SVG.
    pub fn draw(&self) -> String {
        let mut canvas = Canvas::default();
        let title = Pen {
            size: 20.,
            bold: true,
            ..PLAIN
        };
        canvas.text(MARGIN, 38., self.title, title);
        canvas.text(MARGIN, 58., &self.summary(), aside());
        let mut y = machine::draw(self, &mut canvas, 76.);
        y = rings::draw(self, &mut canvas, y + 40.);
        trees::draw(self, &mut canvas, y + 40.);
        canvas.finish(self.title)
    }

    fn summary(&self) -> String {
        let count = self.channels.count();
        let all = |rate: u32| gigabytes(rate.saturating_mul(count as u32));
        let (rings, trees) = (
            self.channels.ring_megabytes_per_s,
            self.channels.tree_megabytes_per_s,
        );
        format!(
            "{count} channels: rings of {} GB/s, {} GB/s together; trees of {} GB/s, {} GB/s \
             together. Planning figures, per direction.",
            gigabytes(rings),
            all(rings),
            gigabytes(trees),
            all(trees)
        )
    }
}

/// Channels that have equal rings, or equal trees.
struct Group {
    /// The first of the equal parts; its colour is theirs.
    part: usize,
    channels: Vec<usize>,
}

impl Group {
    /// `channel 0`, `channels 0 and 8`, `channels 0, 8, 16, 24`.
    fn name(&self) -> String {
        let names: Vec<String> = self.channels.iter().map(usize::to_string).collect();
        match names.as_slice() {
            [one] => format!("channel {one}"),
            [first, last] => format!("channels {first} and {last}"),
            all => format!("channels {}", all.join(", ")),
        }
    }
}

/// Text that is said aside.
fn aside() -> Pen<'static> {
    Pen {
        colour: ASIDE,
        ..PLAIN
    }
}

/// The headline of a part of the picture.
fn heading(canvas: &mut Canvas, y: f64, text: &str, more: &str) {
    let pen = Pen {
        size: 16.,
        bold: true,
        ..PLAIN
    };
    canvas.text(MARGIN, y, text, pen);
    let x = MARGIN + canvas::text_width(text, 16.) * 1.08 + 14.;
    canvas.text(x, y, more, aside());
}

/// Megabytes per second as gigabytes with at most one decimal: `24`, `12.5`, `0.4`.
pub(super) fn gigabytes(megabytes_per_s: u32) -> String {
    let text = format!("{:.1}", f64::from(megabytes_per_s) / 1000.);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Which of so many things are drawn: all, or the first ones, a gap, and the last.
fn shown(count: usize, most: usize) -> Vec<Option<usize>> {
    if count <= most {
        return (0..count).map(Some).collect();
    }
    let first = (0..most - 2).map(Some);
    first.chain([None, Some(count - 1)]).collect()
}
