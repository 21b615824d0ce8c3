//! One error type: what happened, to which rank, with which peer, in which operation, what to do.
//!
//! Every message is a sentence for a person who did not write kolo. `remedy` says the next action;
//! it is never empty in an error that a caller can see.

use super::ids::Rank;
use super::place::{self, CallStack};
use super::shortage::words;
use std::borrow::Cow;
use std::fmt;

/// Result codes of the C interface; the numbers are those of the field's common interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    /// The call did what it says.
    Success = 0,
    /// A CUDA call failed.
    UnhandledCudaError = 1,
    /// The operating system refused something.
    SystemError = 2,
    /// A fault in kolo itself.
    InternalError = 3,
    /// An argument has a value that no call accepts.
    InvalidArgument = 4,
    /// The call is not allowed now or not in this combination.
    InvalidUsage = 5,
    /// Another rank failed, aborted or disappeared.
    RemoteError = 6,
    /// A non-blocking operation has not ended yet.
    InProgress = 7,
    /// A limit set by `KOLO_TIMEOUT` ran out.
    Timeout = 8,
}

impl Code {
    /// The short name, as `koloGetErrorString` gives it.
    pub fn text(self) -> &'static str {
        match self {
            Code::Success => "no error",
            Code::UnhandledCudaError => "unhandled CUDA error",
            Code::SystemError => "unhandled system error",
            Code::InternalError => "internal error",
            Code::InvalidArgument => "invalid argument",
            Code::InvalidUsage => "invalid usage",
            Code::RemoteError => "remote process failed or left",
            Code::InProgress => "operation in progress",
            Code::Timeout => "timed out",
        }
    }

    /// The code with this number, if there is one.
    #[doc(hidden)]
    pub fn from_number(number: i32) -> Option<Code> {
        const ALL: [Code; 9] = [
            Code::Success,
            Code::UnhandledCudaError,
            Code::SystemError,
            Code::InternalError,
            Code::InvalidArgument,
            Code::InvalidUsage,
            Code::RemoteError,
            Code::InProgress,
            Code::Timeout,
        ];
        ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// A failure with everything a person needs to act on it: the fields of [`ErrorParts`], such as
/// `error.code` and `error.what`. It is a word, so that calls which succeed pass on no more.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorParts>);

/// Parts of an [`Error`]. They are read as fields of the error itself.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorParts {
    /// Kind of failure.
    pub code: Code,
    /// The rank that reports it.
    pub rank: Option<Rank>,
    /// The rank it concerns, when it is another one.
    pub peer: Option<Rank>,
    /// The call, e.g. `AllReduce`.
    pub operation: Option<Cow<'static, str>>,
    /// The program's name of the communicator, if it has given one.
    pub communicator: Option<Box<str>>,
    /// Sentence that says what happened.
    pub what: String,
    /// Remedy: what to do about it.
    pub remedy: Cow<'static, str>,
    /// The place in the program that made the call, where that is wanted and known: `by step
    /// (ocean.f90:120)`.
    pub place: Option<Box<str>>,
    /// Another process says the same, so this one need not print it where nobody asks.
    #[doc(hidden)]
    pub told: bool,
}

const _: () = assert!(size_of::<Result<()>>() == size_of::<usize>());

impl std::ops::Deref for Error {
    type Target = ErrorParts;

    fn deref(&self) -> &ErrorParts {
        &self.0
    }
}

impl std::ops::DerefMut for Error {
    fn deref_mut(&mut self) -> &mut ErrorParts {
        &mut self.0
    }
}

