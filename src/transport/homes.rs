//! Homes of shared memory: the NUMA nodes on which its pages lie.
//!
//! **Problem.** A page lies where it is first touched, and whoever comes first to a connection may
//! be its reader, on another socket: whose memory it is would be a matter of luck.
//!
//! **Idea.** What a rank writes lies near it. A slot that is written and read once each time then
//! crosses the link between sockets once, when it is read. Near its reader it would cross twice:
//! the line comes over before it is written, and goes back when it leaves the writer's cache. (That
//! is thought and not measured.) So the memory of a connection prefers the NUMA node of its writer,
//! whoever maps it first. `mbind` says so; for a file in memory the system keeps that for all
//! processes, and for whoever has those bytes later, so each part is told its home anew.
//!
//! What a rank writes that may run on several NUMA nodes lies where it is first touched; all does
//! where the machine has one, and where the system refuses, as some containers do.

use std::sync::Arc;

/// Where pages that are not there yet are to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// From this NUMA node, as long as it has any.
    Node(u32),
    /// From that of whoever touches them first, whatever was wanted there before.
    Toucher,
}

/// The NUMA nodes that the ranks of a node run on, where the machine has several.
#[derive(Clone, Debug, Default)]
pub struct Homes(Option<Arc<[Option<u32>]>>);

impl Homes {
    /// Collects the NUMA nodes of ranks, by rank: `None` for one of another node, or of several
    /// NUMA nodes. Nothing is placed where all are so.
    pub fn of(numa: impl IntoIterator<Item = Option<u32>>) -> Homes {
        let numa: Vec<Option<u32>> = numa.into_iter().collect();
        let is_known = numa.iter().any(Option::is_some);
        Homes(is_known.then(|| numa.into()))
    }

    /// The home of what a rank writes; `None` where nothing is placed.
    pub(super) fn of_rank(&self, rank: usize) -> Option<Home> {
        let numa = self.0.as_ref()?.get(rank).copied().flatten();
        Some(numa.map_or(Home::Toucher, Home::Node))
    }

    /// The home of what a rank writes and another reads. What comes from another node is written
    /// by whoever serves the reader.
    pub(super) fn of_pair(&self, writer: usize, reader: usize) -> Option<Home> {
        match self.of_rank(writer)? {
            Home::Toucher => self.of_rank(reader),
            home => Some(home),
        }
    }
}

/// NUMA nodes that a mask has room for: as many as Linux knows.
const MOST_NODES: usize = 1024;
const WORD_BITS: usize = u64::BITS as usize;

/// Has the pages of a range that are not there yet taken from their home.
///
/// # Safety
/// The range is whole pages of a mapping that is the caller's.
pub(super) unsafe fn prefer(place: *mut u8, bytes: usize, home: Home) {
    let mut mask = [0u64; MOST_NODES / WORD_BITS];
    // The kernel reads one bit less than it is told, and none for a home that is nobody's.
    let (mut mode, mut bits) = (libc::MPOL_DEFAULT, 1);
    if let Home::Node(node) = home {
        let Some(word) = mask.get_mut(node as usize / WORD_BITS) else {
            return;
        };
        *word = 1 << (node as usize % WORD_BITS);
        (mode, bits) = (libc::MPOL_PREFERRED, MOST_NODES + 1);
    }
    // SAFETY: changes no byte of the caller's own mapping; the mask has as many bits. A refusal
    // leaves the pages to whoever touches them first.
    unsafe {
        libc::syscall(libc::SYS_mbind, place, bytes, mode, mask.as_ptr(), bits, 0);
    }
}

/// The way in which the memory at an address is found, and the first of its preferred nodes; `None`
/// where the system forbids to ask.
#[cfg(test)]
pub(super) fn policy(at: *const u8) -> Option<(i32, u64)> {
    const OF_ADDRESS: i32 = 2; // MPOL_F_ADDR
    let (mut mode, mut mask) = (0i32, [0u64; MOST_NODES / WORD_BITS]);
    // SAFETY: both places are this function's; the address is mapped.
    let done = unsafe {
        let (mode, mask) = (&raw mut mode, mask.as_mut_ptr());
        libc::syscall(
            libc::SYS_get_mempolicy,
            mode,
            mask,
            MOST_NODES + 1,
            at,
            OF_ADDRESS,
        )
    };
    let error = std::io::Error::last_os_error();
    if done != 0 && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
        return None;
    }
    assert_eq!(done, 0, "{error}");
    Some((mode, mask[0]))
}

#[cfg(test)]
mod tests {
    use super::super::mapped::Mapped;
    use super::*;

    #[test]
    fn what_is_written_has_the_home_of_its_writer() {
        let two = Homes::of([Some(0), Some(1), None, Some(1)]);
        let known: Vec<_> = (0..5).map(|rank| two.of_rank(rank)).collect();
        let node = |node| Some(Home::Node(node));
        let toucher = Some(Home::Toucher);
        assert_eq!(known, [node(0), node(1), toucher, node(1), toucher]);
        assert_eq!(two.of_pair(0, 1), node(0), "near the writer");
        assert_eq!(two.of_pair(1, 0), node(1));
        assert_eq!(two.of_pair(2, 1), node(1), "the writer is elsewhere");
        assert_eq!(two.of_pair(2, 2), toucher);
        assert_eq!(Homes::of([None, None]).of_pair(0, 1), None);
    }

    #[test]
    fn the_system_keeps_what_is_preferred() {
        if policy([0u8].as_ptr()).is_none() {
            return crate::base::skip::skip("mbind", "the system forbids it");
        }
        let page = 4096;
        let mapped = Mapped::new(None, 3 * page).unwrap();
        let at = |pages: usize| mapped.base().wrapping_add(pages * page);
        // SAFETY: a page of the mapping made above, which nobody else knows.
        unsafe { prefer(at(1), page, Home::Node(0)) };
        assert_eq!(
            [0, 1, 2].map(|pages| policy(at(pages)).unwrap().0),
            [0, libc::MPOL_PREFERRED, 0]
        );
        assert_eq!(policy(at(1)).unwrap().1, 1);
        // A node that cannot be changes nothing, and what was wanted can be taken back.
        // SAFETY: as above.
        unsafe {
            prefer(at(2), page, Home::Node(5000));
            prefer(at(0), page, Home::Node(0));
            prefer(at(0), page, Home::Toucher);
        }
        assert_eq!(policy(at(0)).unwrap().0, 0);
        assert_eq!(policy(at(2)).unwrap().0, 0);
        // SAFETY: nobody uses it.
        unsafe { mapped.unmap() };
    }
}
