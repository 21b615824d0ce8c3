//! Ranks that meet through functions of a launcher: how `libkolo_mpi` starts kolo.

use crate::comm::{adopt, null};
use crate::guard::guard;
use crate::types::{KOLO_MPI_TABLE_VERSION, koloComm_t, koloMpiTable, koloResult_t};
use kolo_core::base::{Code, Error, Rank, Result};
use kolo_core::bootstrap::Bootstrap;
use kolo_core::comm::{CommConfig, Communicator};
use std::ffi::{c_int, c_void};

/// Makes a communicator of ranks that already have a launcher's collective functions, which
/// koloCommInitMPI of libkolo_mpi uses. The table is copied. Not deferred by a group: the functions
/// are called by this thread, before the call returns.
/// Errors: koloInvalidArgument (NULL, size, version, rank), koloRemoteError (a function of the
/// table failed), and those of koloCommInitRank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitTable(
    newcomm: *mut koloComm_t,
    table: *const koloMpiTable,
) -> koloResult_t {
    guard("CommInitTable", || {
        if newcomm.is_null() {
            return Err(null("newcomm"));
        }
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *newcomm = std::ptr::null_mut() };
        // SAFETY: the contract of kolo.h.
        let bootstrap = unsafe { TableBootstrap::read(table) }?;
        let made = Communicator::init_bootstrap(Box::new(bootstrap), &CommConfig::default())?;
        // SAFETY: as above.
        unsafe { *newcomm = adopt(made)? };
        Ok(koloResult_t::koloSuccess)
    })
}

type Bcast = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int) -> c_int;
type AllGather = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int;

/// A checked copy of the caller's table.
struct TableBootstrap {
    table: koloMpiTable,
    bcast: Bcast,
    allgather: AllGather,
}

// SAFETY: kolo.h asks that `ctx` may be used from the thread inside koloCommInitTable and that
// `idle` and `free` may be called from any thread; the core calls the collective ones only there.
unsafe impl Send for TableBootstrap {}
// SAFETY: as above.
unsafe impl Sync for TableBootstrap {}

impl TableBootstrap {
    /// # Safety
    /// `table` is NULL or points to `table->size` readable bytes.
    unsafe fn read(table: *const koloMpiTable) -> Result<TableBootstrap> {
        if table.is_null() {
            return Err(null("table"));
        }
        // SAFETY: every version of the table starts with these fields.
        let (size, version) = unsafe { ((*table).size, (*table).version) };
        if version != KOLO_MPI_TABLE_VERSION || size < size_of::<koloMpiTable>() {
            return Err(Error::argument(
                format!(
                    "the table of the launcher has version {version} and {size} bytes, libkolo \
                     expects version {KOLO_MPI_TABLE_VERSION} and {} bytes",
                    size_of::<koloMpiTable>()
                ),
                "install libkolo and libkolo_mpi of the same release",
            ));
        }
        // SAFETY: the size was checked.
        let table = unsafe { *table };
        let (Some(bcast), Some(allgather)) = (table.bcast, table.allgather) else {
            return Err(Error::argument(
                "the table of the launcher lacks bcast or allgather",
                "fill both functions",
            ));
        };
        if table.rank < 0 || table.rank >= table.nranks {
            return Err(Error::argument(
                format!(
                    "the table says rank {} of {} ranks",
                    table.rank, table.nranks
                ),
                "give 0 <= rank < nranks",
            ));
        }
        Ok(TableBootstrap {
            table,
            bcast,
            allgather,
        })
    }

    /// `mine` of every rank, all of the same length, one after the other.
    fn gather_equal(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0u8; mine.len() * self.table.nranks as usize];
        // SAFETY: `all` has room for the bytes of every rank.
        let failed = unsafe {
            (self.allgather)(
                self.table.ctx,
                mine.as_ptr().cast(),
                mine.len(),
                all.as_mut_ptr().cast(),
            )
        };
        self.verdict("allgather", failed).map(|()| all)
    }

    fn bcast(&self, root: Rank, data: &mut [u8]) -> Result<()> {
        // SAFETY: the buffer has the length that is given.
        let failed = unsafe {
            (self.bcast)(
                self.table.ctx,
                data.as_mut_ptr().cast(),
                data.len(),
                root.0 as c_int,
            )
        };
        self.verdict("bcast", failed)
    }

    fn verdict(&self, function: &str, failed: c_int) -> Result<()> {
        if failed == 0 {
            return Ok(());
        }
        Err(Error::new(
            Code::RemoteError,
            format!("the launcher's {function} returned {failed}"),
            "see what the launcher (MPI) says about it: a rank may have ended",
        )
        .at(self.rank()))
    }
}

impl Bootstrap for TableBootstrap {
    fn rank(&self) -> Rank {
        Rank(self.table.rank as u32)
    }

    fn nranks(&self) -> u32 {
        self.table.nranks as u32
    }

    /// The ranks may give different lengths, the table's function wants equal ones: lengths first.
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.gather_equal(&(mine.len() as u64).to_ne_bytes())?;
        let lengths: Vec<usize> = lengths
            .as_chunks::<8>()
            .0
            .iter()
            .map(|bytes| u64::from_ne_bytes(*bytes) as usize)
            .collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![Vec::new(); lengths.len()]);
        }
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let all = self.gather_equal(&padded)?;
        let parts = all.chunks_exact(longest).zip(&lengths);
        Ok(parts
            .map(|(part, &length)| part[..length].to_vec())
            .collect())
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        let mut length = (data.len() as u64).to_ne_bytes();
        self.bcast(root, &mut length)?;
        data.resize(u64::from_ne_bytes(length) as usize, 0);
        if data.is_empty() {
            Ok(())
        } else {
            self.bcast(root, data)
        }
    }

    fn barrier(&self) -> Result<()> {
        self.gather_equal(&[0]).map(drop)
    }
}

impl Drop for TableBootstrap {
    fn drop(&mut self) {
        if let Some(free) = self.table.free {
            // SAFETY: `ctx` is the caller's, and this is the only call of `free`.
            unsafe { free(self.table.ctx) };
        }
    }
}