/// The usual result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error without rank, peer and operation; add them with the methods below.
    #[doc(hidden)]
    pub fn new(code: Code, what: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(ErrorParts {
            code,
            rank: None,
            peer: None,
            operation: None,
            communicator: None,
            what: what.into(),
            remedy: remedy.into(),
            place: None,
            told: false,
        }))
    }

    /// `Code::InvalidArgument`.
    #[doc(hidden)]
    pub fn argument(what: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Error {
        Error::new(Code::InvalidArgument, what, remedy)
    }

    /// `Code::InvalidUsage`.
    #[doc(hidden)]
    pub fn usage(what: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Error {
        Error::new(Code::InvalidUsage, what, remedy)
    }

    /// `Code::InternalError`: a fault of kolo's own.
    #[doc(hidden)]
    pub fn internal(what: impl Into<String>) -> Error {
        Error::new(
            Code::InternalError,
            what,
            "this is a fault in kolo: please report it with the output of `kolo info`",
        )
    }

    /// `Code::SystemError` from the operating system's last error.
    #[doc(hidden)]
    pub fn system(
        doing: impl fmt::Display,
        source: &std::io::Error,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Error {
        Error::new(
            Code::SystemError,
            format!("{doing}: {}", words(source)),
            remedy,
        )
    }

    /// `Code::RemoteError` about `peer`.
    #[doc(hidden)]
    pub fn remote(
        peer: Rank,
        what: impl Into<String>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Error {
        let mut error = Error::new(Code::RemoteError, what, remedy);
        error.peer = Some(peer);
        error
    }

    /// All that it says, to take apart.
    pub fn into_parts(self) -> ErrorParts {
        *self.0
    }

    /// Takes out the sentence that says what happened.
    #[doc(hidden)]
    pub fn into_what(self) -> String {
        self.0.what
    }

    /// Makes an error of another kind of this one.
    #[doc(hidden)]
    pub fn with_code(mut self, code: Code) -> Error {
        self.code = code;
        self
    }

    /// Leaves it to another process to print it, if `told`.
    #[doc(hidden)]
    pub fn told_elsewhere(mut self, told: bool) -> Error {
        self.told |= told;
        self
    }

    /// Names the reporting rank (kept if already named).
    #[doc(hidden)]
    pub fn at(mut self, rank: Rank) -> Error {
        self.rank.get_or_insert(rank);
        self.other()
    }

    /// A rank is not its own peer.
    fn other(mut self) -> Error {
        let rank = self.rank;
        self.peer = self.peer.filter(|&peer| Some(peer) != rank);
        self
    }

    /// Names the peer (kept if already named), unless it is the reporting rank.
    #[doc(hidden)]
    pub fn with_peer(mut self, peer: Rank) -> Error {
        self.peer.get_or_insert(peer);
        self.other()
    }

    /// Names the communicator (kept if already named), if it has a name.
    #[doc(hidden)]
    pub fn on(mut self, communicator: Option<&str>) -> Error {
        if let (None, Some(name)) = (&self.communicator, communicator) {
            self.communicator = Some(name.into());
        }
        self
    }

    /// Names the place in the program that has made the call (kept if already named), if the thread
    /// comes from one.
    #[doc(hidden)]
    #[cold]
    pub fn with_place(mut self) -> Error {
        if self.place.is_none() {
            self.place = place::of_caller().map(String::into_boxed_str);
        }
        self
    }

    /// Names the place of a call that was made before, on this thread or another one (kept if
    /// already named).
    #[doc(hidden)]
    #[cold]
    pub fn called_by(mut self, stack: &CallStack) -> Error {
        if self.place.is_none() {
            self.place = stack.place().map(String::into_boxed_str);
        }
        self
    }

    /// Names the operation (kept if already named).
    #[doc(hidden)]
    pub fn during(mut self, operation: impl Into<Cow<'static, str>>) -> Error {
        self.operation.get_or_insert(operation.into());
        self
    }
}

impl Error {
    /// The error of a call that is refused because this one has stopped its communicator: the
    /// refused call takes the place of the one that failed, which the remedy names.
    #[doc(hidden)]
    pub fn refusing(mut self) -> Error {
        self.place = None;
        if let Some(failed) = self.operation.take() {
            self.remedy = format!(
                "the communicator has stopped, as {failed} failed before: {}",
                self.remedy
            )
            .into();
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kolo: ")?;
        if let Some(rank) = self.rank {
            write!(f, "rank {rank}: ")?;
        }
        match (&self.operation, &self.communicator) {
            (Some(operation), Some(name)) => write!(f, "{operation} on communicator {name}: ")?,
            (Some(operation), None) => write!(f, "{operation}: ")?,
            (None, Some(name)) => write!(f, "communicator {name}: ")?,
            (None, None) => {}
        }
        if let Some(peer) = self.peer {
            write!(f, "[peer {peer}] ")?;
        }
        write!(f, "{}", self.what)?;
        if !self.remedy.is_empty() {
            let stop = if self.what.ends_with(['?', '.']) {
                ""
            } else {
                "."
            };
            write!(f, "{stop} Remedy: {}", self.remedy)?;
        }
        if let Some(place) = &self.place {
            write!(f, ". Called {place}")?;
        }
        Ok(())
    }
}

/// The sentence too: so `fn main() -> kolo::Result<()>`, `unwrap` and `expect` end with something
/// that a person can read.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_rank_peer_operation_and_remedy() {
        let error = Error::remote(Rank(5), "process 77 on node9 ended", "restart the job")
            .at(Rank(2))
            .during("AllReduce");
        assert_eq!(
            error.to_string(),
            "kolo: rank 2: AllReduce: [peer 5] process 77 on node9 ended. Remedy: restart the job"
        );
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn message_names_the_communicator_that_has_a_name() {
        let error = Error::usage("no", "none").at(Rank(2)).on(None);
        assert_eq!(error.to_string(), "kolo: rank 2: no. Remedy: none");
        let error = error.on(Some("ocean")).on(Some("ice"));
        assert_eq!(
            error.to_string(),
            "kolo: rank 2: communicator ocean: no. Remedy: none"
        );
        assert_eq!(
            error.during("Send").to_string(),
            "kolo: rank 2: Send on communicator ocean: no. Remedy: none"
        );
    }

    #[test]
    fn message_names_the_place_of_the_call_and_a_refused_one_has_its_own() {
        let mut error = Error::usage("no", "none");
        error.place = Some("by step (ocean.f90:120)".into());
        let sentence = "kolo: no. Remedy: none. Called by step (ocean.f90:120)";
        assert_eq!(error.to_string(), sentence);
        assert_eq!(error.clone().with_place(), error, "it stays");
        assert_eq!(error.during("Send").refusing().place, None);
    }

    #[test]
    fn a_rank_is_not_its_own_peer() {
        let error = Error::remote(Rank(2), "rank 2 called Barrier", "call Send").at(Rank(2));
        assert_eq!(
            error.to_string(),
            "kolo: rank 2: rank 2 called Barrier. Remedy: call Send"
        );
        assert_eq!(error.peer, None);
        assert_eq!(error.with_peer(Rank(2)).peer, None);
    }

    #[test]
    fn codes_round_trip() {
        for number in 0..9 {
            assert_eq!(Code::from_number(number).map(|c| c as i32), Some(number));
        }
        assert_eq!(Code::from_number(9), None);
        assert_eq!(Code::from_number(-1), None);
    }
}
