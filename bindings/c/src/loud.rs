//! A call that fails says so, for programs that do not look at what calls return.
//!
//! Problem: a program that drops a result code goes on with whatever its buffers held, prints a
//! wrong number and ends well. Idea: the first failure of each cause on a communicator is one line
//! of the log, on stderr at the default level; those that follow for the same cause, as in a loop
//! on a communicator that has stopped, are counted, and the count is told when the communicator or
//! the process ends. `KOLO_ERRORS=abort` ends the process at the first failure instead.

use crate::seat::Seat;
use kolo_core::base::{Code, Error, caught, quiet};
use kolo_core::comm::Inspect;
use kolo_core::comm::logging;
use kolo_core::config::Errors;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// So many causes are told on a communicator; a program that finds more is stuck in one of them.
const MOST_CAUSES: usize = 16;

/// The owner of failures of calls that name no live communicator.
const NOBODY: usize = 0;

/// Address of a communicator's seat, which names the communicator here as long as it lives.
pub(crate) fn owner(seat: &Seat) -> usize {
    std::ptr::from_ref(seat).addr()
}

/// Failures of one cause.
struct Cause {
    /// [`owner`] of the communicator.
    owner: usize,
    code: Code,
    what: String,
    /// The call that was told of; none in sentences of bindings, which have it in them.
    call: Option<String>,
    /// How many came later.
    more: u64,
}

/// All that was told and not counted yet.
struct Told {
    causes: Vec<Cause>,
    /// Whose they are: a forked child inherits the memory.
    pid: u32,
}

static TOLD: Mutex<Told> = Mutex::new(Told {
    causes: Vec::new(),
    pid: 0,
});

/// So many bindings of a process may say what fails in their own words.
pub(crate) const MOST_SPEAKERS: usize = 8;

/// Asks a binding whether it says what fails on the calling thread: one binding may call another.
pub(crate) type Speaker = unsafe extern "C" fn() -> c_int;

static SPEAKERS: [OnceLock<Speaker>; MOST_SPEAKERS] = [const { OnceLock::new() }; MOST_SPEAKERS];

/// Has `speaker` asked before a failure is told; whether there was place for it.
///
/// # Safety
/// It may be called on any thread until the process ends.
pub(crate) unsafe fn listen_to(speaker: Speaker) -> bool {
    let is_kept = |place: &OnceLock<Speaker>| {
        let kept = *place.get_or_init(|| speaker);
        std::ptr::fn_addr_eq(kept, speaker)
    };
    SPEAKERS.iter().any(is_kept)
}

/// Whether another one says what fails on this thread.
fn is_said() -> bool {
    let mut known = SPEAKERS.iter().map_while(OnceLock::get);
    // SAFETY: what is kept may be called on any thread, by the contract of `listen_to`.
    known.any(|says| unsafe { says() } != 0)
}

