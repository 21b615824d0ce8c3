//! Communicators: birth, queries, end.

use crate::config;
use crate::guard::{Sentence, guard, guard_comm, panicked};
use crate::handle::Registry;
use crate::loud;
use crate::types::*;
use kolo_core::base::{Code, Error, Result, caught};
use kolo_core::bootstrap::{NetSettings, UniqueId};
use kolo_core::comm::{CommConfig, Communicator, NO_RANK, RedOp, group};
use kolo_core::config::Settings;
use kolo_core::dtype::DataType;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// All live communicators of this process.
pub(crate) static COMMS: Registry<Member> = Registry::new(0x6bc3_91e4_d75a_2f18, "communicator");

/// What stands behind a `koloComm_t`. Every call counts how many use it, and communicators of other
/// threads stand beside it: each has cache lines of its own.
#[repr(align(128))]
pub(crate) struct Member {
    pub(crate) communicator: Communicator,
    /// The sentence of the last call that failed on it, of any thread.
    last: Mutex<Option<Sentence>>,
    /// Operations whose scalar is read at every call: (number, address of the scalar, type).
    pub(crate) by_pointer: Mutex<Vec<(i32, usize, DataType)>>,
    /// What means "no rank" beside KOLO_NO_RANK: MPI_PROC_NULL, where MPI has made it.
    no_rank: c_int,
}

impl Member {
    /// Keeps a sentence for `koloGetLastError`.
    pub(crate) fn keep(&self, sentence: Sentence) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(sentence);
    }

    /// The sentence that was kept last.
    pub(crate) fn last(&self) -> Option<Sentence> {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A peer or neighbour as the program names it, for the core.
    pub(crate) fn peer(&self, number: c_int) -> u32 {
        match number == self.no_rank {
            true => NO_RANK,
            // KOLO_NO_RANK becomes NO_RANK; another negative number too large, and the core shows
            // it as it was.
            false => number as u32,
        }
    }

    /// Is `op` an operation whose scalar is read at every call?
    pub(crate) fn scalar_of(&self, op: RedOp) -> Option<(usize, DataType)> {
        let known = self
            .by_pointer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .find(|entry| entry.0 == op.0)
            .map(|entry| (entry.1, entry.2))
    }
}

/// Gives a communicator a handle.
pub(crate) fn adopt(communicator: Communicator, no_rank: c_int) -> Result<koloComm_t> {
    let member = Member {
        no_rank,
        communicator,
        last: Mutex::new(None),
        by_pointer: Mutex::new(Vec::new()),
    };
    Ok(COMMS.insert(member)? as koloComm_t)
}

/// The error for a null result pointer.
pub(crate) fn null(argument: &str) -> Error {
    Error::argument(
        format!("the argument {argument} is NULL"),
        format!("give the address of a variable for {argument}"),
    )
}

/// Where a deferred initialisation writes its handle.
struct Slot(*mut koloComm_t);
// SAFETY: kolo.h asks that the variable stays valid and untouched until the group has ended, and
// the group's threads have ended by then.
unsafe impl Send for Slot {}

impl Slot {
    fn fill(self, communicator: Option<Communicator>, no_rank: c_int) -> Result<()> {
        if let Some(communicator) = communicator {
            let handle = adopt(communicator, no_rank)?;
            // SAFETY: not null (checked by `clear`), valid and ours by the rule above.
            unsafe { *self.0 = handle };
        }
        Ok(())
    }
}

/// Checks a result pointer, and writes NULL there, which stays if the call fails.
///
/// # Safety
/// `newcomm` is NULL or valid for writes.
pub(crate) unsafe fn clear(newcomm: *mut koloComm_t) -> Result<()> {
    if newcomm.is_null() {
        return Err(null("newcomm"));
    }
    // SAFETY: not null, valid by the caller's promise.
    unsafe { *newcomm = std::ptr::null_mut() };
    Ok(())
}

