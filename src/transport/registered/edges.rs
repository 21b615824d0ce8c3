//! The first and the last bytes of a buffer, which share their pages with other data.
//!
//! **Problem.** A page that is on the file belongs to peers and to children of fork too. What else
//! lies in it may be malloc's lock, which the C library resets in a child before any handler runs.
//!
//! **Idea.** Such a page is never moved. Each registration has two *side pages* on the file, for
//! its first and its last page. A peer maps them before and behind the whole pages, so it has the
//! buffer in one piece. What a call shows of the edges, its owner copies there before it writes the
//! token that says so: peers only read registered memory, so nothing ever has to go back.

use super::exchange;
use crate::base::Result;
use crate::transport::fork::{self, Fd};
use crate::transport::room;
use std::ops::Range;
use std::sync::Arc;

/// Where side pages begin in the file: no address is as high.
const SIDES: u64 = 1 << 60;
/// Numbers of registrations are beyond those of `koloMemAlloc`'s allocations.
pub(super) const FIRST_NUMBER: u64 = 1 << 48;

/// How a buffer lies in pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageSplit {
    /// All pages that hold a byte of it.
    pub hull: Range<usize>,
    /// Those that hold nothing else.
    pub inner: Range<usize>,
    /// Its bytes in a first and in a last page that hold other data too; empty for none.
    pub edges: [Range<usize>; 2],
}

impl PageSplit {
    /// Of a buffer whose last page is an address.
    pub fn new(bytes: &Range<usize>, page: usize) -> PageSplit {
        let hull = bytes.start / page * page..bytes.end.next_multiple_of(page);
        let first_whole = bytes.start.next_multiple_of(page);
        let last_whole = bytes.end / page * page;
        let inner = first_whole..last_whole.max(first_whole);
        let edges = [
            bytes.start..bytes.end.min(first_whole),
            last_whole.max(first_whole)..bytes.end.max(first_whole),
        ];
        PageSplit { hull, inner, edges }
    }

    /// The parts of the pages, in order, and where in the file the registration `number` has them.
    pub fn parts(&self, number: u64, page: usize) -> Vec<(Range<usize>, u64)> {
        let inner = self.inner.clone();
        let (before, behind) = (self.hull.start..inner.start, inner.end..self.hull.end);
        let [first, last] = sides(number, page);
        let all = [
            (before, first),
            (inner.clone(), inner.start as u64),
            (behind, last),
        ];
        all.into_iter()
            .filter(|(part, _)| !part.is_empty())
            .collect()
    }
}

/// Where the side pages of a registration lie in the file.
fn sides(number: u64, page: usize) -> [u64; 2] {
    let first = SIDES + number.saturating_sub(FIRST_NUMBER) * 2 * page as u64;
    [first, first + page as u64]
}

/// The side pages of a registration, which last as long as a call may show something in them.
#[derive(Debug)]
pub(super) struct SidePages {
    file: Arc<Fd>,
    number: u64,
    page: usize,
}

impl SidePages {
    /// Takes memory for those that a registration needs.
    ///
    /// # Errors
    /// `SystemError` where a limit leaves none.
    pub fn new(
        file: &Arc<Fd>,
        split: &PageSplit,
        number: u64,
        page: usize,
    ) -> Result<Arc<SidePages>> {
        let pages = SidePages {
            file: Arc::clone(file),
            number,
            page,
        };
        for (edge, side) in split.edges.iter().zip(sides(number, page)) {
            if !edge.is_empty() {
                room::reserve(file, (side, page), "koloCommRegister")?;
            }
        }
        Ok(Arc::new(pages))
    }
}

impl Drop for SidePages {
    fn drop(&mut self) {
        // They are the parent's in a forked child.
        if !fork::in_child_of_user() {
            let [first, _] = sides(self.number, self.page);
            exchange::release(&self.file, (first, 2 * self.page));
        }
    }
}

/// Bytes of a registered buffer that peers read in a side page.
#[derive(Clone, Debug)]
pub struct Edge {
    bytes: Range<usize>,
    pages: Arc<SidePages>,
    /// Where in the file the first of them lies.
    from: u64,
}

impl Edge {
    /// Those of a registration that lie in `wanted`.
    pub(super) fn within(
        split: &PageSplit,
        pages: &Arc<SidePages>,
        wanted: &Range<usize>,
    ) -> Vec<Edge> {
        let edges = split.edges.iter().zip(sides(pages.number, pages.page));
        let shown = edges.map(|(edge, side)| {
            let bytes = edge.start.max(wanted.start)..edge.end.min(wanted.end);
            let from = side + (bytes.start % pages.page) as u64;
            let pages = Arc::clone(pages);
            Edge { bytes, pages, from }
        });
        shown.filter(|edge| !edge.bytes.is_empty()).collect()
    }

    /// Their addresses.
    pub fn bytes(&self) -> &Range<usize> {
        &self.bytes
    }

    /// Copies those of them that lie in `part` to where peers read them.
    ///
    /// # Errors
    /// `SystemError` where the buffer is not there any more.
    pub fn show(&self, part: &Range<usize>) -> Result<()> {
        let part = part.start.max(self.bytes.start)..part.end.min(self.bytes.end);
        if part.is_empty() {
            return Ok(());
        }
        let to = self.from + (part.start - self.bytes.start) as u64;
        exchange::copy_out(&self.pages.file, &part, to).map_err(|cause| {
            exchange::refused("show peers the first or last bytes of a buffer", &cause)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_and_edges_make_up_the_buffer() {
        const PAGE: usize = 4096;
        let mut random = fastrand::Rng::with_seed(31);
        for _ in 0..3000 {
            let start = random.usize(PAGE..8 * PAGE) >> random.u8(0..4) << random.u8(0..4);
            let bytes = start..start + random.usize(1..5 * PAGE);
            let PageSplit { hull, inner, edges } = PageSplit::new(&bytes, PAGE);
            let holds = |page: usize| bytes.start <= page && page + PAGE <= bytes.end;
            let whole: Vec<usize> = hull
                .clone()
                .step_by(PAGE)
                .filter(|&page| holds(page))
                .collect();
            assert!(
                whole.iter().copied().eq(inner.clone().step_by(PAGE)),
                "{bytes:?}"
            );
            let [first, last] = &edges;
            let all = first.clone().chain(inner.clone()).chain(last.clone());
            assert!(
                all.eq(bytes.clone()),
                "{bytes:?}: {first:?} {inner:?} {last:?}"
            );
            let is_within =
                |edge: &Range<usize>| edge.is_empty() || edge.start / PAGE == (edge.end - 1) / PAGE;
            assert!(edges.iter().all(is_within), "{bytes:?}: {edges:?}");
            let parts = PageSplit::new(&bytes, PAGE).parts(FIRST_NUMBER + 3, PAGE);
            let pages = parts
                .iter()
                .flat_map(|(part, _)| part.clone().step_by(PAGE));
            assert!(pages.eq(hull.step_by(PAGE)), "{bytes:?}: {parts:?}");
        }
    }
}
