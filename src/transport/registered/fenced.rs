//! Pages for tests, between two that nobody may touch.

use super::areas;
use crate::transport::fork::Fd;
use std::os::fd::AsRawFd;

pub(super) const PAGE: usize = 4096;
pub(super) const SHARED: libc::c_int = libc::MAP_SHARED;
pub(super) const PRIVATE: libc::c_int = libc::MAP_PRIVATE;

/// Pages of a test, between two that nobody may touch.
pub(super) struct FencedPages {
    start: *mut u8,
    pub bytes: usize,
}

// SAFETY: plain memory, which the tests touch by volatile accesses of single bytes.
unsafe impl Sync for FencedPages {}

pub(super) fn map_at(at: usize, bytes: usize, kind: libc::c_int, file: Option<&Fd>) -> *mut u8 {
    let kind = kind
        | if file.is_none() {
            libc::MAP_ANONYMOUS
        } else {
            0
        };
    let kind = kind | if at != 0 { libc::MAP_FIXED } else { 0 };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let number = file.map_or(-1, |file| file.as_raw_fd());
    // SAFETY: a new mapping, or one over pages of the test.
    let place = unsafe { libc::mmap(at as *mut _, bytes, rights, kind, number, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    place.cast()
}

impl FencedPages {
    pub fn new(count: usize) -> FencedPages {
        FencedPages::of(PRIVATE, count * PAGE, None)
    }

    pub fn of(kind: libc::c_int, bytes: usize, file: Option<&Fd>) -> FencedPages {
        let fence = map_at(0, bytes + 2 * PAGE, PRIVATE, None);
        // SAFETY: the pages made above, which nobody uses.
        unsafe { libc::mprotect(fence.cast(), bytes + 2 * PAGE, libc::PROT_NONE) };
        let start = map_at(fence as usize + PAGE, bytes, kind, file);
        FencedPages { start, bytes }
    }

    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset)
    }

    pub fn read(&self, offset: usize) -> u8 {
        assert!(offset < self.bytes);
        // SAFETY: inside; volatile, as peers write there.
        unsafe { self.at(offset).read_volatile() }
    }

    pub fn write(&self, offset: usize, value: u8) {
        assert!(offset < self.bytes);
        // SAFETY: inside, as above.
        unsafe { self.at(offset).write_volatile(value) };
    }

    /// Bytes that follow from the seed.
    pub fn fill(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..self.bytes).for_each(|at| self.write(at, random.u8(..)));
    }

    pub fn has(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        for at in 0..self.bytes {
            assert_eq!(self.read(at), random.u8(..), "byte {at}, seed {seed}");
        }
    }

    pub fn rights(&self, page: usize) -> String {
        let page = self.start as usize + page * PAGE;
        areas::plain(&(page..page + PAGE)).unwrap()[0]
            .rights
            .clone()
    }
}

impl Drop for FencedPages {
    fn drop(&mut self) {
        // SAFETY: the fences and what is between them, which nobody uses any more.
        unsafe { libc::munmap(self.at(0).wrapping_sub(PAGE).cast(), self.bytes + 2 * PAGE) };
    }
}
