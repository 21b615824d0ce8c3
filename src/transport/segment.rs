//! One piece of memory that all local ranks of a communicator share.
//!
//! **Problem.** Ranks of one machine are processes, threads of one process, or both. They need one
//! zeroed region that all of them see, that leaves no file behind however a job ends, that costs
//! memory only where it is touched, and that no peer can shrink under the others' feet.
//!
//! **Idea.** Between processes: a memfd, an unnamed file in memory, sealed against
//! shrinking; it is gone with the last process that has it. Among threads of one process: anonymous
//! memory. A process maps a segment once, however many of its ranks use it (module `register`).
//!
//! What all ranks need, the *head*, is mapped at once. The *parts* behind it are mapped when they
//! are first used ([`Segment::part`]), and the file grows to hold them: so address space, and what
//! limits on files see, follow what is used.
//!
//! **Layout.** The first 64 bytes per local rank are the confirmation lines (module `confirm`);
//! the connections begin at [`Segment::user_offset`].

use super::fork::{self, Fd};
use super::homes::{self, Home};
use super::mapped::Mapped;
use super::pool::{self, Pool, PoolName, PoolPlace};
use super::register::Registry;
use super::room::{self, create_error};
use crate::base::sync::AtomicU64;
use crate::base::{Error, Rank, Result, checked};
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one confirmation line.
pub const LINE_BYTES: usize = 64;

/// Unit of `user_offset`: it is a multiple of this.
const PAGE_BYTES: usize = 4096;

/// Parts of memory of this process alone that are placed at most, in all segments together. The
/// system joins neighbours that want the same, and counts all others against its limit on mappings
/// (65,530 by default).
const MOST_PLACED: usize = 16_384;

static PLACED: AtomicUsize = AtomicUsize::new(0);

/// 128 random bits that the ranks of one communicator know and nobody else does.
///
/// Whoever shows it to a service is taken for a rank of that communicator.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub u128);

/// Name of one segment: the communicator's nonce, made different for each of its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u128);

impl fmt::Debug for Nonce {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

impl fmt::Debug for Key {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// The segment of the node whose lowest rank is `leader`. (Two nodes of one communicator
    /// may meet in one process when nodes are emulated, so the nonce alone is not a name.)
    pub fn new(nonce: Nonce, leader: Rank) -> Key {
        /// Odd, so that different leaders give different keys; 2^128 divided by the golden ratio.
        const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        Key(nonce
            .0
            .wrapping_add((u128::from(leader.0) + 1).wrapping_mul(SPREAD)))
    }
}

/// A zeroed mapping; unmapped when the last user drops it.
///
/// It is not inherited by forked children: touching it there is a segmentation fault, which is
/// why calls check [`fork::in_child_of_user`] first.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    length: usize,
    /// The file, if it is between processes, and the number of the region that this is.
    region: Option<(Arc<Pool>, usize)>,
    /// Parts that were mapped by themselves, by their offsets.
    parts: Mutex<BTreeMap<usize, Mapped>>,
    /// Its part of [`PLACED`].
    placed: AtomicUsize,
    /// Bytes that head and parts may take.
    span: usize,
    /// Set when the segment is in the process's register.
    key: Option<Key>,
    /// The process it was mapped in.
    generation: u32,
}

/// Which pages count where only a part of one is meant.
enum Rounded {
    /// Those of which any byte is.
    Out,
    /// Those of which all bytes are.
    In,
}

// SAFETY: a segment is an address range that any thread may use for as long as it is mapped; how
// its bytes may be accessed is up to those who use the raw pointer.
unsafe impl Send for Segment {}
// SAFETY: as above; the methods of a shared reference read immutable fields only.
unsafe impl Sync for Segment {}

impl Segment {
    /// Where the bytes of connections begin when `nlocal` ranks share the segment: `nlocal`
    /// confirmation lines, rounded up to a page.
    pub const fn user_offset(nlocal: usize) -> usize {
        checked::round_up(LINE_BYTES * nlocal, PAGE_BYTES)
    }

