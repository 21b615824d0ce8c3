//! Output of `kolo topo`: the machine as text ([`mod@render`]), its graph, ways, rings and trees as
//! text ([`report`]), and all of it as one picture ([`Sheet::draw`], `--svg FILE`).
//!
//! The picture has three parts from top to bottom: the node with its links and the ports that each
//! ring uses; every ring, in ring order, node by node; the trees between nodes and the chains
//! inside them. A channel has one colour everywhere. Channels with equal rings are drawn once,
//! nodes beyond a few are counted and not drawn.

mod canvas;
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

use canvas::{Canvas, PLAIN, Pen};
use sheet::{MARGIN, aside, gigabytes};

impl Sheet<'_> {
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