// SAFETY: the declaration is that of glibc, the C library of all systems that kolo is built for.
unsafe extern "C" {
    /// As `atexit`, and tells the status.
    #[link_name = "on_exit"]
    fn libc_on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Consequence of a call that fails, as the settings of its communicator say.
fn wanted(seat: Option<&Seat>) -> Errors {
    let usual = logging::ensure();
    let member = seat.and_then(Seat::ready);
    member.map_or(usual, |member| member.communicator.settings().errors())
}

/// The error with the place in the program, where the settings ask for it.
pub(crate) fn placed(error: Error, seat: Option<&Seat>) -> Error {
    // A thread that is ending may have no place left for what the log needs.
    match caught(|| wanted(seat)) {
        Ok(Errors::Backtrace) => error.with_place(),
        _ => error,
    }
}

/// Says that a call has failed, or counts it; with `KOLO_ERRORS=abort` it does not return.
pub(crate) fn tell(error: &Error, sentence: &CStr, seat: Option<&Seat>) {
    if wanted(seat) == Errors::Abort {
        stop_job(sentence, seat);
    }
    if error.told && seat.is_none() {
        // Somebody else tells of it, and what is not told here has no count.
        return;
    }
    let owner = seat.map_or(NOBODY, owner);
    if is_first(error, owner) && !error.told && !is_said() {
        logging::failure(&sentence.to_string_lossy());
    }
}

/// Whether nothing was told of this cause yet. Counts it if so.
fn is_first(error: &Error, owner: usize) -> bool {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    if told.pid != pid {
        told.causes.clear();
        told.pid = pid;
    }
    // A call that names nobody, such as the end of a group, may only pass on what was told.
    let same = |cause: &&mut Cause| {
        let is_whose = cause.owner == owner || owner == NOBODY;
        is_whose && (cause.code, cause.what.as_str()) == (error.code, error.what.as_str())
    };
    if let Some(cause) = told.causes.iter_mut().find(same) {
        if cause.owner == owner {
            cause.more += 1;
            heed();
        }
        return false;
    }
    let of_owner = told.causes.iter_mut().filter(|cause| cause.owner == owner);
    let (known, last) = of_owner.fold((0, None), |(known, _), cause| (known + 1, Some(cause)));
    if known >= MOST_CAUSES
        && let Some(last) = last
    {
        last.more += 1;
        heed();
        return false;
    }
    told.causes.push(Cause {
        owner,
        code: error.code,
        what: match known + 1 == MOST_CAUSES {
            true => "one of too many different errors".into(),
            false => error.what.clone(),
        },
        call: error.operation.as_deref().map(str::to_owned),
        more: 0,
    });
    true
}

/// A communicator has ended: counts are told.
pub(crate) fn farewell(owner: usize) {
    if owner == NOBODY {
        return;
    }
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let (ended, others) = std::mem::take(&mut told.causes)
        .into_iter()
        .partition(|cause| cause.owner == owner);
    told.causes = others;
    drop(told);
    let ended: Vec<Cause> = ended;
    for text in ended.iter().filter_map(Cause::count) {
        logging::warning(&text);
    }
}

impl Cause {
    /// The count in a sentence, if there is one.
    fn count(&self) -> Option<String> {
        let times = match self.more {
            0 => return None,
            1 => "1 more call has".to_owned(),
            more => format!("{more} more calls have"),
        };
        let call = self.call.as_ref();
        let call = call.map_or(String::new(), |call| format!(" as {call}"));
        Some(format!(
            "{times} failed for the same reason{call}: {}",
            self.what
        ))
    }
}

/// Has the exit of this process tell the counts that are left.
fn heed() {
    static AT_EXIT: Once = Once::new();
    // SAFETY: `on_exit` is a function for the whole life of the process that never unwinds.
    AT_EXIT.call_once(|| unsafe {
        libc_on_exit(on_exit, std::ptr::null_mut());
    });
}

extern "C" fn on_exit(_: c_int, _: *mut c_void) {
    // Another thread may have been ended inside; then nobody is waited for.
    let Ok(told) = TOLD.try_lock() else { return };
    if told.pid == std::process::id() {
        for text in told.causes.iter().filter_map(Cause::count) {
            let _ = caught(|| logging::at_exit(&text));
        }
    }
}

/// Ends the process as a program does that calls `abort`: a launcher then ends the job, and a
/// debugger or a core file shows the call.
fn stop_job(sentence: &CStr, seat: Option<&Seat>) -> ! {
    quiet::tell(&format!(
        "{}\nkolo: the process aborts, because KOLO_ERRORS is abort",
        logging::in_words(&sentence.to_string_lossy())
    ));
    if let Some(seat) = seat {
        // The others hear whose failure it was.
        let _ = caught(|| seat.abort("failed in a call"));
    }
    // SAFETY: plain library calls. The buffers of all streams of the program are written, for what
    // it printed before the failure tells how far it came.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::abort()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(what: &str) -> Error {
        Error::usage(what, "do otherwise").during("Send")
    }

    fn counts(owner: usize) -> Vec<String> {
        let told = TOLD.lock().unwrap();
        let own = told.causes.iter().filter(|cause| cause.owner == owner);
        own.filter_map(Cause::count).collect()
    }

    #[test]
    fn the_first_of_a_cause_is_told_and_the_others_are_counted() {
        let (one, other) = (0x71_0001, 0x71_0002);
        assert!(is_first(&error("it is gone"), one));
        assert!((0..40).all(|_| !is_first(&error("it is gone"), one)));
        assert!(is_first(&error("it is late"), one));
        assert!(
            is_first(&error("it is gone"), other),
            "another communicator"
        );
        // The end of a group names nobody, and passes on what a call has told.
        assert!(!is_first(&error("it is late"), NOBODY));
        assert!(is_first(&error("it is new"), one));
        assert!(!is_first(&error("it is new"), one));
        let single = "1 more call has failed for the same reason as Send: it is new";
        let many = "40 more calls have failed for the same reason as Send: it is gone";
        assert_eq!(
            counts(one),
            [many, single],
            "what is passed on is no other failure"
        );
        assert_eq!(counts(other), [""; 0]);
        farewell(one);
        assert_eq!(counts(one), [""; 0]);
        assert!(
            is_first(&error("it is gone"), one),
            "a new life of the handle"
        );
        assert!(!is_first(&error("it is gone"), other), "the other lives on");
    }

    thread_local! {
        static NOW: std::cell::Cell<c_int> = const { std::cell::Cell::new(0) };
    }

    extern "C" fn says<const N: c_int>() -> c_int {
        c_int::from(NOW.get() == N)
    }

    #[test]
    fn every_binding_is_asked_on_the_thread_that_failed() {
        let all = [says::<1>, says::<2>, says::<3>, says::<4>];
        let others = [says::<5>, says::<6>, says::<7>, says::<8>];
        for says in all.into_iter().chain(others) {
            // SAFETY: a function of this program that any thread may call.
            assert!((0..9).all(|_| unsafe { listen_to(says) }), "one place each");
        }
        // SAFETY: as above.
        assert!(!unsafe { listen_to(says::<9>) }, "no place is left");
        let said = (0..=9).filter(|&n| {
            NOW.set(n);
            is_said()
        });
        assert_eq!(said.collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
        NOW.set(8);
        let elsewhere = std::thread::spawn(is_said);
        assert!(!elsewhere.join().unwrap(), "another thread's call");
    }

    #[test]
    fn errors_that_all_differ_are_bounded() {
        let owner = 0x71_0003;
        let told = (0..100).filter(|n| is_first(&error(&format!("error {n}")), owner));
        assert_eq!(told.count(), MOST_CAUSES);
        let counted = counts(owner);
        assert_eq!(counted.len(), 1, "{counted:?}");
        assert!(counted[0].starts_with("84 more calls"), "{counted:?}");
    }
}
