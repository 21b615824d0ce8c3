//! Memory of the program that becomes reachable for peers where it lies: `koloCommRegister`.
//!
//! **Problem.** Peers can map a file, and malloc's memory is none. A program that cannot take its
//! buffers from `koloMemAlloc` should not pay for copies all the same.
//!
//! **Idea.** The whole pages of the buffer, in which nothing else lies, are moved onto a file in
//! memory, at the same addresses and with the same content ([`exchange`]). There is one file in a
//! process for all that is registered, and a byte lies in it at the offset that is its address. So
//! what mappings say of themselves tells whether they are ours, ranges may overlap, and the file
//! takes memory only where something was moved. The bytes before and behind the whole pages stay
//! where they are: peers read copies of them ([`edges`]).
//!
//! - [`areas`]: which memory may be moved, by what the system says of it.
//! - [`stacks`]: which memory running threads write.
//! - [`exchange`]: moving it, and moving it back.
//! - [`edges`]: what shares pages with other data.
//! - [`copies`]: pages that the system makes ahead.
//! - [`hooks`]: how libraries that have pinned memory hear of it.
//! - [`forked`]: what children of fork() have instead.
//! - [`own`]: files that the program has mapped itself, which stay as they are.
//! - [`pinned`]: memory that devices reach.
//! - [`shown`]: whether a buffer is where it was registered.
//!
//! **Terms.** *Registration*: a range that the program gave, by a number that is never given twice.
//! Pages go back when no registration holds them any more. *Left*: pages that no registration
//! holds, and for which the system had no memory of their own.

mod areas;
mod copies;
mod edges;
mod exchange;
mod forked;
mod hooks;
mod own;
mod pinned;
mod shown;
mod stacks;

#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod fenced;
#[cfg(test)]
mod hazard_tests;
#[cfg(test)]
mod tests;

use super::fork::Fd;
use super::lasting::Changing;
use super::room;
use crate::base::{Error, Result};
use areas::FileIdentity;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use edges::Edge;
use edges::{FIRST_NUMBER, PageSplit, SidePages};
pub use pinned::{is_pinned, is_pinned_at_ends};

/// Where peers read a registered buffer.
#[derive(Clone, Debug)]
pub struct FoundPages {
    /// The registration's number.
    pub number: u64,
    /// Bytes from its first byte, or from the start of a file of the program.
    pub offset: usize,
    pub file: Arc<Fd>,
    /// Bytes of the registration; 0 where it is a file of the program.
    pub window: usize,
    /// Those of its bytes that peers read in copies.
    pub edges: Vec<Edge>,
}

/// One registration.
#[derive(Clone, Debug)]
struct Holding {
    /// The range that the program gave.
    bytes: Range<usize>,
    split: PageSplit,
    /// The file that holds it.
    file: Arc<Fd>,
    /// How mappings name that.
    identity: FileIdentity,
    /// Where the buffer begins in it, if it is a file of the program.
    own: Option<u64>,
    /// Where peers read its edges, if it is none.
    sides: Option<Arc<SidePages>>,
}

impl Holding {
    /// Where in its file a page lies.
    fn offset_of(&self, page: usize) -> u64 {
        match self.own {
            Some(begins) => begins
                .wrapping_add(page as u64)
                .wrapping_sub(self.bytes.start as u64),
            None => page as u64,
        }
    }

    /// Those of the pages that hold `wanted` which must show the file.
    fn on_file(&self, wanted: &Range<usize>) -> Range<usize> {
        let hull = PageSplit::new(wanted, room::page_bytes()).hull;
        match self.own {
            Some(_) => hull,
            None => {
                let inner = &self.split.inner;
                inner.start.max(hull.start)..inner.end.min(hull.end)
            }
        }
    }
}

#[derive(Default)]
struct Holdings {
    entries: BTreeMap<u64, Holding>,
    made: u64,
    /// Pages that no registration holds, and that need the file still.
    left: Vec<Range<usize>>,
}

impl Holdings {
    /// Takes a registration out, and says which of its pages no other one holds.
    fn remove(&mut self, number: u64) -> Option<(Holding, Vec<Range<usize>>)> {
        let entry = self.entries.remove(&number)?;
        ENDED.fetch_add(1, Ordering::Release);
        let others = self.entries.values().filter(|other| other.own.is_none());
        let alone = without(&entry.split.inner, others.map(|other| &other.split.inner));
        Some((entry, alone))
    }
}

/// Where all registered memory lies; made for the first of it. Who holds the lock moves pages.
static FILE: Mutex<Option<Arc<Fd>>> = Mutex::new(None);

static LIVE: Mutex<Holdings> = Mutex::new(Holdings {
    entries: BTreeMap::new(),
    made: 0,
    left: Vec::new(),
});

