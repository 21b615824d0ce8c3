//! Output of `kolo topo`: the machine as text ([`mod@render`]), its graph, ways, rings and trees as
//! text ([`report`]), and all of it as one picture ([`draw`], `--svg FILE`).
//!
//! The picture has three parts from top to bottom: the node with its links and the ports that each
//! ring uses; every ring, in ring order, node by node; the trees between nodes and the chains
//! inside them. A channel has one colour everywhere. Channels with equal rings are drawn once,
//! nodes beyond a few are counted and not drawn.

mod machine;
pub mod render;
pub mod report;
mod rings;
mod sheet;
mod trees;

#[cfg(test)]
mod render_tests;
#[cfg(test)]
mod tests;

pub use sheet::Sheet;

use crate::canvas::{Canvas, PLAIN, Pen};
use sheet::{MARGIN, aside, gigabytes};

/// The picture as SVG.
pub fn draw(sheet: &Sheet) -> String {
    let mut canvas = Canvas::default();
    let title = Pen {
        size: 20.,
        bold: true,
        ..PLAIN
    };
    canvas.text(MARGIN, 38., sheet.title, title);
    canvas.text(MARGIN, 58., &summary(sheet), aside());
    let mut y = machine::draw(sheet, &mut canvas, 76.);
    y = rings::draw(sheet, &mut canvas, y + 40.);
    trees::draw(sheet, &mut canvas, y + 40.);
    canvas.finish(sheet.title)
}

fn summary(sheet: &Sheet) -> String {
    let count = sheet.channels.count();
    let all = |rate: u32| gigabytes(rate.saturating_mul(count as u32));
    let (rings, trees) = (
        sheet.channels.ring_megabytes_per_s,
        sheet.channels.tree_megabytes_per_s,
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