    /// A new segment for `users` ranks in several processes, and the file from which they can map
    /// it: the first region of a new pool. Its head has `length` bytes, head and parts have at most
    /// `span`. Each rank must hold a lease of it.
    ///
    /// The first `ready_bytes` (at most `length`) get their memory at once, so that a machine
    /// that has none left is found out here; all other pages appear when they are touched.
    pub fn create(
        (length, span): (usize, usize),
        ready_bytes: usize,
        users: u32,
    ) -> Result<(Segment, Arc<Fd>)> {
        check_lengths(length, span)?;
        let refused = |source| create_error("a shared memory file", length, &source);
        let file = room::memory_file(c"kolo").map_err(refused)?;
        let end = (pool::CONTROL_BYTES + length) as u64;
        room::check_file("shared memory", end)?;
        room::grow(&file, end)?;
        room::seal(&file, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL).map_err(refused)?;
        let head = (pool::CONTROL_BYTES as u64, ready_bytes.min(length));
        for first in [(0, pool::READY_BYTES), head] {
            room::reserve(&file, first, "the first pages of shared memory")?;
        }
        room::check_memory("shared memory", length)?;
        let file = Arc::new(file);
        let pool = Pool::shared(Arc::clone(&file), PoolName::draw()?, span)?;
        let region = pool.take(users, (length, span));
        let region = region.ok_or_else(|| Error::internal("a new pool has no free region"))?;
        Ok((Segment::of_pool(&pool, region, (length, span))?, file))
    }

    /// The segment in a region that was taken for it.
    ///
    /// # Errors
    /// `SystemError` when the system refuses, `InternalError` for a region that cannot be.
    pub fn of_pool(
        pool: &Arc<Pool>,
        region: usize,
        (length, span): (usize, usize),
    ) -> Result<Segment> {
        check_lengths(length, span)?;
        pool.check(region, span)?;
        let end = pool.start(region) + length as u64;
        room::check_file("shared memory", end)?;
        room::check_memory("shared memory", length)?;
        room::grow(&pool.file, end)?;
        Segment::map(Some((Arc::clone(pool), region)), length, span)
    }

    /// A new segment for threads of this process only, all of it mapped at once.
    pub fn anonymous(length: usize) -> Result<Segment> {
        Segment::in_process(length, length)
    }

    /// A new segment for threads of this process only.
    pub fn in_process(length: usize, span: usize) -> Result<Segment> {
        check_lengths(length, span)?;
        Segment::map(None, length, span)
    }

    /// Maps what another process made, in the place that it says. A file that is not sealed, or too
    /// short, is an error: it could be cut short later, and every access beyond its end would kill
    /// this process.
    ///
    /// # Errors
    /// Those of [`Segment::of_pool`].
    pub fn open(file: Arc<Fd>, place: &PoolPlace, lengths: (usize, usize)) -> Result<Segment> {
        check_lengths(lengths.0, place.span)?;
        let (bytes, sealed) = (room::size(&file)?, room::is_sealed(&file));
        let wanted = place.start().saturating_add(lengths.0 as u64);
        if !sealed || bytes < wanted {
            return Err(Error::internal(format!(
                "the shared memory received from the node's lowest rank has {bytes} bytes and is \
                 {} against shrinking; expected at least {wanted} bytes, sealed",
                if sealed { "sealed" } else { "not sealed" }
            )));
        }
        let pool = Pool::shared(file, place.name, place.span)?;
        Segment::of_pool(&pool, place.region, lengths)
    }

    fn map(region: Option<(Arc<Pool>, usize)>, length: usize, span: usize) -> Result<Segment> {
        let generation = fork::generation();
        let place = region
            .as_ref()
            .map(|(pool, region)| (&*pool.file, pool.start(*region)));
        let Mapped { base, .. } = Mapped::new(place, length)?;
        Ok(Segment {
            base,
            length,
            region,
            parts: Mutex::default(),
            placed: AtomicUsize::new(0),
            span,
            key: None,
            generation,
        })
    }

    /// The pool that it is a region of, and which, if it is between processes.
    pub fn region(&self) -> Option<(&Arc<Pool>, usize)> {
        self.region.as_ref().map(|(pool, region)| (pool, *region))
    }

