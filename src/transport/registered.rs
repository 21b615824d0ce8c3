//! Memory of the program that becomes reachable for peers where it lies: `koloCommRegister`.
//!
//! **Problem.** Peers can map a file, and malloc's memory is none. A program that cannot take its
//! buffers from `koloMemAlloc` should not pay for copies all the same.
//!
//! **Idea.** The whole pages that hold the buffer are moved onto a file in memory, at the same
//! addresses and with the same content ([`exchange`]). There is one file in a process for all that
//! is registered, and a byte lies in it at the offset that is its address. So what mappings say of
//! themselves tells whether they are ours; ranges that overlap, or share a page, need no thought;
//! and the file takes memory only where something was moved.
//!
//! - [`areas`]: which memory may be moved, by what the system says of it.
//! - [`stacks`]: which memory running threads write.
//! - [`exchange`]: moving it, and moving it back.
//! - [`window`]: what happens to who writes meanwhile.
//! - [`hooks`]: how libraries that have pinned memory hear of it.
//! - [`forked`]: what children of fork() have instead.
//! - [`own`]: files that the program has mapped itself, which stay as they are.
//! - [`shown`]: whether a buffer is where it was registered.
//!
//! **Terms.** *Registration*: a range that the program gave, by a number that is never given twice.
//! Pages go back when no registration holds them any more. *Left*: pages of a communicator that was
//! aborted, which stay on the file, as somebody may be writing into them.

mod areas;
mod exchange;
mod forked;
mod hooks;
mod own;
mod shown;
mod stacks;
mod window;

#[cfg(test)]
mod fenced;
#[cfg(test)]
mod hazard_tests;
#[cfg(test)]
mod tests;

use super::fork::Fd;
use super::room;
use crate::base::{Error, Result};
use areas::Identity;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where peers read a registered buffer.
#[derive(Clone, Debug)]
pub struct FoundPages {
    /// The registration's number.
    pub number: u64,
    /// Bytes from its first page, or from the start of a file of the program.
    pub offset: usize,
    pub file: Arc<Fd>,
    /// Bytes of the part of the file that holds the registration; 0 for all of it.
    pub window: usize,
}

/// One registration.
#[derive(Clone, Debug)]
struct Holding {
    /// What the program gave.
    bytes: Range<usize>,
    /// The pages that hold it.
    pages: Range<usize>,
    /// The file that holds it.
    file: Arc<Fd>,
    /// How mappings name that.
    identity: Identity,
    /// Where the buffer begins in it, if it is a file of the program.
    own: Option<u64>,
}

impl Holding {
    /// The pages that hold other data too.
    fn edges(&self) -> Vec<usize> {
        let (bytes, pages) = (&self.bytes, &self.pages);
        let first = (bytes.start > pages.start).then_some(pages.start);
        let last = (bytes.end < pages.end).then(|| pages.end - room::page_bytes());
        first.into_iter().chain(last).collect()
    }

    /// Where in its file a page lies.
    fn offset_of(&self, page: usize) -> u64 {
        match self.own {
            Some(begins) => begins
                .wrapping_add(page as u64)
                .wrapping_sub(self.bytes.start as u64),
            None => page as u64,
        }
    }
}

/// Pages on the file that no registration holds.
struct LeftPages {
    pages: Range<usize>,
    /// Those that hold other data beside what was registered.
    edges: Vec<usize>,
}

impl LeftPages {
    fn new(pages: Range<usize>, mut edges: Vec<usize>) -> LeftPages {
        edges.retain(|edge| pages.contains(edge));
        LeftPages { pages, edges }
    }
}

#[derive(Default)]
struct Holdings {
    entries: BTreeMap<u64, Holding>,
    made: u64,
    left: Vec<LeftPages>,
}

impl Holdings {
    /// Takes a registration out, and says which of its pages no other one holds.
    fn remove(&mut self, number: u64) -> Option<(Holding, Vec<Range<usize>>)> {
        let entry = self.entries.remove(&number)?;
        ENDED.fetch_add(1, Ordering::Release);
        let others = self.entries.values().filter(|other| other.own.is_none());
        let alone = without(&entry.pages, others.map(|other| &other.pages));
        // What was left is held by nobody, and goes back with it.
        Some((entry, alone))
    }

    /// Notes pages of a registration that stay on the file.
    fn leave(&mut self, entry: &Holding, parts: &[Range<usize>]) {
        let kept = parts.iter().cloned();
        self.left
            .extend(kept.map(|part| LeftPages::new(part, entry.edges())));
    }
}

/// Numbers of registrations are beyond those of `koloMemAlloc`'s allocations.
const FIRST_NUMBER: u64 = 1 << 48;

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
/// into the pages that hold it until this returns: see [`window`].
///
/// # Errors
/// `InvalidArgument` for memory that cannot be moved; `SystemError` where the system or a limit
/// refuses. Then nothing has changed.
pub fn register(start: *const u8, bytes: usize) -> Result<u64> {
    let page = room::page_bytes();
    let pages = pages_of(start as usize, bytes, page)?;
    let bytes = start as usize..start as usize + bytes;
    let mut place = lock(&FILE);
    let areas = areas::with_flags(&pages)?;
    let file = match &*place {
        Some(file) => Arc::clone(file),
        None => Arc::clone(place.insert(Arc::new(new_file()?))),
    };
    let ours = areas::identity(&file)?;
    if let Some(found) = own::find(&areas, &bytes, ours)? {
        return Ok(enter(Holding {
            bytes,
            pages,
            file: found.file,
            identity: found.identity,
            own: Some(found.begins),
        }));
    }
    sweep(&file, ours);
    let parts = areas::movable(&areas, &pages, ours)?;
    if let Some(why) = stacks::in_use(&areas, &pages, page) {
        let what = format!("the memory of the buffer at {start:p} {why}");
        let remedy = "register memory of malloc or mmap, and copy what lies on a stack there";
        return Err(Error::argument(what, remedy));
    }
    let entry = Holding {
        bytes,
        pages,
        file: Arc::clone(&file),
        identity: ours,
        own: None,
    };
    // Whoever forks while pages move finds all that may be on the file.
    show(ours, &file, entry.edges());
    if let Err(error) = move_all(&file, &parts) {
        // What could not go back stays, and is looked after.
        lock(&LIVE).leave(&entry, &parts);
        sweep(&file, ours);
        show(ours, &file, Vec::new());
        return Err(error);
    }
    Ok(enter(entry))
}