/// Runs `make` now, or at the end of the open group, and writes the handle to `*newcomm`; in a
/// group those that use the same `parent` run one after the other. "No rank" is to the new one what
/// it is to its parent.
///
/// # Safety
/// `newcomm` went through `clear`, and is valid for writes until `make` has run.
unsafe fn birth(
    newcomm: *mut koloComm_t,
    parent: Option<(koloComm_t, c_int)>,
    make: impl FnOnce() -> Result<Option<Communicator>> + Send + 'static,
) -> Result<koloResult_t> {
    let slot = Slot(newcomm);
    let no_rank = parent.map_or(KOLO_NO_RANK, |(_, no_rank)| no_rank);
    if group::active() {
        let init = move || {
            catch_unwind(AssertUnwindSafe(|| slot.fill(make()?, no_rank)))
                .unwrap_or_else(|panic| Err(panicked(panic)))
        };
        group::defer_init(parent.map(|(parent, _)| parent as usize), Box::new(init));
    } else {
        slot.fill(make()?, no_rank)?;
    }
    Ok(koloResult_t::koloSuccess)
}

/// Writes the version of the library to `*version`: major * 10000 + minor * 100 + patch.
/// Errors: koloInvalidArgument (NULL). Any thread, any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGetVersion(version: *mut c_int) -> koloResult_t {
    guard("GetVersion", || {
        if version.is_null() {
            return Err(null("version"));
        }
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *version = KOLO_MAJOR * 10_000 + KOLO_MINOR * 100 + KOLO_PATCH };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Makes a new id for one communicator and starts the thread at which its ranks check in; call it
/// on one rank and give the bytes to all. The calling process must live until all ranks have
/// returned from koloCommInitRank.
/// Errors: koloInvalidArgument (NULL, bad setting), koloSystemError (no usable network interface).
/// Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGetUniqueId(uniqueId: *mut koloUniqueId) -> koloResult_t {
    guard("GetUniqueId", || {
        if uniqueId.is_null() {
            return Err(null("uniqueId"));
        }
        let id = UniqueId::create(&NetSettings::from(&Settings::load(&[])?))?;
        let internal = id.as_bytes().map(|byte| byte as c_char);
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *uniqueId = koloUniqueId { internal } };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Makes rank `rank` of a communicator of `nranks` ranks; returns when all ranks have called.
/// Inside a group it returns at once, `*newcomm` is NULL until the outermost koloGroupEnd has
/// filled it, and must stay valid till then: so one thread makes several ranks.
/// Errors: koloInvalidArgument (NULL, rank not in 0..nranks, an id that kolo did not make),
/// koloInvalidUsage (a rank checked in twice, different settings), koloRemoteError, koloTimeout,
/// koloSystemError. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitRank(
    newcomm: *mut koloComm_t,
    nranks: c_int,
    commId: koloUniqueId,
    rank: c_int,
) -> koloResult_t {
    // SAFETY: as promised by our caller.
    unsafe {
        init_rank("CommInitRank", newcomm, nranks, commId, rank, || {
            Ok(CommConfig::default())
        })
    }
}

/// koloCommInitRank with properties; `config` may be NULL and is read before the call returns.
/// Further errors: koloInvalidArgument (koloConfig_t not from KOLO_CONFIG_INITIALIZER, a field out
/// of range, an unknown setting).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitRankConfig(
    newcomm: *mut koloComm_t,
    nranks: c_int,
    commId: koloUniqueId,
    rank: c_int,
    config: *const koloConfig_t,
) -> koloResult_t {
    // SAFETY: as promised by our caller.
    unsafe {
        init_rank("CommInitRankConfig", newcomm, nranks, commId, rank, || {
            config::read(config)
        })
    }
}

/// # Safety
/// `newcomm` is NULL or valid for writes, inside a group until its end.
unsafe fn init_rank(
    call: &'static str,
    newcomm: *mut koloComm_t,
    nranks: c_int,
    id: koloUniqueId,
    rank: c_int,
    config: impl FnOnce() -> Result<CommConfig>,
) -> koloResult_t {
    guard(call, || {
        // SAFETY: our caller's promise.
        unsafe { clear(newcomm) }?;
        let (Ok(count), Ok(own)) = (u32::try_from(nranks), u32::try_from(rank)) else {
            return Err(outside(nranks, rank));
        };
        if own >= count {
            return Err(outside(nranks, rank));
        }
        let config = config().unwrap_or_else(CommConfig::refused);
        let id = UniqueId::from_bytes(id.internal.map(|byte| byte as u8))?;
        // SAFETY: our caller's promise.
        unsafe {
            birth(newcomm, None, move || {
                Communicator::init_rank(count, &id, own, &config).map(Some)
            })
        }
    })
}

