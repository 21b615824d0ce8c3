//! Memory of the program that peers can map: what `koloMemAlloc` gives, or what was registered
//! ([`super::registered`]).
//!
//! A mapping of an anonymous file can be mapped by another process too, which malloc's memory
//! cannot; so a peer may read a buffer where it lies. Every allocation has a number that is never
//! given twice. The children of fork() do not inherit the memory, so that its pages never become
//! copy-on-write copies that peers no longer see.

use super::fork::Fd;
use super::lasting::{self, Changing};
use super::private::make_private;
use super::registered::{self, Edge};
use super::room;
pub use super::room::page_bytes;
use crate::base::{Code, Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One live allocation.
struct Allocation {
    number: u64,
    bytes: usize,
    file: Arc<Fd>,
    /// Parts that were taken back from peers, by address: no peer can map them any more.
    taken_back: Vec<Range<usize>>,
}

#[derive(Default)]
struct Register {
    /// By address.
    live: BTreeMap<usize, Allocation>,
    made: u64,
}

impl Register {
    /// The allocation that holds these bytes, with its address, unless a part of them was taken
    /// back.
    fn allocation(&self, address: usize, bytes: usize) -> Option<(usize, &Allocation)> {
        let (&start, allocation) = self.live.range(..=address).next_back()?;
        let end = (address - start).checked_add(bytes)?;
        let last = address.checked_add(bytes.max(1))?;
        let mut taken_back = allocation.taken_back.iter();
        let is_shared = !taken_back.any(|part| part.start < last && address < part.end);
        (end <= allocation.bytes && is_shared).then_some((start, allocation))
    }
}

static REGISTER: Mutex<Register> = Mutex::new(Register {
    live: BTreeMap::new(),
    made: 0,
});
/// How often memory was freed.
static FREED: AtomicU32 = AtomicU32::new(0);

fn register() -> MutexGuard<'static, Register> {
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a buffer lies.
#[derive(Clone, Debug)]
pub struct Found {
    /// The allocation's number; 0 is none.
    pub number: u64,
    /// Bytes from its start.
    pub offset: usize,
    /// Its file.
    pub file: Arc<Fd>,
    /// Whether peers may write there: [`take_back`] can end that.
    pub may_be_written: bool,
    /// 0: it is all of the file. Else it is a registration of so many bytes, of which
    /// [`registered::parts`] says where they lie.
    pub window: usize,
    /// Those of the bytes that peers read in copies, which the owner makes.
    pub edges: Vec<Edge>,
}

/// The name of such memory in errors, whatever language asked for it.
const ALLOCATION: &str = "memory that peers can map";

/// Allocates `bytes` bytes (at least 1), zeroed and page-aligned. Any thread.
///
/// # Errors
/// `InvalidArgument` for a size beyond the address space, `SystemError` without memory.
pub fn allocate(bytes: usize) -> Result<*mut u8> {
    let bytes = bytes
        .max(1)
        .checked_next_multiple_of(page_bytes())
        .filter(|&mapped| mapped <= isize::MAX as usize)
        .ok_or_else(|| {
            Error::argument(
                format!("{bytes} bytes do not fit into the address space"),
                "check the size argument (is it an uninitialised or negative number?)",
            )
        })?;
    // What passes a limit would be a signal when the memory is touched, and not an error.
    room::check_file(ALLOCATION, bytes as u64)?;
    room::check_memory(ALLOCATION, bytes)?;
    let (file, address) = make(bytes).map_err(|error| {
        let what = format!(
            "{bytes} bytes of {ALLOCATION} are not to be had: {}",
            error.what
        );
        Error::new(error.code, what, error.remedy.clone())
    })?;
    let mut register = register();
    register.made += 1;
    let allocation = Allocation {
        number: register.made,
        bytes,
        file: Arc::new(file),
        taken_back: Vec::new(),
    };
    register.live.insert(address as usize, allocation);
    Ok(address)
}

/// A file of `bytes` bytes that peers may map, and where it lies.
fn make(bytes: usize) -> Result<(Fd, *mut u8)> {
    let file =
        room::memory_file(c"kolo-memory").map_err(|cause| refused("memfd_create", &cause))?;
    // SAFETY: plain system call on our descriptor.
    if unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) } != 0 {
        return Err(refused("ftruncate", &io::Error::last_os_error()));
    }
    // Peers map it: a file that somebody cuts short would kill them.
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    room::seal(&file, seals).map_err(|cause| refused("F_ADD_SEALS", &cause))?;
    let address = map(&file, 0, bytes)?;
    Ok((file, address))
}