/// How often a registration ended.
static ENDED: AtomicU32 = AtomicU32::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave these values half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the buffer reachable for peers, and gives the registration's number. No thread may write
/// into it until this returns.
///
/// # Errors
/// `InvalidArgument` for memory that cannot be moved; `SystemError` where the system or a limit
/// refuses. Then nothing has changed.
pub fn register(start: *const u8, bytes: usize) -> Result<u64> {
    let page = room::page_bytes();
    let bytes = range_of(start as usize, bytes, page)?;
    let split = PageSplit::new(&bytes, page);
    let mut place = lock(&FILE);
    // Adapters would go on with the pages that are there now. Where they keep them from children,
    // that shows in the flags.
    let _changing = Changing::begin(&split.inner);
    let areas = areas::with_flags(&split.hull)?;
    let file = match &*place {
        Some(file) => Arc::clone(file),
        None => Arc::clone(place.insert(Arc::new(new_file()?))),
    };
    let ours = areas::identity(&file)?;
    let mut entry = Holding {
        bytes,
        split,
        file,
        identity: ours,
        own: None,
        sides: None,
    };
    if let Some(found) = own::find(&areas, &entry.bytes, ours)? {
        (entry.file, entry.identity) = (found.file, found.identity);
        entry.own = Some(found.begins);
        return Ok(enter(entry));
    }
    settle_left(&entry)?;
    let split = &entry.split;
    let parts = areas::movable(&areas, (&split.hull, &split.inner), ours)?;
    if let Some(why) = stacks::in_use(&areas, &split.hull, page) {
        let what = format!("the memory of the buffer at {start:p} {why}");
        let remedy = "register memory of malloc or mmap, and copy what lies on a stack there";
        return Err(Error::argument(what, remedy));
    }
    pinned::refuse(&parts, page)?;
    // Whoever forks while pages move looks for the file.
    show(ours, &entry.file, &[]);
    move_all(&entry.file, &parts)?;
    let number = next_number();
    match SidePages::new(&entry.file, split, number, page) {
        Ok(sides) => entry.sides = Some(sides),
        Err(error) => {
            let moved = parts.iter();
            moved.for_each(|part| go_back(&entry.file, ours, part).unwrap_or(()));
            return Err(error);
        }
    }
    lock(&LIVE).entries.insert(number, entry);
    Ok(number)
}

/// Moves all parts, or none.
fn move_all(file: &Fd, parts: &[Range<usize>]) -> Result<()> {
    let ours = areas::identity(file)?;
    for (at, part) in parts.iter().enumerate() {
        if let Err(error) = exchange::onto(file, part) {
            // They had room a moment ago; without any they stay on the file, and usable.
            let moved = parts[..=at].iter();
            moved.for_each(|moved| go_back(file, ours, moved).unwrap_or(()));
            return Err(error);
        }
    }
    Ok(())
}

fn next_number() -> u64 {
    let mut live = lock(&LIVE);
    live.made += 1;
    FIRST_NUMBER + live.made
}

fn enter(entry: Holding) -> u64 {
    let number = next_number();
    lock(&LIVE).entries.insert(number, entry);
    number
}

/// Moves pages that no registration holds back, or makes them private at least.
///
/// # Errors
/// Neither was possible: they need the file still, and that is noted.
fn go_back(file: &Fd, ours: FileIdentity, pages: &Range<usize>) -> Result<()> {
    exchange::back(file, pages).or_else(|_| settle(file, ours, pages))
}

/// Makes pages private into which somebody may be writing.
///
/// # Errors
/// The system refuses: they need the file still, and that is noted.
fn settle(file: &Fd, ours: FileIdentity, pages: &Range<usize>) -> Result<()> {
    // Whoever forks before it is done has copies.
    show(ours, file, std::slice::from_ref(pages));
    let settled = exchange::settle(file, pages);
    if settled.is_err() {
        lock(&LIVE).left.push(pages.clone());
    }
    show(ours, file, &[]);
    settled
}

