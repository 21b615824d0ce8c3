//! The pool: one file in which the communicators of a node have their memory.
//!
//! **Problem.** A file of its own for each communicator means, for each, a file to be made, handed
//! to every process of the node, and kept open.
//!
//! **Idea.** The file of the first communicator is a sequence of *regions* of equal length, each
//! of which holds one communicator. Where all members of a new one have the file already, as
//! those of a split do, it needs the number of a free region and nothing else. Those that meet
//! from nothing say which files they have ([`known`]), by their *names*. The file grows as
//! regions are used, and pages appear when they are touched; the last of a communicator's ranks
//! that leaves gives its pages back, after which the region is as new.
//!
//! **Terms.** The *control* at the file's beginning says which regions are taken and by how many
//! ranks. A *lease* is one rank's use of a region. A rank that dies keeps its lease: its region is
//! not used again while the file lives. Whoever hears of a region *joins* it, while the one that
//! took it still has its lease. The *tag* counts how often a region was taken: by it somebody who
//! comes late sees that the region belongs to others now.

use super::fork::{self, Fd};
use super::mapped::Mapped;
use super::room;
use crate::base::sync::{AtomicU64, Ordering};
use crate::base::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Regions of a file: more than a program has communicators, as none that lives may cost a file of
/// its own.
const REGIONS: usize = 1 << 16;
const WORD_BITS: usize = u64::BITS as usize;
/// Bytes before the first region. Most of them are touched only where so many regions are taken.
pub(super) const CONTROL_BYTES: usize = 532_480;
/// Of these, what a new file has at once: all bits, and the counts of the first regions.
pub(super) const READY_BYTES: usize = 12_288;
/// The unit of a region's length.
const GRAIN: usize = 4096;
/// Regions whose counts share a page.
const COUNTS_OF_PAGE: usize = GRAIN / size_of::<u64>();
/// The end of the longest file that there can be.
const LONGEST: u64 = i64::MAX as u64;

#[repr(C)]
struct Control {
    /// A bit for each region that is taken.
    taken: [AtomicU64; REGIONS / WORD_BITS],
    /// The ranks that use each region, and above them its tag.
    users: [AtomicU64; REGIONS],
}

/// Where the tag begins.
const TAG_SHIFT: u32 = 32;
/// How many use a region, without the tag.
const COUNT: u64 = (1 << TAG_SHIFT) - 1;

const _: () = assert!(crate::base::sync::MODEL || size_of::<Control>() == CONTROL_BYTES);
const _: () = assert!(REGIONS / 8 + GRAIN == READY_BYTES && REGIONS.is_multiple_of(COUNTS_OF_PAGE));

/// The name that processes give a file: a random number. It is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolName(u64);

impl PoolName {
    /// A new one.
    ///
    /// # Errors
    /// `SystemError` when the system refuses.
    pub fn draw() -> Result<PoolName> {
        let mut bytes = [0; size_of::<u64>()];
        getrandom::fill(&mut bytes).map_err(|error| {
            let what = format!("no random numbers: {error}");
            Error::new(Code::SystemError, what, "check the system")
        })?;
        Ok(PoolName(u64::from_le_bytes(bytes)))
    }
}

/// A region of a file, as whoever took it tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPlace {
    /// The file.
    pub name: PoolName,
    /// Bytes of each region there.
    pub span: usize,
    /// The region's number.
    pub region: usize,
    /// By which it is joined.
    pub tag: u32,
}

impl PoolPlace {
    /// Where the region begins in the file.
    pub(super) fn start(&self) -> u64 {
        (self.region as u64)
            .saturating_mul(self.span as u64)
            .saturating_add(CONTROL_BYTES as u64)
    }
}

/// The files of this process that others may have too.
static KNOWN: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// Files of this process whose regions hold `span` bytes, the youngest first.
pub fn known(span: usize) -> Vec<Arc<Pool>> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let living = known.iter().rev().filter_map(Weak::upgrade);
    let fits = |pool: &Arc<Pool>| span as u64 <= pool.stride;
    living.filter(fits).collect()
}