    /// The file, and the offset there of the byte at `offset` of the segment.
    fn place(&self, offset: usize) -> Option<(&Fd, u64)> {
        let (pool, region) = self.region.as_ref()?;
        Some((&pool.file, pool.start(*region) + offset as u64))
    }

    /// The address of `bytes` bytes at `offset` (a multiple of a page), which are mapped now if
    /// they are behind the head and nobody in this process has used them before. The first
    /// `ready_bytes` of them have their memory, from `home` where that is said, as all others will.
    /// Valid while the segment lives. `what` it is for is said in errors.
    ///
    /// # Errors
    /// `SystemError` naming what stands in the way; `InternalError` beyond the segment.
    pub fn part(
        &self,
        (offset, bytes): (usize, usize),
        ready_bytes: usize,
        home: Option<Home>,
        what: &str,
    ) -> Result<*mut u8> {
        let end = self.end_of(offset, bytes)?;
        if end <= self.length {
            // SAFETY: inside of the mapping of the head.
            return Ok(unsafe { self.as_ptr().add(offset) });
        }
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = parts.get(&offset).filter(|known| known.length >= bytes) {
            return Ok(mapped.base.as_ptr());
        }
        let place = self.place(offset);
        let mapped = Mapped::new(place, bytes)?;
        if let Some(home) = home.filter(|_| place.is_some() || self.may_place()) {
            // SAFETY: the mapping that was just made.
            unsafe { homes::prefer(mapped.base(), bytes, home) };
        }
        let taken = Segment::take(place, ready_bytes.min(bytes), bytes, what);
        taken.inspect_err(|_| {
            // SAFETY: nobody else knows the mapping that was just made.
            unsafe { mapped.unmap() };
        })?;
        let base = mapped.base.as_ptr();
        parts.insert(offset, mapped);
        Ok(base)
    }

    /// Whether one more part of this process alone may be placed, which then counts.
    fn may_place(&self) -> bool {
        if PLACED.fetch_add(1, Ordering::Relaxed) >= MOST_PLACED {
            PLACED.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.placed.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes the memory of the first `ready` bytes of a part; the others are there too, and cost
    /// nothing before they are touched.
    fn take(place: Option<(&Fd, u64)>, ready: usize, bytes: usize, what: &str) -> Result<()> {
        let Some((file, start)) = place else {
            return room::check_memory(what, ready);
        };
        room::reserve(file, (start, ready), what)?;
        room::check_file(what, start + bytes as u64)?;
        room::grow(file, start + bytes as u64)
    }

    /// Takes the memory behind `bytes` bytes at `offset` from the system, where its absence is an
    /// error and not a signal.
    ///
    /// # Errors
    /// `SystemError` naming what stands in the way; `InternalError` beyond the segment.
    pub fn reserve(&self, (offset, bytes): (usize, usize), what: &str) -> Result<()> {
        self.end_of(offset, bytes)?;
        match self.place(offset) {
            Some((file, start)) => room::reserve(file, (start, bytes), what),
            None => room::check_memory(what, bytes),
        }
    }

    /// Has `bytes` bytes at `offset`, which were taken from the system, in the page tables of this
    /// process at once: else each page would be found there when it is first written, at several
    /// times the price, and a call that comes to a slot for the first time would be slow. `part` is
    /// the offset of the part of a connection that they belong to.
    pub fn populate(&self, part: usize, (offset, bytes): (usize, usize)) {
        let Some((place, bytes)) = self.pages_of(part, (offset, bytes), Rounded::Out) else {
            return;
        };
        // SAFETY: inside of the mapping of the part, which lives as long as the segment; the
        // content stays. Where the system does not know of it (before Linux 5.14), pages come when
        // they are touched.
        unsafe {
            libc::madvise(place.cast(), bytes, libc::MADV_POPULATE_WRITE);
        }
    }

    /// Gives the memory behind `bytes` bytes at `offset` back to the system, for all processes:
    /// they are zero then. `part` is as in [`Segment::populate`]. Nobody may be using them.
    /// False where the system refuses.
    pub fn give_back(&self, part: usize, (offset, bytes): (usize, usize)) -> bool {
        if let Some((file, start)) = self.place(offset) {
            return self.end_of(offset, bytes).is_ok() && room::give_back(file, (start, bytes));
        }
        let Some((place, bytes)) = self.pages_of(part, (offset, bytes), Rounded::In) else {
            return false;
        };
        // SAFETY: inside of the mapping of the part, which is anonymous memory of this process, and
        // lives as long as the segment; nobody uses the bytes, by promise.
        unsafe { libc::madvise(place.cast(), bytes, libc::MADV_DONTNEED) == 0 }
    }

    /// Whole pages of a part at `bytes` bytes from `offset` on.
    fn pages_of(
        &self,
        part: usize,
        (offset, bytes): (usize, usize),
        rounded: Rounded,
    ) -> Option<(*mut u8, usize)> {
        let parts = || self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        // Ranks that are threads share this lock, and the pages take long.
        let (base, length) = parts()
            .get(&part)
            .map(|mapped| (mapped.base, mapped.length))?;
        let page = room::page_bytes();
        let (first, end) = (offset - part, (offset - part + bytes).min(length));
        let (first, end) = match rounded {
            Rounded::Out => (first / page * page, end),
            Rounded::In => (first.next_multiple_of(page), end / page * page),
        };
        let place = base.as_ptr().wrapping_add(first);
        Some((place, end.saturating_sub(first)))
    }

    fn end_of(&self, offset: usize, bytes: usize) -> Result<usize> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.span);
        end.ok_or_else(|| {
            let what = format!(
                "{bytes} bytes at {offset} of shared memory of {}",
                self.span
            );
            Error::internal(what)
        })
    }

