//! Communicators: birth, queries, end.

use crate::adopted::{Begun, adopt};
use crate::comms::COMMS;
use crate::config;
use crate::guard::{failed, guard, guard_comm, guard_seat, panicked};
use crate::loud;
use crate::types::*;
use kolo_core::base::{Code, Error, Result, caught};
use kolo_core::bootstrap::UniqueId;
use kolo_core::comm::RawCalls;
use kolo_core::comm::{CommConfig, CommDevice, Communicator, Starting, group};
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
            self.write(adopt(communicator, no_rank)?);
        }
        Ok(())
    }

    fn write(self, handle: koloComm_t) {
        // SAFETY: not null (checked by `clear`), valid and ours by the rule above.
        unsafe { *self.0 = handle };
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

/// Begins to make one now, or at the end of the open group, and writes its handle to `*newcomm`.
///
/// # Safety
/// As for `birth`.
unsafe fn begin(
    newcomm: *mut koloComm_t,
    make: impl FnOnce() -> Result<Starting> + 'static,
) -> Result<koloResult_t> {
    let slot = Slot(newcomm);
    if !group::active() {
        slot.write(Begun::new(make()?)?.hand_over());
        return Ok(koloResult_t::koloInProgress);
    }
    group::defer_begin(Box::new(move || {
        let begun = Begun::new(make()?)?;
        Ok(Box::new(move || {
            slot.write(begun.hand_over());
            crate::group::begun();
        }))
    }));
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
        let id = Communicator::unique_id()?;
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
            Ok(config::Wanted::default())
        })
    }
}

/// koloCommInitRank with properties; `config` may be NULL and is read before the call returns.
/// With blocking = 0 in it, the call returns koloInProgress at once, with a handle whose
/// communicator a thread of kolo's makes meanwhile: koloCommGetAsyncError writes koloInProgress
/// until it is ready, then koloSuccess, or why it failed. Till then koloCommGetAsyncError,
/// koloGetLastError, koloCommCount and koloCommUserRank answer, koloCommAbort and koloCommDestroy
/// end the start (and with it that of
/// the other ranks), and any other call is koloInvalidUsage. So one thread can begin many
/// communicators, several ranks of one too. Inside a group, koloGroupEnd begins them and returns
/// koloInProgress. The other ways to make a communicator (MPI, a launcher, koloCommSplit) block.
/// Further errors: koloInvalidArgument (koloConfig_t not from KOLO_CONFIG_INITIALIZER, a field out
/// of range, an unknown setting); with blocking = 0 koloSystemError at once (no thread or
/// descriptor for the start). Where that is so, or blocking is neither 0 nor 1, this rank has not
/// begun, and the others wait as for a rank that never comes.
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
    config: impl FnOnce() -> Result<config::Wanted>,
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
        let config::Wanted {
            config,
            is_blocking,
        } = config().unwrap_or_else(config::Wanted::refused);
        // To join would be to wait, which may be what the program does not want.
        let is_blocking = is_blocking?;
        let id = UniqueId::from_bytes(id.internal.map(|byte| byte as u8))?;
        // SAFETY: our caller's promise.
        unsafe {
            match is_blocking {
                true => birth(newcomm, None, move || {
                    Communicator::init_rank(count, &id, own, &config).map(Some)
                }),
                false => begin(newcomm, move || {
                    Communicator::begin(count, &id, own, &config)
                }),
            }
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
/// rank order. `devlist` is NULL (host memory) or has one device for each rank: the number of a
/// CUDA device, or KOLO_DEVICE_HOST for every rank. Each rank is then used by one thread at a time,
/// or all of them by one thread inside groups. Not deferred by a group. Errors: koloInvalidArgument
/// (NULL, ndev < 1, unknown device), koloSystemError. Any thread.
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
        let listed = |index: usize| match devlist.is_null() {
            true => Ok(CommDevice::Host),
            // SAFETY: kolo.h asks for `ndev` entries.
            false => config::device(&format!("devlist[{index}]"), "", unsafe {
                *devlist.add(index)
            }),
        };
        let devices: Vec<CommDevice> = (0..count as usize).map(listed).collect::<Result<_>>()?;
        let made = Communicator::init_all_on(&devices, &CommConfig::default())?;
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
/// is. `config` may be NULL. `comm` stays usable. It blocks, also where `comm` was begun without.
/// Errors: as koloCommInitRankConfig, and koloInvalidArgument for a negative color, or blocking =
/// 0.
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
        let wanted = unsafe { config::read(config) }.unwrap_or_else(config::Wanted::refused);
        let mut config = match wanted.is_blocking {
            Ok(true) => wanted.config,
            Ok(false) => CommConfig::refused(split_blocks()),
            Err(error) => CommConfig::refused(error),
        };
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

fn split_blocks() -> Error {
    Error::argument(
        "blocking = 0 in koloConfig_t, where koloCommSplit blocks: its ranks meet by calls of the \
         communicator that they split",
        "give koloCommSplit a koloConfig_t with blocking = 1, inside a group if one thread has \
         several of the ranks",
    )
}

/// Waits until everything that was started on `comm` has ended; afterwards only koloCommDestroy,
/// koloCommAbort and the queries are allowed. Optional: koloCommDestroy does it too.
/// Errors: koloInvalidArgument (handle), koloInvalidUsage (another thread is in a call on it, or
/// calls on it wait in a group of this thread that is still open: nothing was done),
/// koloRemoteError.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommFinalize(comm: koloComm_t) -> koloResult_t {
    guard_comm("CommFinalize", comm, |member| {
        member.communicator.none_waits()?;
        member.communicator.finalize()?;
        Ok(koloResult_t::koloSuccess)
    })
}