/// The file, as one process sees it.
#[derive(Debug)]
pub struct Pool {
    pub(super) file: Arc<Fd>,
    name: PoolName,
    control: Mapped,
    /// Bytes of a region.
    stride: u64,
    /// The process it was mapped in.
    generation: u32,
}

// SAFETY: the control holds atomic words only, mapped as long as the pool lives.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// The pool in this file, whose regions hold `span` bytes each.
    fn new(file: Arc<Fd>, name: PoolName, span: usize) -> Result<Arc<Pool>> {
        let control = Mapped::new(Some((&file, 0)), CONTROL_BYTES)?;
        Ok(Arc::new(Pool {
            file,
            name,
            control,
            stride: span.next_multiple_of(GRAIN) as u64,
            generation: fork::generation(),
        }))
    }

    /// As this process knows it from now on, the same for all of its threads.
    pub(super) fn shared(file: Arc<Fd>, name: PoolName, span: usize) -> Result<Arc<Pool>> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|one| one.strong_count() > 0);
        let living = known.iter().filter_map(Weak::upgrade);
        if let Some(pool) = living.into_iter().find(|pool| pool.name == name) {
            return Ok(pool);
        }
        let pool = Pool::new(file, name, span)?;
        known.push(Arc::downgrade(&pool));
        Ok(pool)
    }

    /// The name that processes give it.
    pub fn name(&self) -> PoolName {
        self.name
    }

    /// The file, for a process that does not have it.
    pub fn file(&self) -> &Arc<Fd> {
        &self.file
    }

    /// All that others must hear to join a region.
    pub fn place(&self, region: usize) -> PoolPlace {
        PoolPlace {
            name: self.name,
            span: self.stride as usize,
            region,
            tag: self.tag(region),
        }
    }

    fn control(&self) -> &Control {
        // SAFETY: mapped and zeroed at first, of that size (asserted above), aligned to a page;
        // zero is valid; it is only ever shared.
        unsafe { &*self.control.base().cast::<Control>() }
    }

    /// Where a region begins in the file.
    pub(super) fn start(&self, region: usize) -> u64 {
        CONTROL_BYTES as u64 + region as u64 * self.stride
    }

    /// Takes a free region for `users` ranks, which need a head of `length` bytes and `span` in
    /// all. `None` where there is none, or it is too short, or a limit on files is in its way: such
    /// a communicator has a file of its own.
    pub fn take(&self, users: u32, lengths: (usize, usize)) -> Option<usize> {
        let allowed = |end| room::check_file("shared memory", end).is_ok();
        self.take_if(users, lengths, allowed)
    }

    /// `allowed` says whether the file may have so many bytes.
    fn take_if(
        &self,
        users: u32,
        (length, span): (usize, usize),
        allowed: impl FnOnce(u64) -> bool,
    ) -> Option<usize> {
        if span as u64 > self.stride {
            return None;
        }
        let words = self.control().taken.iter().enumerate();
        let region = words
            .filter_map(|(at, word)| Some(at * WORD_BITS + mark_free(word)?))
            .next()?;
        // The parts lie behind the head, up to the span, and come later, when there is no choice
        // any more. The first region is as near to the file's beginning as one can be.
        let reach = if region == 0 { length } else { span };
        let fits = |end: &u64| *end <= LONGEST && allowed(*end);
        let end = self.end(region, reach).filter(fits);
        if end.is_none() || self.count_at(region).is_err() {
            self.free(region);
            return None;
        }
        let word = &self.control().users[region];
        let tag = (word.load(Ordering::Relaxed) >> TAG_SHIFT).wrapping_add(1);
        word.store(tag << TAG_SHIFT | u64::from(users), Ordering::Release);
        Some(region)
    }

    /// Where the first `bytes` bytes of a region end, if a file can be so long.
    fn end(&self, region: usize, bytes: usize) -> Option<u64> {
        let start = (region as u64).checked_mul(self.stride)?;
        start.checked_add((CONTROL_BYTES + bytes) as u64)
    }

    /// Takes the memory behind the count of a region from the system. Later ones on its page have
    /// it then.
    fn count_at(&self, region: usize) -> Result<()> {
        if region < COUNTS_OF_PAGE {
            return Ok(());
        }
        let page = READY_BYTES + (region / COUNTS_OF_PAGE - 1) * GRAIN;
        let what = "the table of communicators in shared memory";
        room::reserve(&self.file, (page as u64, GRAIN), what)
    }

    /// How often the region was taken, for whoever has it: see [`Pool::join`].
    pub fn tag(&self, region: usize) -> u32 {
        let word = self.control().users.get(region);
        word.map_or(0, |word| (word.load(Ordering::Acquire) >> TAG_SHIFT) as u32)
    }

    /// One rank more uses a region, which somebody has taken who said so with this tag. `None` if
    /// all have left it since.
    pub fn join(self: &Arc<Pool>, region: usize, tag: u32) -> Option<Lease> {
        // Another process said which region it is.
        let word = self.control().users.get(region)?;
        let mut now = word.load(Ordering::Acquire);
        while now >> TAG_SHIFT == u64::from(tag) && now & COUNT != 0 {
            let more = now + 1;
            match word.compare_exchange(now, more, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Lease::of(Some((Arc::clone(self), region)))),
                Err(other) => now = other,
            }
        }
        None
    }

    fn free(&self, region: usize) {
        let word = &self.control().taken[region / WORD_BITS];
        word.fetch_and(!(1 << (region % WORD_BITS)), Ordering::AcqRel);
    }

    /// One rank less uses a region. The last one leaves it as it was at first: all zero.
    fn release(&self, region: usize) {
        // Another process said which region it is: [`Pool::check`] may have refused it.
        let users = self.control().users.get(region);
        if users.is_none_or(|users| users.fetch_sub(1, Ordering::AcqRel) & COUNT != 1) {
            return;
        }
        // What may not be zero is not used again.
        if room::give_back(&self.file, (self.start(region), self.stride as usize)) {
            self.free(region);
        }
    }

    /// How many regions are taken.
    pub fn taken(&self) -> usize {
        let words = self.control().taken.iter();
        words
            .map(|word| word.load(Ordering::Acquire).count_ones() as usize)
            .sum()
    }

    /// Bytes that the file takes, of all its regions.
    ///
    /// # Errors
    /// `SystemError` when the system refuses.
    pub fn bytes(&self) -> Result<u64> {
        room::taken(&self.file)
    }

    /// Checks what another process said about a region.
    pub(super) fn check(&self, region: usize, span: usize) -> Result<()> {
        if region < REGIONS && span as u64 <= self.stride {
            return Ok(());
        }
        Err(Error::internal(format!(
            "region {region} of shared memory cannot hold {span} bytes"
        )))
    }
}

