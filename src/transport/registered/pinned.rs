//! Memory that devices reach keeps its pages.
//!
//! **Problem.** Who pins memory for a device (cudaHostRegister, ibv_reg_mr) pins the pages that are
//! there. If others take their place, the device goes on with the old ones, and nobody says so.
//!
//! **Idea.** The driver of CUDA devices is asked, where the program uses it. Adapters of networks
//! cannot be asked: the system shows only what `ibv_fork_init` does beside, which refuses too
//! ([`super::areas`]).

use crate::base::{Error, Result};
use crate::cuda;
use crate::transport::room;
use std::ops::Range;

/// Refuses to move pages that are pinned for a device.
///
/// # Errors
/// `InvalidArgument` naming the first of them.
pub(super) fn refuse(parts: &[Range<usize>], page: usize) -> Result<()> {
    match cuda::Driver::is_open() {
        true => refuse_those(parts, page, cuda::is_pinned),
        false => Ok(()),
    }
}

/// Whether a page of this memory is pinned for a device.
pub fn is_pinned(start: usize, bytes: usize) -> bool {
    let page = room::page_bytes();
    let range = start..start + bytes;
    cuda::Driver::is_open() && refuse_those(&[range], page, cuda::is_pinned).is_err()
}

/// Whether the first or the last page of this memory is pinned for a device, which is quick to ask.
pub fn is_pinned_at_ends(start: usize, bytes: usize) -> bool {
    bytes > 0 && cuda::Driver::is_open() && an_end_is((start, bytes), cuda::is_pinned)
}

fn an_end_is((start, bytes): (usize, usize), is_pinned: impl Fn(usize) -> bool) -> bool {
    is_pinned(start) || is_pinned(start + bytes - 1)
}

fn refuse_those(
    parts: &[Range<usize>],
    page: usize,
    is_pinned: impl Fn(usize) -> bool,
) -> Result<()> {
    let mut pages = parts.iter().flat_map(|part| part.clone().step_by(page));
    let Some(pinned) = pages.find(|&page| is_pinned(page)) else {
        return Ok(());
    };
    Err(Error::argument(
        format!(
            "the memory at {pinned:#x} is pinned for CUDA devices (cudaHostRegister, \
             cudaMallocHost), which would not see the pages that take its place"
        ),
        "register the buffer with kolo first and with CUDA afterwards, and end the latter first; \
         or take it from koloMemAlloc",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_pinned_is_known_by_its_ends() {
        let pinned = |at: usize| (1000..2000).contains(&at);
        for (start, bytes, is_known) in [
            (1000, 1000, true),
            (500, 501, true),
            (1999, 9, true),
            (500, 500, false),
            (2000, 1, false),
        ] {
            assert_eq!(an_end_is((start, bytes), pinned), is_known, "{start}");
        }
    }

    #[test]
    fn a_buffer_with_a_pinned_page_is_refused() {
        const PAGE: usize = 4096;
        let pinned = |at: usize| (7 * PAGE..9 * PAGE).contains(&at);
        for (first, end, is_free) in [(0, 7, true), (9, 13, true), (5, 8, false), (8, 20, false)] {
            let parts = [0..0, first * PAGE..end * PAGE];
            let said = refuse_those(&parts, PAGE, pinned);
            assert_eq!(said.is_ok(), is_free, "{first} {end}");
            let names = |error: Error| error.what.contains("cudaHostRegister");
            assert!(said.err().is_none_or(names));
        }
    }
}