fn outside(nranks: c_int, rank: c_int) -> Error {
    Error::argument(
        format!("rank {rank} of {nranks} ranks does not exist"),
        "give nranks >= 1 and 0 <= rank < nranks",
    )
}

/// Makes all `ndev` ranks of a communicator in this process and writes them to comms[0..ndev], in
/// rank order. `devlist` is NULL (host memory) or has one device for each rank; on this build every
/// entry must be KOLO_DEVICE_HOST. Each rank is then used by one thread at a time, or all of them
/// by one thread inside groups. Not deferred by a group.
/// Errors: koloInvalidArgument (NULL, ndev < 1, unknown device), koloSystemError. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitAll(
    comms: *mut koloComm_t,
    ndev: c_int,
    devlist: *const c_int,
) -> koloResult_t {
    guard("CommInitAll", || {
        if comms.is_null() {
            return Err(null("comms"));
        }
        let count = match u32::try_from(ndev) {
            Ok(count @ 1..) => count,
            _ => {
                return Err(Error::argument(
                    format!("ndev is {ndev}"),
                    "give the number of ranks to make, at least 1",
                ));
            }
        };
        for index in 0..if devlist.is_null() { 0 } else { count as usize } {
            // SAFETY: kolo.h asks for `ndev` entries.
            let device = unsafe { *devlist.add(index) };
            if device != KOLO_DEVICE_HOST {
                return Err(Error::argument(
                    format!("devlist[{index}] is {device}, and this build knows host memory only"),
                    "give NULL for devlist, or KOLO_DEVICE_HOST for every rank",
                ));
            }
        }
        let made = Communicator::init_all(count, &CommConfig::default())?;
        for (index, communicator) in made.into_iter().enumerate() {
            let handle = adopt(communicator, KOLO_NO_RANK)?;
            // SAFETY: kolo.h asks for room for `ndev` handles.
            unsafe { *comms.add(index) = handle };
        }
        Ok(koloResult_t::koloSuccess)
    })
}

/// Makes new communicators of the ranks of `comm`: those that give the same `color` (>= 0) belong
/// together, ordered by `key` and then by their old rank. KOLO_SPLIT_NOCOLOR: this rank takes part
/// but gets NULL. All ranks of `comm` call it; inside a group it is deferred, as koloCommInitRank
/// is. `config` may be NULL. `comm` stays usable.
/// Errors: as koloCommInitRankConfig, and koloInvalidArgument for a negative color.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommSplit(
    comm: koloComm_t,
    color: c_int,
    key: c_int,
    newcomm: *mut koloComm_t,
    config: *const koloConfig_t,
) -> koloResult_t {
    guard_comm("CommSplit", comm, |member| {
        // Wrong arguments of one rank are an error of all: none may wait for a part of the others.
        // SAFETY: the contract of kolo.h.
        let mut config = unsafe { config::read(config) }.unwrap_or_else(CommConfig::refused);
        // SAFETY: the contract of kolo.h.
        if let Err(error) = unsafe { clear(newcomm) } {
            config = CommConfig::refused(error);
        }
        let color = match color {
            KOLO_SPLIT_NOCOLOR => None,
            0.. => Some(color as u32),
            _ => {
                config = CommConfig::refused(Error::argument(
                    format!("color is {color}"),
                    "give a color >= 0, or KOLO_SPLIT_NOCOLOR",
                ));
                None
            }
        };
        let parent = member.communicator.clone();
        // SAFETY: the contract of kolo.h; where `newcomm` is NULL nothing is made or written.
        unsafe {
            birth(newcomm, Some((comm, member.no_rank)), move || {
                parent.split(color, key, &config)
            })
        }
    })
}