/// Maps `bytes` bytes of `file` from `offset` on.
fn map(file: &Fd, offset: u64, bytes: usize) -> Result<*mut u8> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: an address of the system's choice touches no existing memory.
    unsafe { map_at(0, bytes, rights, Some((file, offset))) }
}

/// Maps a part of a file, or nothing as yet; at an address, or at one of the system's choice.
///
/// # Safety
/// What is at the address is the caller's, who needs it no more.
unsafe fn map_at(
    address: usize,
    bytes: usize,
    rights: libc::c_int,
    file: Option<(&Fd, u64)>,
) -> Result<*mut u8> {
    let (kind, number, offset) = match file {
        Some((file, offset)) => (libc::MAP_SHARED, file.as_raw_fd(), offset),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
    };
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED };
    // SAFETY: our caller's promise.
    let start = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(address),
            bytes,
            rights,
            kind | fixed,
            number,
            offset as libc::off_t,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(refused("mmap", &io::Error::last_os_error()));
    }
    // SAFETY: the range is the mapping made above. A refusal only means that children inherit it.
    unsafe { libc::madvise(start, bytes, libc::MADV_DONTFORK) };
    Ok(start.cast())
}

fn refused(call: &str, cause: &io::Error) -> Error {
    Error::system(call, cause, super::room::remedy(cause))
}

/// Frees what [`allocate`] gave. No call may still use it. Peers that have mapped it let go of it
/// at their next call. Any thread.
///
/// # Errors
/// `InvalidArgument` if `address` is not the start of a live allocation.
pub fn free(address: *mut u8) -> Result<()> {
    let mut register = register();
    let Some(allocation) = register.live.remove(&(address as usize)) else {
        return Err(stranger(&register.live, address as usize));
    };
    drop(register);
    FREED.fetch_add(1, Ordering::Release);
    lasting::changes(&(address.addr()..address.addr() + allocation.bytes));
    // SAFETY: the register held this mapping, and removing the entry made us its only owner.
    match unsafe { libc::munmap(address.cast(), allocation.bytes) } {
        0 => Ok(()),
        _ => Err(refused("munmap", &io::Error::last_os_error())),
    }
}

fn stranger(live: &BTreeMap<usize, Allocation>, address: usize) -> Error {
    let below = live.range(..address).next_back();
    let inside = below.filter(|(start, allocation)| address < **start + allocation.bytes);
    let what = match inside {
        Some((start, _)) => format!(
            "{address:#x} is {} bytes inside an allocation of koloMemAlloc",
            address - start
        ),
        None => format!("{address:#x} is no live allocation of koloMemAlloc (freed twice?)"),
    };
    Error::argument(what, "free exactly what koloMemAlloc gave, once")
}

/// The allocation, or the registration, that holds all of `bytes` bytes from `address`.
pub fn find(address: *const u8, bytes: usize) -> Option<Found> {
    allocated(address, bytes).or_else(|| {
        let reached = registered::find(address, bytes)?;
        Some(Found {
            number: reached.number,
            offset: reached.offset,
            file: reached.file,
            may_be_written: false,
            window: reached.window,
            edges: reached.edges,
        })
    })
}

/// Addresses of the allocation that holds them.
pub fn around(address: *const u8, bytes: usize) -> Option<Range<usize>> {
    let register = register();
    let (start, allocation) = register.allocation(address as usize, bytes)?;
    Some(start..start + allocation.bytes)
}

/// The allocation that holds them.
pub fn allocated(address: *const u8, bytes: usize) -> Option<Found> {
    let address = address as usize;
    let register = register();
    let (start, allocation) = register.allocation(address, bytes)?;
    Some(Found {
        number: allocation.number,
        offset: address - start,
        file: Arc::clone(&allocation.file),
        may_be_written: true,
        window: 0,
        edges: Vec::new(),
    })
}

