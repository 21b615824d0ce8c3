//! A communicator that is being made: which phase it is in, and whether it was called off.
//!
//! **Problem.** A start waits for other ranks, maybe for ever. Whoever reads a warning or an error
//! wants to know how far it has come; and a program that has begun it without blocking may want it
//! no more while a thread of kolo's is deep inside some wait.
//!
//! **Idea.** One object goes with the start into every wait: it knows the phase, and has a *bell*,
//! a descriptor that can be read once the start was called off. A wait that polls descriptors polls
//! the bell too; any other wait looks now and then.

use super::clock::{self, Moment, now};
use super::fork::Fd;
use super::sync::{AtomicUsize, Ordering};
use super::{Code, Error, Rank, Result};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The parts of a start, in their order. All ranks go through all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartPhase {
    /// The ranks find each other.
    Meeting,
    /// They show who they are and what was asked of them, and compare it.
    Comparing,
    /// They agree on orders and choices.
    Agreeing,
    /// Those of a node map the memory that they share.
    Sharing,
    /// They find out how buffers are reached.
    Reaching,
    /// Those of several nodes open the network.
    Connecting,
    /// Tables, connections and threads are bound to the communicator.
    Binding,
    /// Everybody waits until all are ready.
    Ending,
}

impl StartPhase {
    /// All, in order.
    pub const ALL: [StartPhase; 8] = [
        StartPhase::Meeting,
        StartPhase::Comparing,
        StartPhase::Agreeing,
        StartPhase::Sharing,
        StartPhase::Reaching,
        StartPhase::Connecting,
        StartPhase::Binding,
        StartPhase::Ending,
    ];

    /// Its name in messages and settings.
    pub fn name(self) -> &'static str {
        match self {
            StartPhase::Meeting => "meeting",
            StartPhase::Comparing => "comparing",
            StartPhase::Agreeing => "agreeing",
            StartPhase::Sharing => "sharing",
            StartPhase::Reaching => "reaching",
            StartPhase::Connecting => "connecting",
            StartPhase::Binding => "binding",
            StartPhase::Ending => "ending",
        }
    }

    /// Describes for the log what is reached when the phase is over.
    pub fn outcome(self) -> &'static str {
        match self {
            StartPhase::Meeting => "the ranks have met",
            StartPhase::Comparing => "the ranks want the same",
            StartPhase::Agreeing => "the ranks agree on orders and choices",
            StartPhase::Sharing => "the ranks of this node share memory",
            StartPhase::Reaching => "it is known how buffers are reached",
            StartPhase::Connecting => "the network is ready, or not needed",
            StartPhase::Binding => "tables and connections are bound",
            StartPhase::Ending => "all ranks are ready",
        }
    }

    /// The phase of that name.
    pub fn named(name: &str) -> Option<StartPhase> {
        StartPhase::ALL
            .into_iter()
            .find(|phase| phase.name() == name)
    }
}

/// How often a wait looks that cannot hear the bell.
pub const LOOK: Duration = Duration::from_millis(20);

/// A start under way.
#[derive(Debug)]
pub struct Birth {
    rank: Rank,
    nranks: u32,
    begun: Moment,
    phase: AtomicUsize,
    /// 1 when it goes on no more.
    ended: AtomicUsize,
    /// Why it was called off.
    off: OnceLock<Error>,
    /// An eventfd that can be read once it was called off; none where nobody can do that, or it has
    /// ended.
    bell: Mutex<Option<Fd>>,
    /// The phase that a test wants it to stay in.
    hold: Option<StartPhase>,
}

impl Birth {
    /// A start that the calling program waits for, so that nobody can call it off.
    pub fn awaited(rank: Rank, nranks: u32, hold: Option<StartPhase>) -> Birth {
        Birth {
            rank,
            nranks,
            begun: now(),
            phase: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            off: OnceLock::new(),
            bell: Mutex::new(None),
            hold,
        }
    }

    /// A start that can be called off.
    ///
    /// # Errors
    /// `SystemError` without a descriptor for the bell.
    pub fn begun(rank: Rank, nranks: u32, hold: Option<StartPhase>) -> Result<Birth> {
        // SAFETY: eventfd takes two numbers and returns a new descriptor or -1.
        let bell = unsafe { Fd::from_result(libc::eventfd(0, libc::EFD_CLOEXEC)) };
        let bell = bell.map_err(|error| {
            let what = "cannot begin a communicator without blocking";
            let remedy = "raise the limit on open files (`ulimit -n 65536` in the job script)";
            Error::system(what, &error, remedy)
        })?;
        Ok(Birth {
            bell: Mutex::new(Some(bell)),
            ..Birth::awaited(rank, nranks, hold)
        })
    }

    /// Whose it is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Of how many ranks.
    pub fn nranks(&self) -> u32 {
        self.nranks
    }

    /// When it began.
    pub fn begun_at(&self) -> Moment {
        self.begun
    }

    /// Where it is.
    pub fn phase(&self) -> StartPhase {
        StartPhase::ALL[self.phase.load(Ordering::Relaxed)]
    }

    /// The next phase begins.
    ///
    /// # Errors
    /// It was called off.
    pub fn enter(&self, phase: StartPhase) -> Result<()> {
        self.tell_up_to(phase as usize);
        // Relaxed: it is read to be shown.
        self.phase.store(phase as usize, Ordering::Relaxed);
        if self.hold == Some(phase) {
            tracing::warn!(
                "rank {} stays in phase `{}` of its start, because KOLO_FAULT_HOLD says so: the \
                 others wait for it until it is called off",
                self.rank,
                phase.name()
            );
            loop {
                self.go_on()?;
                self.sleep(None);
            }
        }
        self.go_on()
    }