/// Sets a bit that is not set, and says which.
fn mark_free(word: &AtomicU64) -> Option<usize> {
    loop {
        let bit = word.load(Ordering::Relaxed).trailing_ones() as usize;
        if bit == WORD_BITS {
            return None;
        }
        if word.fetch_or(1 << bit, Ordering::AcqRel) & (1 << bit) == 0 {
            return Some(bit);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // SAFETY: this process mapped it, and nobody else has a reference.
            unsafe { self.control.unmap() };
        }
    }
}

/// One rank's use of a region: the end of the last one frees it.
#[derive(Debug)]
pub struct Lease(Option<(Arc<Pool>, usize)>);

impl Lease {
    /// Begins one rank's use of a region, which was taken for it. Where the memory is of this
    /// process alone there is no region, and nothing to be given back.
    pub fn of(region: Option<(Arc<Pool>, usize)>) -> Lease {
        Lease(region)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if fork::in_child_of_user() {
            return;
        }
        if let Some((pool, region)) = &self.0 {
            pool.release(*region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::segment::Segment;

    #[test]
    fn a_region_is_as_new_when_its_last_user_has_left() {
        let lengths = (8192, 1 << 30);
        let (first, _file) = Segment::create(lengths, 0, 2).unwrap();
        let (pool, region) = first.region().expect("a pool");
        let pool = Arc::clone(pool);
        assert_eq!((region, pool.taken()), (0, 1));
        let empty = pool.bytes().unwrap();
        for round in 0..50 {
            let region = pool.take(2, lengths).expect("free");
            assert_eq!(region, 1, "round {round}");
            let leases = [(); 2].map(|()| Lease::of(Some((Arc::clone(&pool), region))));
            let make = || Segment::of_pool(&pool, region, lengths).unwrap();
            let segments = [make(), make()];
            let part = |segment: &Segment| {
                let place = (1 << 29, 1 << 16);
                segment.part(place, 4096, None, "a test").unwrap()
            };
            let (one, other) = (part(&segments[0]), part(&segments[1]));
            // SAFETY: both mappings are live, and nobody else has them.
            unsafe {
                assert_eq!((*one.add(9000), *segments[1].as_ptr()), (0, 0));
                *one.add(9000) = 7;
                *segments[0].as_ptr() = 7;
                assert_eq!(*other.add(9000), 7);
            }
            let [one, other] = leases;
            drop(one);
            assert_eq!(pool.taken(), 2, "the other one is there");
            drop(other);
            assert_eq!(pool.taken(), 1);
            assert_eq!(pool.bytes().unwrap(), empty, "round {round}");
        }
    }

    #[test]
    fn a_region_is_joined_only_while_somebody_has_it() {
        let lengths = (4096, 1 << 20);
        let (first, _file) = Segment::create(lengths, 0, 1).unwrap();
        let pool = Arc::clone(first.region().expect("a pool").0);
        let region = pool.take(1, lengths).expect("free");
        let tag = pool.tag(region);
        let holder = Lease::of(Some((Arc::clone(&pool), region)));
        let member = pool.join(region, tag).expect("taken");
        drop(holder);
        assert_eq!(pool.taken(), 2, "a member is left");
        drop(member);
        assert_eq!(pool.taken(), 1);
        assert!(pool.join(region, tag).is_none(), "nobody has it");
        // Others have it now.
        assert_eq!(pool.take(1, lengths), Some(region));
        assert!(pool.join(region, tag).is_none());
        assert!(pool.join(region, pool.tag(region)).is_some());
        assert!(pool.join(REGIONS, 0).is_none());
    }

    #[test]
    fn several_at_once_and_what_does_not_fit() {
        let lengths = (4096, 1 << 20);
        let (first, _file) = Segment::create(lengths, 0, 1).unwrap();
        let (pool, _) = first.region().expect("a pool");
        let regions: Vec<_> = (0..3).map(|_| pool.take(1, lengths)).collect();
        assert_eq!(regions, [Some(1), Some(2), Some(3)]);
        pool.release(2);
        assert_eq!(pool.take(1, lengths), Some(2));
        assert_eq!(pool.take(1, (4096, (1 << 20) + 1)), None);
        let before = pool.bytes().unwrap();
        let all = std::iter::from_fn(|| pool.take(1, lengths)).count();
        assert_eq!(all, REGIONS - 4);
        let counts = pool.bytes().unwrap() - before;
        assert_eq!(counts as usize, CONTROL_BYTES - READY_BYTES);
        assert!(pool.check(REGIONS, 1).is_err() && pool.check(1, 1 << 21).is_err());
    }

    #[test]
    fn a_limit_on_files_leaves_room_for_the_parts_too() {
        let lengths = (4096, 1 << 20);
        let (first, _file) = Segment::create(lengths, 0, 1).unwrap();
        let (pool, _) = first.region().expect("a pool");
        let end = pool.start(2);
        assert_eq!(pool.take_if(1, lengths, |bytes| bytes < end), None);
        assert_eq!(pool.taken(), 1, "it was given back");
        assert_eq!(pool.take_if(1, lengths, |bytes| bytes <= end), Some(1));
        // Another file would be no better than the first region.
        pool.release(0);
        let head = pool.start(0) + 4096;
        assert_eq!(pool.take_if(1, lengths, |bytes| bytes <= head), Some(0));
    }
}