    /// How many parts this process has mapped, and the bytes of address space that head and parts
    /// take.
    pub fn mapped(&self) -> (usize, usize) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = parts.values().map(|part| part.length);
        (parts.len(), self.length + bytes.sum::<usize>())
    }

    /// Length of the head in bytes, as asked for.
    #[expect(clippy::len_without_is_empty, reason = "a segment is never empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Its first byte, aligned to a page. Valid while the segment lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Whether it is a memfd that several processes map (true) or memory of this process (false).
    pub fn between_processes(&self) -> bool {
        self.region.is_some()
    }

    /// The 64-bit word at `offset`, which must be a multiple of 8 inside the segment.
    ///
    /// # Panics
    /// When it is not.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.length && self.length - offset >= 8);
        // SAFETY: inside the mapping and aligned, as just checked; the mapping lives as long as
        // `self`; any bytes are a valid integer, and other processes access it atomically too.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // A forked child: the mapping was not inherited, and the addresses may by now belong
            // to something else. The register's lock may be held by a thread that is not here.
            return;
        }
        if let Some(key) = self.key {
            SEGMENTS.forget(key);
        }
        PLACED.fetch_sub(*self.placed.get_mut(), Ordering::Relaxed);
        let head = Mapped {
            base: self.base,
            length: self.length,
        };
        let parts = self.parts.get_mut().unwrap_or_else(PoisonError::into_inner);
        for mapped in parts.values().chain([&head]) {
            // SAFETY: this process mapped it; nobody holds a reference into it any more because
            // those borrow from `self` (raw pointers are the users' duty).
            unsafe { mapped.unmap() };
        }
    }
}

/// The live segments of this process.
pub(super) static SEGMENTS: Registry<Key, Segment> = Registry::new();

/// This process's segment named `key`: the live one, or the one that `make` makes.
///
/// Ranks that are threads of one process get the same segment. Errors are `make`'s; the next
/// caller then tries again.
pub fn shared(key: Key, make: impl FnOnce() -> Result<Segment>) -> Result<Arc<Segment>> {
    SEGMENTS.shared(key, || {
        make().map(|mut segment| {
            segment.key = Some(key);
            segment
        })
    })
}

/// How many segments the register of this process names. For tests and `kolo info`.
pub fn registered() -> usize {
    SEGMENTS.count()
}

fn check_lengths(length: usize, span: usize) -> Result<()> {
    if length == 0 || span < length || span > isize::MAX as usize {
        return Err(Error::internal(format!(
            "a shared memory segment of {length} to {span} bytes was asked for"
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