    /// All phases are over.
    pub fn end(&self) {
        self.tell_up_to(StartPhase::ALL.len());
        self.leave();
    }

    /// It goes on no more, whatever has come of it.
    pub fn leave(&self) {
        self.ended.store(1, Ordering::Relaxed);
    }

    /// Whether it goes on no more: all phases are over, or it has failed.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) != 0
    }

    /// The log of phases that are over.
    fn tell_up_to(&self, phase: usize) {
        for over in self.phase() as usize..phase {
            let (number, all) = (over + 1, StartPhase::ALL.len());
            tracing::debug!(
                "init {number} of {all}: {}",
                StartPhase::ALL[over].outcome()
            );
        }
    }

    /// Calls it off, because the program `did` something; the first reason counts.
    pub fn call_off(&self, did: &str) {
        let what = format!(
            "rank {} {did} while it started, in phase `{}`",
            self.rank,
            self.phase().name()
        );
        let remedy = "see why that program gave up; make a new communicator to go on";
        let _ = self.off.set(Error::new(Code::RemoteError, what, remedy));
        if let Some(bell) = &*self.lock() {
            // SAFETY: the descriptor is an eventfd. The call fails only when its counter is full,
            // and then it has been rung.
            unsafe { libc::eventfd_write(bell.as_raw_fd(), 1) };
        }
    }

    /// Whether the start may go on.
    ///
    /// # Errors
    /// It was called off, by whom and in which phase.
    pub fn go_on(&self) -> Result<()> {
        self.off.get().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Descriptor that a wait polls beside its own: readable once the start was called off.
    pub fn bell(&self) -> Option<RawFd> {
        self.lock().as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Lets go of the bell: no wait is left that would hear it.
    pub fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Fd>> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a start was called off, as the error of the call that it is of.
    pub fn reason(&self, call: &'static str) -> Error {
        let why = self.off.get().cloned();
        self.explain(
            call,
            why.unwrap_or_else(|| Error::internal("nobody called it off")),
        )
    }

    /// Rests, unless it is called off.
    ///
    /// # Errors
    /// It was called off.
    pub fn rest(&self, time: Duration) -> Result<()> {
        let start = now();
        loop {
            self.go_on()?;
            match start.left(time) {
                Duration::ZERO => return Ok(()),
                left => self.sleep(Some(left.min(clock::LOOK))),
            }
        }
    }

    /// Sleeps until the bell rings, a signal comes, or `limit` is over.
    fn sleep(&self, limit: Option<Duration>) {
        let Some(bell) = self.bell() else {
            super::turns::sleep(limit.unwrap_or(LOOK));
            return;
        };
        let entry = libc::pollfd {
            fd: bell,
            events: libc::POLLIN,
            revents: 0,
        };
        super::turns::poll(&mut [entry], limit);
    }

    /// Names the call and the phase in which a start has failed. An error that names the call alone
    /// was there before the first phase.
    pub fn explain(&self, call: &'static str, mut error: Error) -> Error {
        if error.operation.as_deref() != Some(call) {
            let phase = self.phase().name();
            error.operation = Some(format!("{call}, phase `{phase}`").into());
        }
        error.at(self.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn phases_have_names_in_order() {
        for (at, phase) in StartPhase::ALL.into_iter().enumerate() {
            assert_eq!(
                (phase as usize, StartPhase::named(phase.name())),
                (at, Some(phase))
            );
        }
        assert_eq!(StartPhase::named("none"), None);
    }

    #[test]
    fn a_start_that_has_ended_has_no_descriptor() {
        let birth = Birth::begun(Rank(0), 2, None).unwrap();
        assert!(birth.bell().is_some());
        birth.close();
        assert_eq!(birth.bell(), None);
        birth.call_off("called CommAbort");
        assert!(birth.go_on().is_err());
    }

    #[test]
    fn a_held_start_hears_that_it_was_called_off() {
        let birth = Arc::new(Birth::begun(Rank(3), 4, Some(StartPhase::Sharing)).unwrap());
        birth.enter(StartPhase::Agreeing).unwrap();
        birth.rest(Duration::from_millis(1)).unwrap();
        let held = Arc::clone(&birth);
        let held = std::thread::spawn(move || held.enter(StartPhase::Sharing));
        while birth.phase() != StartPhase::Sharing {
            std::thread::yield_now();
        }
        birth.call_off("called CommAbort");
        birth.call_off("did something else");
        let error = held.join().unwrap().unwrap_err();
        assert!(
            error.what.contains("rank 3 called CommAbort") && error.what.contains("`sharing`"),
            "{error}"
        );
        assert_eq!(birth.rest(Duration::MAX).unwrap_err(), error);
        assert_eq!(birth.enter(StartPhase::Binding).unwrap_err(), error);
    }

    #[test]
    fn an_error_names_call_and_phase() {
        let birth = Birth::awaited(Rank(1), 2, None);
        birth.enter(StartPhase::Ending).unwrap();
        let error = Error::internal("x").during("bootstrap all_gather");
        let text = birth.explain("CommInitRank", error).to_string();
        assert!(
            text.starts_with("kolo: rank 1: CommInitRank, phase `ending`: x."),
            "{text}"
        );
        let early = Error::argument("x", "y").during("CommInitRank");
        let text = birth.explain("CommInitRank", early).to_string();
        assert!(text.starts_with("kolo: rank 1: CommInitRank: x."), "{text}");
    }
}