/// Tries again with what was left.
///
/// # Errors
/// Some of it that the new registration holds needs the file still.
fn settle_left(new: &Holding) -> Result<()> {
    let left = std::mem::take(&mut lock(&LIVE).left);
    let mut outcome = Ok(());
    for pages in left {
        let settled = settle(&new.file, new.identity, &pages);
        if overlap(&pages, &new.split.hull) {
            outcome = outcome.and(settled);
        }
    }
    outcome
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Ends a registration, false if there is none of this number. Pages that no other one holds are
/// moved back. No call may still use them, and no thread write into them meanwhile.
///
/// # Errors
/// `SystemError` where the system or a limit refuses: the memory is as usable as before, but needs
/// the file still. The registration has ended all the same.
pub fn deregister(number: u64) -> Result<bool> {
    end(number, go_back)
}

/// Ends a registration into whose memory somebody may be writing. What the system refuses is noted.
pub fn leave(number: u64) {
    let _ = end(number, settle);
}

fn end(number: u64, how: fn(&Fd, FileIdentity, &Range<usize>) -> Result<()>) -> Result<bool> {
    let place = lock(&FILE);
    let Some((entry, alone)) = lock(&LIVE).remove(number) else {
        return Ok(false);
    };
    let (Some(file), None) = (&*place, entry.own) else {
        return Ok(true);
    };
    let mut outcome = Ok(());
    for part in alone {
        let _changing = Changing::begin(&part);
        outcome = outcome.and(how(file, entry.identity, &part));
    }
    outcome.map(|()| true)
}

/// The parts of a range that none of the others holds, in order.
fn without<'a>(
    whole: &Range<usize>,
    others: impl Iterator<Item = &'a Range<usize>>,
) -> Vec<Range<usize>> {
    let mut rest = vec![whole.clone()];
    for other in others {
        let around = |part: &Range<usize>| {
            let below = part.start..part.end.min(other.start);
            let above = part.start.max(other.end)..part.end;
            [below, above].into_iter().filter(|part| !part.is_empty())
        };
        let disjoint = |part: &Range<usize>| part.end <= other.start || other.end <= part.start;
        rest = rest
            .iter()
            .flat_map(|part| match disjoint(part) {
                true => vec![part.clone()],
                false => around(part).collect(),
            })
            .collect();
    }
    rest.sort_by_key(|part| part.start);
    rest
}

/// The addresses of a buffer.
fn range_of(start: usize, bytes: usize, page: usize) -> Result<Range<usize>> {
    let range = start.checked_add(bytes).map(|end| start..end);
    range
        .filter(|range| bytes <= isize::MAX as usize && range.end < (1 << 60) - page)
        .ok_or_else(|| {
            Error::argument(
                format!("{bytes} bytes from {start:#x} do not fit into the address space"),
                "check the size argument (is it an uninitialised or negative number?)",
            )
        })
}

fn new_file() -> Result<Fd> {
    let made = room::memory_file(c"kolo-registered").and_then(|file| {
        // Peers map it: a file that somebody cuts short would kill them.
        room::seal(&file, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL).map(|()| file)
    });
    made.map_err(|cause| {
        let what = "could not make a file in memory for registered buffers";
        Error::system(what, &cause, room::remedy(&cause))
    })
}

/// Tells the fork handler what it has to look for: pages that were left, and `more`.
fn show(ours: FileIdentity, file: &Fd, more: &[Range<usize>]) {
    let left = [&lock(&LIVE).left, more].concat();
    forked::show(ours, file.as_raw_fd(), left);
}

/// The registration that holds all of `bytes` bytes from `address`, if the file is still there. Of
/// several it is the shortest: that of the buffer itself, if there is one. A longer one may end
/// meanwhile, by another thread, and takes pages off the file of which the buffer has a part only.
pub fn find(address: *const u8, bytes: usize) -> Option<FoundPages> {
    let start = address as usize;
    let wanted = start..start.checked_add(bytes)?;
    let live = lock(&LIVE);
    let holds = |range: &Range<usize>| range.start <= wanted.start && wanted.end <= range.end;
    let all = live.entries.iter();
    let mut holders: Vec<_> = all.filter(|(_, entry)| holds(&entry.bytes)).collect();
    holders.sort_by_key(|(_, entry)| entry.bytes.len());
    let (&number, entry) = holders.into_iter().find(|(_, entry)| {
        let pages = entry.on_file(&wanted);
        let from = entry.offset_of(pages.start);
        pages.is_empty() || shown::is_shown(entry.identity, &pages, from)
    })?;
    let inside = start - entry.bytes.start;
    let (offset, window) = match entry.own {
        Some(begins) => (begins as usize + inside, 0),
        None => (inside, entry.bytes.len()),
    };
    let sides = entry.sides.iter();
    let edges = sides.flat_map(|pages| Edge::within(&entry.split, pages, &wanted));
    Some(FoundPages {
        number,
        offset,
        file: Arc::clone(&entry.file),
        window,
        edges: edges.collect(),
    })
}

/// The pages of a peer's registration, in order, by the addresses that they have there, and where
/// in its file they lie.
pub fn parts(bytes: &Range<usize>, number: u64) -> Vec<(Range<usize>, u64)> {
    let page = room::page_bytes();
    PageSplit::new(bytes, page).parts(number, page)
}

/// Whether the registration of this number is there.
pub fn is_live(number: u64) -> bool {
    lock(&LIVE).entries.contains_key(&number)
}

/// Counts the registrations that have ended in this process.
pub fn ended() -> u32 {
    ENDED.load(Ordering::Acquire)
}
