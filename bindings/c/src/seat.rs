//! Seats: a `koloComm_t` names one, in which a communicator sits or is still being made.
//!
//! Problem: a handle that was made without blocking is one of a communicator that is not there yet,
//! and calls that take 100 ns must not pay for that. Idea: the handle is that of a *seat*, which is
//! empty at first. A call looks whether somebody sits there, which is one load. If not, it asks the
//! start how far it is: the first call that finds it done fills the seat.

use crate::sentence::Sentence;
use crate::types::*;
use kolo_core::base::{Error, Rank, Result};
use kolo_core::comm::RawCalls;
use kolo_core::comm::{Communicator, NO_RANK, RedOp, Starting};
use kolo_core::dtype::DataType;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The object behind a `koloComm_t`. Every call counts how many use it, and communicators of other
/// threads stand beside it: each has cache lines of its own.
#[repr(align(128))]
pub(crate) struct Seat {
    ready: OnceLock<Member>,
    /// How it is made, where it was begun without blocking. Once the seat is filled it holds no
    /// thread, no descriptor and no communicator any more.
    start: Option<Starting>,
    /// The program was told that the start has failed.
    is_told: AtomicBool,
    /// The sentence of the last call that failed on it, of any thread.
    last: Mutex<Option<Sentence>>,
}

/// A communicator that is there.
pub(crate) struct Member {
    pub(crate) communicator: Communicator,
    /// Operations whose scalar is read at every call: (number, address of the scalar, type).
    pub(crate) by_pointer: Mutex<Vec<(i32, usize, DataType)>>,
    /// Number that means "no rank" beside KOLO_NO_RANK: MPI_PROC_NULL, where MPI has made it.
    pub(crate) no_rank: c_int,
}

impl Seat {
    /// A seat that a start fills, once it has ended.
    pub(crate) fn of(start: Starting) -> Seat {
        Seat::new(Some(start))
    }

    /// A seat that is filled.
    pub(crate) fn filled(communicator: Communicator, no_rank: c_int) -> Seat {
        let seat = Seat::new(None);
        seat.ready
            .get_or_init(|| Member::new(communicator, no_rank));
        seat
    }

    fn new(start: Option<Starting>) -> Seat {
        Seat {
            ready: OnceLock::new(),
            start,
            is_told: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }

    /// The communicator, for a call that needs it.
    ///
    /// # Errors
    /// `InvalidUsage` while it is being made; why it will not be.
    #[inline]
    pub(crate) fn member(&self) -> Result<&Member> {
        match self.ready.get() {
            Some(member) => Ok(member),
            None => self.late_member(),
        }
    }

    #[cold]
    fn late_member(&self) -> Result<&Member> {
        match self.settle() {
            Ok(Some(member)) => Ok(member),
            Ok(None) => {
                let phase = self.start.as_ref().map_or("", |start| start.phase());
                Err(Error::usage(
                    format!("the communicator is still being made (phase `{phase}`)"),
                    "call koloCommGetAsyncError until it writes koloSuccess; meanwhile only that, \
                     koloGetLastError, koloCommCount, koloCommUserRank, koloCommAbort and \
                     koloCommDestroy are allowed",
                ))
            }
            Err(error) => {
                self.is_told.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// The communicator, if it is there by now.
    ///
    /// # Errors
    /// Why it will not be.
    pub(crate) fn settle(&self) -> Result<Option<&Member>> {
        if let (None, Some(start)) = (self.ready.get(), &self.start)
            && let Some(communicator) = start.poll()?
        {
            // Another thread may have filled it meanwhile, with the same.
            self.ready
                .get_or_init(|| Member::new(communicator, KOLO_NO_RANK));
        }
        Ok(self.ready.get())
    }

    /// The communicator, if a call has found it.
    pub(crate) fn ready(&self) -> Option<&Member> {
        self.ready.get()
    }

    /// Whether a start has failed and the program has not been told; from now on it has.
    pub(crate) fn tells_first(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Ends what is there, without waiting for others; the program `did` something.
    pub(crate) fn abort(&self, did: &str) -> Result<()> {
        match (self.ready.get(), &self.start) {
            (Some(member), _) => member.communicator.abort(),
            (None, Some(start)) => {
                start.give_up(did);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Whether it is the start of the process that this one was forked from.
    pub(crate) fn is_inherited_start(&self) -> bool {
        let start = self.start.as_ref();
        self.ready.get().is_none() && start.is_some_and(|start| start.is_inherited())
    }

    /// Whether nothing but memory stays with whoever keeps it when it has ended.
    #[inline(always)]
    pub(crate) fn may_be_kept(&self) -> bool {
        let member = self.ready.get();
        member.is_some_and(|member| member.communicator.holds_memory_only())
    }

    /// The rank, and the number of ranks.
    pub(crate) fn place(&self) -> (u32, u32) {
        match (self.ready.get(), &self.start) {
            (Some(member), _) => (member.communicator.rank(), member.communicator.nranks()),
            (None, Some(start)) => (start.rank(), start.nranks()),
            (None, None) => (0, 0),
        }
    }

    /// An error of a call on it, with rank and name.
    pub(crate) fn tells(&self, error: Error) -> Error {
        match self.ready.get() {
            Some(member) => member.communicator.tells(error),
            None => error.at(Rank(self.place().0)),
        }
    }

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
}

impl Member {
    fn new(communicator: Communicator, no_rank: c_int) -> Member {
        Member {
            communicator,
            by_pointer: Mutex::new(Vec::new()),
            no_rank,
        }
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