/// Takes the pages that hold `bytes` bytes from `start` back from peers that may write there now or
/// later: at the same addresses lies private memory afterwards, with the same content, which no
/// peer can reach, and calls with it go through slots.
///
/// # Errors
/// `InvalidArgument` for what is no part of a live allocation, `SystemError` where the system
/// refuses: then peers reach it still.
///
/// # Safety
/// No reference to these pages lives, and no thread of this process writes there.
pub unsafe fn take_back(start: *mut u8, bytes: usize) -> Result<()> {
    let page = page_bytes();
    let ahead = start.addr() % page;
    let (start, bytes) = (
        start.wrapping_sub(ahead),
        (bytes + ahead).next_multiple_of(page),
    );
    let from = start.addr();
    let _changing = Changing::begin(&(from..from + bytes));
    let mut register = register();
    let inside = register.live.range_mut(..=from).next_back();
    let inside = inside.filter(|(first, one)| from + bytes <= **first + one.bytes);
    let Some((_, allocation)) = inside else {
        return Err(Error::argument(
            format!("{bytes} bytes at {from:#x} are no part of an allocation of koloMemAlloc"),
            "do not free buffers of a call before it has returned",
        ));
    };
    let taken_back = &mut allocation.taken_back;
    // SAFETY: whole pages of an allocation, which this process made and which the register keeps
    // from being freed meanwhile; the caller's promise.
    unsafe { make_private(from..from + bytes, |part| taken_back.push(part)) }
        .map_err(|error| refused("mremap", &error))
}

/// Whether the allocation or registration of this number is live.
pub fn is_live(number: u64) -> bool {
    register().live.values().any(|one| one.number == number) || registered::is_live(number)
}

/// Counts what was freed, and what is not registered any more, in this process: while it stays,
/// nothing a peer has mapped is gone.
pub fn freed() -> u32 {
    let ended = registered::ended();
    FREED.load(Ordering::Acquire).wrapping_add(ended)
}

fn check_seal(file: &Fd) -> Result<()> {
    if room::is_sealed(file) {
        return Ok(());
    }
    Err(Error::new(
        Code::SystemError,
        "a peer handed over memory that it could cut short under this process",
        "start the same version of kolo on all ranks; memory of koloMemAlloc is sealed",
    ))
}

/// A peer's allocation or registration, mapped.
#[derive(Debug)]
pub struct Mapping {
    pages: *mut u8,
    page_bytes: usize,
    /// Where in the first page it begins.
    ahead: usize,
    bytes: usize,
}

// SAFETY: the mapping is plain memory; the calls that use it order their accesses by tokens.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the file that a peer handed over.
    ///
    /// # Errors
    /// `SystemError` when the system refuses, or for a file that could be cut short under the
    /// mapping.
    pub fn open(file: &Fd) -> Result<Mapping> {
        check_seal(file)?;
        let bytes = room::size(file)? as usize;
        let pages = map(file, 0, bytes)?;
        Ok(Mapping {
            pages,
            page_bytes: bytes,
            ahead: 0,
            bytes,
        })
    }

    /// Maps what a peer has registered at the addresses `bytes`, to be read: in one piece, as it is
    /// there, though its first and last page lie elsewhere in the file.
    ///
    /// # Errors
    /// As [`Mapping::open`]; a part that is not in the file.
    pub fn of_registration(file: &Fd, bytes: &Range<usize>, number: u64) -> Result<Mapping> {
        check_seal(file)?;
        let parts = registered::parts(bytes, number);
        let length = room::size(file)?;
        let fits = |(pages, from): &(Range<usize>, u64)| {
            let end = from.checked_add(pages.len() as u64);
            end.is_some_and(|end| end <= length && end <= i64::MAX as u64)
        };
        let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) else {
            return Err(not_so_long(bytes));
        };
        if !parts.iter().all(fits) {
            return Err(not_so_long(bytes));
        }
        let (start, page_bytes) = (first.start, last.end - first.start);
        // SAFETY: an address of the system's choice touches no existing memory.
        let pages = unsafe { map_at(0, page_bytes, libc::PROT_NONE, None)? };
        let mapping = Mapping {
            pages,
            page_bytes,
            ahead: bytes.start - start,
            bytes: bytes.len(),
        };
        for (part, from) in parts {
            let place = pages.addr() + (part.start - start);
            let rights = libc::PROT_READ;
            // SAFETY: a part of the mapping made above, in which nothing is yet.
            unsafe { map_at(place, part.len(), rights, Some((file, from)))? };
        }
        Ok(mapping)
    }

    /// The byte at `offset`, if `bytes` bytes from there are inside.
    pub fn at(&self, offset: usize, bytes: usize) -> Option<*const u8> {
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes);
        inside.then(|| self.pages.wrapping_add(self.ahead + offset).cast_const())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if super::fork::in_child_of_user() {
            return;
        }
        // SAFETY: the range is the mapping that `open` made, and nobody uses it any more.
        unsafe { libc::munmap(self.pages.cast(), self.page_bytes) };
    }
}

