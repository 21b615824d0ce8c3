//! A [`Bootstrap`] over a table of C functions: how MPI comes in without being linked here.
//!
//! The functions move equal numbers of bytes per rank, so every operation agrees on lengths
//! first. All of them are collective calls of another library and are made only by the thread
//! that is inside the kolo call: a program below MPI_THREAD_MULTIPLE must call kolo from the
//! thread that may call MPI.

use super::mpi_abi::{MpiTable, TABLE_VERSION};
use super::{Bootstrap, ContributionList, MAX_FRAME, launch};
use crate::base::{Code, Error, Rank, Result, checked};
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
/// Bytes of a table up to and including `free`: the least that is accepted.
const TABLE_LEAST_BYTES: usize = std::mem::offset_of!(MpiTable, problem);
/// Stands for a contribution that is too long, so that all ranks fail together.
const TOO_LONG: u64 = u64::MAX;

/// A [`Bootstrap`] over a [`MpiTable`].
pub struct TableBootstrap {
    rank: Rank,
    nranks: u32,
    owner: Arc<Owner>,
    /// Also keeps the calls of two threads apart.
    broken: Mutex<Option<Error>>,
}

/// Lets the other library make progress while a thread waits inside kolo. Holds the context of
/// the table alive; cheap to clone.
#[derive(Clone)]
pub struct IdleHook(Arc<Owner>);

impl IdleHook {
    /// Calls the table's `idle`. Only a thread that is inside a kolo call of the program may do
    /// this, never a thread of kolo's own. False: this thread may not call it now.
    pub fn call(&self) -> bool {
        let Some(idle) = self.0.table.idle else {
            return false;
        };
        // SAFETY: the context is alive as long as the owner, which this hook holds.
        unsafe { idle(self.0.table.context) == 0 }
    }
}

/// The table with its context, given back when the last user is gone.
struct Owner {
    table: MpiTable,
}

// SAFETY: the context is an opaque pointer that kolo never follows; whoever makes a table promises
// (see `from_raw`) that its functions may be called by the threads that enter kolo.
unsafe impl Send for Owner {}
// SAFETY: as above; calls of the collective functions are kept apart by the lock `broken`.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(free) = self.table.free {
            // SAFETY: the context is alive and nothing uses it after this.
            unsafe { free(self.table.context) };
        }
    }
}

