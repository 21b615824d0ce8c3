//! Homes of shared memory: the NUMA nodes on which its pages lie.
//!
//! **Problem.** A page lies where it is first touched, and whoever comes first to a connection may
//! be its reader, on another socket: whose memory it is would be a matter of luck.
//!
//! **Idea.** What a rank writes lies near it. A slot that is written and read once each time then
//! crosses the link between sockets once, when it is read. Near its reader it would cross twice:
//! the line comes over before it is written, and goes back when it leaves the writer's cache. So
//! the memory of a connection prefers the NUMA node of its writer, whoever maps it first (`mbind`:
//! for a file in memory the system keeps that for all processes).
//!
//! Where a rank may run on several NUMA nodes, where all ranks have one, and where the system
//! refuses, as some containers do, pages lie where they are first touched.

use std::sync::Arc;

/// The NUMA nodes that the ranks of a node run on, where they differ.
#[derive(Clone, Debug, Default)]
pub struct Homes(Option<Arc<[Option<u32>]>>);

impl Homes {
    /// Collects the NUMA nodes of ranks, by rank: `None` for one of another node, or of several
    /// NUMA nodes.
    pub fn of(numa: impl IntoIterator<Item = Option<u32>>) -> Homes {
        let numa: Vec<Option<u32>> = numa.into_iter().collect();
        let mut known = numa.iter().flatten();
        let first = known.next();
        let differ = known.any(|node| Some(node) != first);
        Homes(differ.then(|| numa.into()))
    }

    /// The NUMA node of a rank, where ranks differ.
    pub(super) fn of_rank(&self, rank: usize) -> Option<u32> {
        self.0.as_ref()?.get(rank).copied().flatten()
    }

    /// The NUMA node for what a rank writes and another reads. What comes from another node is
    /// written by whoever serves the reader.
    pub(super) fn of_pair(&self, writer: usize, reader: usize) -> Option<u32> {
        self.of_rank(writer).or_else(|| self.of_rank(reader))
    }
}

/// NUMA nodes that a mask has room for: as many as Linux knows.
const MOST_NODES: usize = 1024;
const WORD_BITS: usize = u64::BITS as usize;

/// Has the pages of a range that are not there yet taken from a NUMA node, as long as it has any.
///
/// # Safety
/// The range is whole pages of a mapping that is the caller's.
pub(super) unsafe fn prefer(place: *mut u8, bytes: usize, node: u32) {
    let mut mask = [0u64; MOST_NODES / WORD_BITS];
    let Some(word) = mask.get_mut(node as usize / WORD_BITS) else {
        return;
    };
    *word = 1 << (node as usize % WORD_BITS);
    // The kernel reads one bit less than it is told.
    let bits = MOST_NODES + 1;
    // SAFETY: changes no byte of the caller's own mapping; the mask has as many bits. A refusal
    // leaves the pages to whoever touches them first.
    unsafe {
        libc::syscall(
            libc::SYS_mbind,
            place,
            bytes,
            libc::MPOL_PREFERRED,
            mask.as_ptr(),
            bits,
            0,
        );
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
    fn homes_are_told_where_ranks_differ() {
        let two = Homes::of([Some(0), Some(1), None, Some(1)]);
        let known: Vec<_> = (0..5).map(|rank| two.of_rank(rank)).collect();
        assert_eq!(known, [Some(0), Some(1), None, Some(1), None]);
        assert_eq!(two.of_pair(0, 1), Some(0), "near the writer");
        assert_eq!(two.of_pair(1, 0), Some(1));
        assert_eq!(two.of_pair(2, 1), Some(1), "the writer is elsewhere");
        for alike in [&[Some(3), Some(3)][..], &[None, Some(1)], &[]] {
            let one = Homes::of(alike.iter().copied());
            assert_eq!(one.of_pair(0, 1), None, "{alike:?}");
        }
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
        unsafe { prefer(at(1), page, 0) };
        assert_eq!(
            [0, 1, 2].map(|pages| policy(at(pages)).unwrap().0),
            [0, libc::MPOL_PREFERRED, 0]
        );
        assert_eq!(policy(at(1)).unwrap().1, 1);
        // A node that cannot be changes nothing.
        // SAFETY: as above.
        unsafe { prefer(at(2), page, 5000) };
        assert_eq!(policy(at(2)).unwrap().0, 0);
        // SAFETY: nobody uses it.
        unsafe { mapped.unmap() };
    }
}