fn not_so_long(bytes: &Range<usize>) -> Error {
    Error::internal(format!(
        "a peer says that its memory is {} bytes from {:#x} of a file that is not so long",
        bytes.len(),
        bytes.start
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_by_any_part_and_mapped_again() {
        let start = allocate(10_000).unwrap();
        let found = find(start.wrapping_add(100), 9_900).expect("inside");
        assert_eq!(found.offset, 100);
        assert!(is_live(found.number));
        assert!(find(start.wrapping_add(100), 20_000).is_none(), "too long");
        let other = Mapping::open(&found.file).unwrap();
        // SAFETY: both mappings are live and hold the byte.
        unsafe {
            *start.add(107) = 42;
            assert_eq!(*other.at(found.offset + 7, 1).unwrap(), 42);
        }
        assert!(other.at(12_000, 400).is_none() && other.at(usize::MAX, 2).is_none());
        let before = freed();
        free(start).unwrap();
        assert!(freed() > before && !is_live(found.number));
        assert!(find(start, 1).is_none());
        let error = free(start).unwrap_err();
        assert!(error.what.contains("no live allocation"), "{error}");
    }

    #[test]
    fn what_was_taken_back_is_out_of_reach() {
        let page = page_bytes();
        let start = allocate(5 * page).unwrap();
        // SAFETY: the allocation holds so many bytes, and nobody else knows of it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, 5 * page) };
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at % 251) as u8;
        }
        let peer = Mapping::open(&find(start, 1).unwrap().file).unwrap();
        let take_back = |start: *mut u8, bytes: usize| {
            // SAFETY: only this test knows of the memory, and it writes nothing meanwhile.
            unsafe { super::take_back(start, bytes) }
        };
        // Whole pages, whatever part of them is named.
        take_back(start.wrapping_add(page + 8), 2 * page - 100).unwrap();
        let late = peer.at(0, 5 * page).unwrap().cast_mut();
        // SAFETY: the mapping is live and holds so many bytes.
        unsafe { late.write_bytes(0xee, 5 * page) };
        for (at, &byte) in bytes.iter().enumerate() {
            let is_private = (page..3 * page).contains(&at);
            let expected = if is_private { (at % 251) as u8 } else { 0xee };
            assert_eq!(byte, expected, "byte {at}");
        }
        for (offset, length) in [(page, 1), (page - 1, 2), (3 * page - 1, 9), (0, 5 * page)] {
            let part = start.wrapping_add(offset);
            assert!(find(part, length).is_none(), "{offset} {length}");
        }
        assert!(find(start, page).is_some() && find(start.wrapping_add(3 * page), page).is_some());
        assert!(
            take_back(start.wrapping_add(4 * page), 2 * page).is_err(),
            "too long"
        );
        free(start).unwrap();
        assert!(take_back(start, page).is_err(), "freed");
    }

    #[test]
    fn nobody_can_cut_it_short() {
        let start = allocate(8192).unwrap();
        let file = find(start, 1).expect("inside").file;
        for length in [0, 4096, 1 << 20] {
            // SAFETY: a refused change of a file's size.
            let result = unsafe { libc::ftruncate(file.as_raw_fd(), length) };
            assert_eq!(result, -1, "to {length} bytes");
        }
        free(start).unwrap();
    }

    #[test]
    fn what_could_be_cut_short_is_not_mapped() {
        let file = room::memory_file(c"hostile").unwrap();
        room::grow(&file, 8192).unwrap();
        let error = Mapping::open(&file).unwrap_err();
        assert!(error.what.contains("cut short"), "{error}");
        room::seal(&file, libc::F_SEAL_SHRINK).unwrap();
        let mapping = Mapping::open(&file).unwrap();
        assert!(mapping.at(8191, 1).is_some() && mapping.at(8191, 2).is_none());
    }

    #[test]
    fn wrong_sizes_and_addresses() {
        assert!(allocate(usize::MAX).is_err());
        let start = allocate(1).unwrap();
        let error = free(start.wrapping_add(16)).unwrap_err();
        assert!(error.what.contains("16 bytes inside"), "{error}");
        free(start).unwrap();
    }
}