impl TableBootstrap {
    /// Checks and copies a table. On success its context belongs to kolo, which calls `free` when
    /// the bootstrap and all its hooks are dropped; on an error it stays the caller's.
    ///
    /// # Safety
    /// `table` is null or points to as many readable bytes as its first member says; functions in
    /// it have the declared types, work with its context until `free`, and may be called by every
    /// thread that uses this bootstrap, one at a time (`idle` also beside another call); its name
    /// is null or a string until `free`.
    pub unsafe fn from_raw(table: *const MpiTable) -> Result<TableBootstrap> {
        if table.is_null() {
            return Err(bad_table("is a null pointer"));
        }
        // SAFETY: the caller says that the first member can be read; alignment is not assumed.
        let size = unsafe { table.cast::<usize>().read_unaligned() };
        if size < TABLE_LEAST_BYTES {
            return Err(bad_table(&format!(
                "has {size} bytes, at least {TABLE_LEAST_BYTES} are needed"
            )));
        }
        let mut copy = MpiTable {
            size,
            version: 0,
            context: std::ptr::null_mut(),
            rank: 0,
            nranks: 0,
            bcast: None,
            allgather: None,
            idle: None,
            free: None,
            problem: std::ptr::null(),
            problem_code: 0,
            net: std::ptr::null(),
            world: 0,
            no_rank: 0,
            name: std::ptr::null(),
        };
        let bytes = size.min(size_of::<MpiTable>());
        // SAFETY: both are at least `bytes` long and do not overlap; every prefix that ends at a
        // member's end leaves a valid structure, and a cut member is reset below.
        unsafe {
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast::<u8>(), bytes);
        }
        if size < std::mem::offset_of!(MpiTable, net) {
            copy.problem = std::ptr::null();
        }
        if size < std::mem::offset_of!(MpiTable, world) {
            copy.net = std::ptr::null();
        }
        if size < std::mem::offset_of!(MpiTable, no_rank) {
            copy.world = 0;
        }
        if size < std::mem::offset_of!(MpiTable, name) {
            copy.no_rank = 0;
        }
        if size < size_of::<MpiTable>() {
            copy.name = std::ptr::null();
        }
        // SAFETY: the caller says that `problem` is null or a string.
        unsafe { check(&copy) }?;
        if copy.world != 0 {
            let world = u32::try_from(copy.world).unwrap_or(u32::MAX);
            launch::mistake::check_world(world)?;
        }
        Ok(TableBootstrap {
            rank: Rank(copy.rank as u32),
            nranks: copy.nranks as u32,
            owner: Arc::new(Owner { table: copy }),
            broken: Mutex::new(None),
        })
    }

    /// A handle to the table's `idle`, independent of the life of this bootstrap.
    pub fn idle_hook(&self) -> IdleHook {
        IdleHook(Arc::clone(&self.owner))
    }

    /// The table's point-to-point functions, as null or the address of an `MpiNetTable` of
    /// `transport::net::mpi::abi`, and the context that its `open` takes. `open` is collective and
    /// may be called as long as this bootstrap lives; what it makes needs the bootstrap no more.
    pub fn net_functions(&self) -> (*const c_void, *mut c_void) {
        (self.owner.table.net, self.owner.table.context)
    }

    /// The number, negative, that means "no rank" to the other library.
    pub fn no_rank(&self) -> Option<i32> {
        Some(self.owner.table.no_rank).filter(|number| *number < 0)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Error>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one operation; a failure is kept, because the ranks may be out of step after it.
    fn operate<T>(&self, name: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut broken = self.lock();
        if let Some(error) = &*broken {
            return Err(error.clone());
        }
        run().map_err(|error| {
            let error = error.at(self.rank).during(format!("bootstrap {name}"));
            *broken = Some(error.clone());
            error
        })
    }

    /// `mine` of every rank, all equally long.
    fn gather_equal(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; checked::bytes(self.nranks as usize, mine.len())?];
        let table = &self.owner.table;
        let Some(allgather) = table.allgather else {
            return Err(bad_table("has no allgather"));
        };
        // SAFETY: `mine` is readable for its length and `all` writable for nranks times that.
        let code = unsafe {
            allgather(
                table.context,
                mine.as_ptr().cast::<c_void>(),
                mine.len(),
                all.as_mut_ptr().cast::<c_void>(),
            )
        };
        outcome("allgather", code).map(|()| all)
    }

    fn bcast(&self, root: Rank, data: &mut [u8]) -> Result<()> {
        let table = &self.owner.table;
        let Some(bcast) = table.bcast else {
            return Err(bad_table("has no bcast"));
        };
        let buffer = data.as_mut_ptr().cast::<c_void>();
        // SAFETY: `data` is readable and writable for its length.
        let code = unsafe { bcast(table.context, buffer, data.len(), root.0 as c_int) };
        outcome("bcast", code)
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let length = agreed_length(mine.len());
        let lengths = self.gather_equal(&length.to_ne_bytes())?;
        let mut each = Vec::with_capacity(self.nranks as usize);
        for (rank, bytes) in (0..).map(Rank).zip(lengths.chunks_exact(8)) {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            each.push(checked_length(rank, u64::from_ne_bytes(number))?);
        }
        let longest = each.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![Vec::new(); each.len()]);
        }
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let all = self.gather_equal(&padded)?;
        let parts = all.chunks_exact(longest).zip(&each);
        Ok(parts
            .map(|(part, &length)| part[..length].to_vec())
            .collect())
    }
}