/// Ends `comm` and frees what it holds; one that is still being made is given up at once, as by
/// koloCommAbort. The handle is invalid afterwards, also when another error
/// than koloInvalidUsage is returned; after koloInvalidUsage nothing was done.
/// Errors: koloInvalidArgument (handle), koloInvalidUsage (another thread is in a call on it, or
/// calls on it wait in a group of this thread that is still open: koloGroupEnd runs them),
/// koloRemoteError (a rank died or aborted, or ranks called different things and no call had said
/// so, or it could not be made and no call has said so), those of calls in flight (koloTimeout,
/// koloSystemError). With a device it may wait up to 1 s for ranks of
/// the node that are behind. Another thread whose last transfer was on it may keep its memory until
/// its next transfer, or its end. In a forked child it returns at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommDestroy(comm: koloComm_t) -> koloResult_t {
    let mut owner = 0;
    let code = guard_seat("CommDestroy", comm, |seat| {
        owner = loud::owner(seat);
        let ended = match seat.settle() {
            Ok(Some(member)) => member
                .communicator
                .none_waits()
                .and_then(|()| member.communicator.destroy()),
            Ok(None) => seat.abort("called CommDestroy"),
            Err(_) if seat.is_inherited_start() || !seat.tells_first() => Ok(()),
            // That code says that nothing was done.
            Err(error) if error.code == Code::InvalidUsage => {
                Err(error.with_code(Code::RemoteError))
            }
            Err(error) => Err(error),
        };
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
/// koloRemoteError. One that is still being made is given up in any phase, and waited for until
/// nothing of it is left, at most 5 s: a thread inside a call of the system or of a network plugin
/// ends when that call does. The handle is invalid afterwards. The one call
/// that another thread may make while a thread is inside a call on `comm`.
/// Errors: koloInvalidArgument (handle).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommAbort(comm: koloComm_t) -> koloResult_t {
    let mut owner = 0;
    let code = guard_seat("CommAbort", comm, |seat| {
        owner = loud::owner(seat);
        let ended = seat.abort("called CommAbort");
        COMMS.remove(comm as usize)?;
        ended.map(|()| koloResult_t::koloSuccess)
    });
    told(comm, owner);
    code
}

/// Writes the number of ranks to `*count`. Errors: koloInvalidArgument. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommCount(comm: koloComm_t, count: *mut c_int) -> koloResult_t {
    guard_seat("CommCount", comm, |seat| {
        if count.is_null() {
            return Err(null("count"));
        }
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *count = seat.place().1 as c_int };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Writes this rank to `*rank`. Errors: koloInvalidArgument. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommUserRank(comm: koloComm_t, rank: *mut c_int) -> koloResult_t {
    guard_seat("CommUserRank", comm, |seat| {
        if rank.is_null() {
            return Err(null("rank"));
        }
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *rank = seat.place().0 as c_int };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Writes koloSuccess to `*asyncError`; koloInProgress while `comm` is being made (blocking = 0);
/// or the code of the error that has stopped it, or for which it could not be made, whose
/// sentence koloGetLastError(comm) has. Does not wait.
/// Errors of the call itself: koloInvalidArgument. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommGetAsyncError(
    comm: koloComm_t,
    asyncError: *mut koloResult_t,
) -> koloResult_t {
    guard_seat("CommGetAsyncError", comm, |seat| {
        if asyncError.is_null() {
            return Err(null("asyncError"));
        }
        let code = match seat.settle() {
            Ok(None) => koloResult_t::koloInProgress,
            Ok(Some(member)) => match member.communicator.async_error() {
                Ok(()) => koloResult_t::koloSuccess,
                Err(error) => {
                    seat.keep(crate::sentence::sentence(&error));
                    error.code.into()
                }
            },
            // No call has failed, and so nobody else says why.
            Err(error) if seat.tells_first() => failed(error, Some(seat)),
            Err(error) => error.code.into(),
        };
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *asyncError = code };
        Ok(koloResult_t::koloSuccess)
    })
}
