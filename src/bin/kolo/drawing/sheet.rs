//! The sheet that is drawn, and what all parts of the picture have in common.

use crate::canvas::{ASIDE, Canvas, PLAIN, Pen, text_width};
use kolo::topo::channels::Channels;
use kolo::topo::graph::NodeKind;
use kolo::topo::search::Found;
use kolo::topo::seats::Seated;

/// The left and right margin.
pub(super) const MARGIN: f64 = 24.;
/// The width between them.
pub(super) const PAGE: f64 = 1300.;
/// So many nodes of a ring are drawn; of more the first and the last.
pub(super) const NODES_SHOWN: usize = 12;

/// The parent of a node in the first (`false`) or second tree over so many nodes.
pub type Parent<'a> = &'a dyn Fn(bool, u32, u32) -> Option<u32>;

/// A sheet with the channels of a job whose nodes are all like the seated one.
#[derive(Clone, Copy)]
pub struct Sheet<'a> {
    /// The headline.
    pub title: &'a str,
    /// The node with its ranks.
    pub seated: &'a Seated,
    /// Rings and trees that the search found on it.
    pub found: &'a Found,
    /// The channels of all nodes.
    pub channels: &'a Channels,
    /// How nodes hang in the trees.
    pub parent: Parent<'a>,
}

impl Sheet<'_> {
    pub(super) fn nodes(&self) -> usize {
        self.channels.nets.len()
    }

    /// The parts that differ from all before them, each with the channels that run it or one like
    /// it. `of` is the part of a channel.
    pub(super) fn distinct<P: PartialEq>(
        &self,
        parts: &[P],
        of: impl Fn(usize) -> u32,
    ) -> Vec<Group> {
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
    pub(super) fn rings(&self) -> Vec<Group> {
        let rings = &self.found.graph.rings;
        self.distinct(rings, |channel| self.channels.rings[channel].part)
    }
}

/// Channels that have equal rings, or equal trees.
pub(super) struct Group {
    /// The first of the equal parts; its colour is theirs.
    pub(super) part: usize,
    pub(super) channels: Vec<usize>,
}

impl Group {
    /// `channel 0`, `channels 0 and 8`, `channels 0, 8, 16, 24`.
    pub(super) fn name(&self) -> String {
        let names: Vec<String> = self.channels.iter().map(usize::to_string).collect();
        match names.as_slice() {
            [one] => format!("channel {one}"),
            [first, last] => format!("channels {first} and {last}"),
            all => format!("channels {}", all.join(", ")),
        }
    }
}

/// Text that is said aside.
pub(super) fn aside() -> Pen<'static> {
    Pen {
        colour: ASIDE,
        ..PLAIN
    }
}

/// The headline of a part of the picture.
pub(super) fn heading(canvas: &mut Canvas, y: f64, text: &str, more: &str) {
    let pen = Pen {
        size: 16.,
        bold: true,
        ..PLAIN
    };
    canvas.text(MARGIN, y, text, pen);
    let x = MARGIN + text_width(text, 16.) * 1.08 + 14.;
    canvas.text(x, y, more, aside());
}

/// Megabytes per second as gigabytes with at most one decimal: `24`, `12.5`, `0.4`.
pub(super) fn gigabytes(megabytes_per_s: u32) -> String {
    let text = format!("{:.1}", f64::from(megabytes_per_s) / 1000.);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Which of so many things are drawn: all, or the first ones, a gap, and the last.
pub(super) fn shown(count: usize, most: usize) -> Vec<Option<usize>> {
    if count <= most {
        return (0..count).map(Some).collect();
    }
    let first = (0..most - 2).map(Some);
    first.chain([None, Some(count - 1)]).collect()
}

/// Kind of the places that the ranks sit on.
pub(super) fn kind(sheet: &Sheet) -> NodeKind {
    let first = sheet.seated.members.first();
    first.map_or(NodeKind::Worker, |&node| {
        sheet.seated.graph.nodes[node].kind
    })
}

/// The colours of a kind of node: fill and outline.
pub(super) fn tint(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::Cpu => ("#e8eef7", "#4a6fa5"),
        NodeKind::Cache => ("#f3f3f3", "#999999"),
        NodeKind::Pci => ("#f5efe0", "#a08040"),
        NodeKind::Gpu | NodeKind::NvSwitch => ("#e3f3e3", "#3b8a3b"),
        NodeKind::Worker => ("#eaf5fb", "#3a87ad"),
        NodeKind::Nic | NodeKind::Net => ("#f4e8f5", "#8a4a93"),
    }
}