/// Moves all parts, or none.
fn move_all(file: &Fd, parts: &[Range<usize>]) -> Result<()> {
    for (at, part) in parts.iter().enumerate() {
        let Err(error) = exchange::onto(file, part) else {
            continue;
        };
        for moved in &parts[..at] {
            // They had room a moment ago; without any they stay on the file, and usable.
            let _ = exchange::back(file, moved);
        }
        return Err(error);
    }
    Ok(())
}

fn enter(entry: Holding) -> u64 {
    let mut live = lock(&LIVE);
    live.made += 1;
    let number = FIRST_NUMBER + live.made;
    live.entries.insert(number, entry);
    number
}

/// Ends a registration, false if there is none of this number. Pages that no other one holds are
/// moved back. No call may still use them, and no thread write into them meanwhile.
///
/// # Errors
/// `SystemError` where the system or a limit refuses: the memory is as usable as before, but stays
/// on the file. The registration has ended all the same.
pub fn deregister(number: u64) -> Result<bool> {
    let place = lock(&FILE);
    let Some((entry, alone)) = lock(&LIVE).remove(number) else {
        return Ok(false);
    };
    let (Some(file), None) = (&*place, entry.own) else {
        return Ok(true);
    };
    let mut outcome = Ok(());
    for part in &alone {
        outcome = outcome.and(exchange::back(file, part));
    }
    if outcome.is_err() {
        lock(&LIVE).leave(&entry, &alone);
    }
    sweep(file, entry.identity);
    // Not before: until here pages were on the file that a child must have copies of.
    show(entry.identity, file, Vec::new());
    outcome.map(|()| true)
}

/// Ends a registration without touching its memory, which may be in use.
pub fn leave(number: u64) {
    // In one step: whoever tells the fork handler meanwhile finds its pages in one place or the
    // other.
    let mut live = lock(&LIVE);
    if let Some((entry, alone)) = live.remove(number)
        && entry.own.is_none()
    {
        live.leave(&entry, &alone);
    }
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

/// Gives back what the program has unmapped of the pages that were left. One that cannot be asked
/// about stays.
fn sweep(file: &Fd, ours: Identity) {
    let mut live = lock(&LIVE);
    let left = std::mem::take(&mut live.left);
    for LeftPages { pages, edges } in left {
        let held: Vec<_> = live
            .entries
            .values()
            .map(|entry| entry.pages.clone())
            .collect();
        for part in without(&pages, held.iter()) {
            let kept = match exchange::in_place(&part, ours) {
                Ok(shown) => shown.into_iter().map(|(shown, _)| shown).collect(),
                Err(_) => vec![part.clone()],
            };
            for gone in without(&part, kept.iter()) {
                exchange::release(file, &gone);
            }
            let kept = kept.into_iter();
            live.left
                .extend(kept.map(|part| LeftPages::new(part, edges.clone())));
        }
    }
}

/// The pages that hold a buffer.
fn pages_of(start: usize, bytes: usize, page: usize) -> Result<Range<usize>> {
    let end = start
        .checked_add(bytes)
        .and_then(|end| end.checked_next_multiple_of(page));
    let pages = end.map(|end| start / page * page..end);
    pages
        .filter(|pages| pages.len() <= isize::MAX as usize && pages.end < 1 << 62)
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

/// Tells the fork handler what it has to look for: the pages that hold other data beside what is
/// registered, or was left, and `more`.
fn show(ours: Identity, file: &Fd, more: Vec<usize>) {
    let live = lock(&LIVE);
    let entries = live.entries.values().filter(|entry| entry.own.is_none());
    let left = live.left.iter().flat_map(|left| left.edges.iter().copied());
    let edges = entries.flat_map(Holding::edges).chain(left).chain(more);
    forked::show(ours, file.as_raw_fd(), edges.collect());
}

/// The registration that holds all of `bytes` bytes from `address`, if the file is still there.
pub fn find(address: *const u8, bytes: usize) -> Option<FoundPages> {
    let start = address as usize;
    let end = start.checked_add(bytes)?;
    let page = room::page_bytes();
    let pages = start / page * page..end.checked_next_multiple_of(page)?;
    let live = lock(&LIVE);
    let holds = |range: &Range<usize>| range.start <= start && end <= range.end;
    let (&number, entry) = live.entries.iter().find(|(_, entry)| {
        let from = || entry.offset_of(pages.start);
        holds(&entry.bytes) && shown::is_shown(entry.identity, &pages, from())
    })?;
    let (offset, window) = match entry.own {
        Some(begins) => (begins as usize + (start - entry.bytes.start), 0),
        None => (start - entry.pages.start, entry.pages.len()),
    };
    Some(FoundPages {
        number,
        offset,
        file: Arc::clone(&entry.file),
        window,
    })
}

/// Whether the registration of this number is there.
pub fn is_live(number: u64) -> bool {
    lock(&LIVE).entries.contains_key(&number)
}

/// Counts the registrations that have ended in this process.
pub fn ended() -> u32 {
    ENDED.load(Ordering::Acquire)
}