/// Waits until everything that was started on `comm` has ended; afterwards only koloCommDestroy,
/// koloCommAbort and the queries are allowed. Optional: koloCommDestroy does it too.
/// Errors: koloInvalidArgument (handle), koloInvalidUsage (another thread is in a call on it, or
/// calls on it wait in a group of this thread that is still open: nothing was done),
/// koloRemoteError.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommFinalize(comm: koloComm_t) -> koloResult_t {
    guard_comm("CommFinalize", comm, |member| {
        group::none_waits(&member.communicator)?;
        member.communicator.finalize()?;
        Ok(koloResult_t::koloSuccess)
    })
}

/// Ends `comm` and frees what it holds. The handle is invalid afterwards, also when another error
/// than koloInvalidUsage is returned; after koloInvalidUsage nothing was done.
/// Errors: koloInvalidArgument (handle), koloInvalidUsage (another thread is in a call on it, or
/// calls on it wait in a group of this thread that is still open: koloGroupEnd runs them),
/// koloRemoteError (a rank died or aborted, or ranks called different things and no call had said
/// so), those of calls in flight (koloTimeout, koloSystemError). It may wait up to 1 s for ranks of
/// the node that are behind. In a forked child it returns at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommDestroy(comm: koloComm_t) -> koloResult_t {
    let mut owner = 0;
    let code = guard_comm("CommDestroy", comm, |member| {
        owner = loud::owner(member);
        let ended =
            group::none_waits(&member.communicator).and_then(|()| member.communicator.destroy());
        if !matches!(&ended, Err(error) if error.code == Code::InvalidUsage) {
            COMMS.remove(comm as usize)?;
        }
        ended.map(|()| koloResult_t::koloSuccess)
    });
    told(comm, owner);
    code
}

/// Tells how many calls on a communicator have failed, once it has ended.
fn told(comm: koloComm_t, owner: usize) {
    let _ = caught(|| {
        if COMMS.find(comm as usize).is_none() {
            loud::farewell(owner);
        }
    });
}

/// Ends `comm` without waiting for anybody: calls in progress, here and on the other ranks, return
/// koloRemoteError. The handle is invalid afterwards. The one call that another thread may make
/// while a thread is inside a call on `comm`.
/// Errors: koloInvalidArgument (handle).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommAbort(comm: koloComm_t) -> koloResult_t {
    let mut owner = 0;
    let code = guard_comm("CommAbort", comm, |member| {
        owner = loud::owner(member);
        let ended = member.communicator.abort();
        COMMS.remove(comm as usize)?;
        ended.map(|()| koloResult_t::koloSuccess)
    });
    told(comm, owner);
    code
}

/// Writes the number of ranks to `*count`. Errors: koloInvalidArgument. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommCount(comm: koloComm_t, count: *mut c_int) -> koloResult_t {
    guard_comm("CommCount", comm, |member| {
        if count.is_null() {
            return Err(null("count"));
        }
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *count = member.communicator.nranks() as c_int };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Writes this rank to `*rank`. Errors: koloInvalidArgument. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommUserRank(comm: koloComm_t, rank: *mut c_int) -> koloResult_t {
    guard_comm("CommUserRank", comm, |member| {
        if rank.is_null() {
            return Err(null("rank"));
        }
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *rank = member.communicator.rank() as c_int };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Writes koloSuccess to `*asyncError`, or the code of the error that has stopped `comm` (its
/// sentence: koloGetLastError(comm)). Does not wait.
/// Errors of the call itself: koloInvalidArgument. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommGetAsyncError(
    comm: koloComm_t,
    asyncError: *mut koloResult_t,
) -> koloResult_t {
    guard_comm("CommGetAsyncError", comm, |member| {
        if asyncError.is_null() {
            return Err(null("asyncError"));
        }
        let code = match member.communicator.async_error() {
            Ok(()) => koloResult_t::koloSuccess,
            Err(error) => {
                member.keep(crate::guard::sentence(&error));
                error.code.into()
            }
        };
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *asyncError = code };
        Ok(koloResult_t::koloSuccess)
    })
}