impl Bootstrap for TableBootstrap {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn nranks(&self) -> u32 {
        self.nranks
    }

    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList> {
        self.operate("all_gather", || {
            self.gather(mine).map(ContributionList::from)
        })
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        self.operate("broadcast", || {
            if root.0 >= self.nranks {
                return Err(Error::argument(
                    format!("root {root} of a broadcast among {} ranks", self.nranks),
                    "roots count from 0 to nranks - 1",
                ));
            }
            let mut length = agreed_length(data.len()).to_ne_bytes();
            self.bcast(root, &mut length)?;
            let length = checked_length(root, u64::from_ne_bytes(length))?;
            data.resize(length, 0);
            match length {
                0 => Ok(()),
                _ => self.bcast(root, data),
            }
        })
    }

    fn name(&self) -> Option<String> {
        let name = self.owner.table.name;
        if name.is_null() {
            return None;
        }
        // SAFETY: whoever made the table says that it is a string until the context is given back.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Some(name.into_owned()).filter(|name| !name.is_empty())
    }

    fn point_to_point(&self) -> (*const c_void, *mut c_void) {
        self.net_functions()
    }

    fn barrier(&self) -> Result<()> {
        self.operate("barrier", || self.gather_equal(&[0]).map(|_| ()))
    }
}

fn agreed_length(bytes: usize) -> u64 {
    match bytes {
        0..=MAX_FRAME => bytes as u64,
        _ => TOO_LONG,
    }
}

fn checked_length(rank: Rank, length: u64) -> Result<usize> {
    usize::try_from(length)
        .ok()
        .filter(|&length| length <= MAX_FRAME)
        .ok_or_else(|| {
            Error::argument(
                format!(
                    "rank {rank} gives too many bytes for the bootstrap (at most {MAX_FRAME}), or \
                     its ranks call different operations"
                ),
                "send large data with a collective",
            )
            .with_peer(rank)
        })
}

/// # Safety
/// `problem` is null or points to a string that ends with a zero byte.
unsafe fn check(table: &MpiTable) -> Result<()> {
    if !table.problem.is_null() {
        // SAFETY: the caller says that it is a string.
        let words = unsafe { CStr::from_ptr(table.problem) }.to_string_lossy();
        let code = Code::from_number(table.problem_code).filter(|&code| code != Code::Success);
        let (what, remedy) = words.split_once(". Remedy: ").unwrap_or((&words, ""));
        let remedy = match remedy {
            "" => "check how MPI is used before this call".to_string(),
            remedy => remedy.to_string(),
        };
        let error = Error::new(code.unwrap_or(Code::InvalidUsage), what, remedy);
        return Err(error.during("CommInitMPI"));
    }
    if table.version != TABLE_VERSION {
        return Err(bad_table(&format!(
            "has version {}, this library reads version {TABLE_VERSION}",
            table.version
        )));
    }
    let functions = [
        ("bcast", table.bcast.is_none()),
        ("allgather", table.allgather.is_none()),
        ("idle", table.idle.is_none()),
        ("free", table.free.is_none()),
    ];
    if let Some((name, _)) = functions.iter().find(|(_, missing)| *missing) {
        return Err(bad_table(&format!("has a null pointer for {name}")));
    }
    if table.nranks < 1 || !(0..table.nranks).contains(&table.rank) {
        return Err(bad_table(&format!(
            "says rank {} of {}",
            table.rank, table.nranks
        )));
    }
    Ok(())
}

fn bad_table(what: &str) -> Error {
    Error::argument(
        format!("the table of functions {what}"),
        "libkolo_mpi and libkolo must come from the same installation",
    )
}

fn outcome(name: &str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::new(
            Code::SystemError,
            format!("{name} of the program's communicator failed with code {code}"),
            "look for a message of MPI in the output of this and the other ranks",
        )),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
