//! A listener's guests: those who have connected and not proven yet that they may enter.
//!
//! **Problem.** A port that is open on a cluster's network meets port scanners, health checks and
//! old jobs. None of them may delay a rank or fill the memory, and a process that has run out of
//! file descriptors must not spin: the queue of new connections stays readable while none of them
//! can be accepted.
//!
//! **Idea.** Nothing here waits. Guests sit in one list, bounded in number and each in time; where
//! the list is full, one makes room: of those who have said nothing yet, of those whose hello waits
//! for a judgement, or of those who were answered, whichever are most. Who is answered has proven
//! nothing; so a crowd of one kind drives out its own, and not a rank that is of another kind. Each
//! is led through the proof ([`super::proof`]), and who has given it is handed to the owner of the
//! door. When descriptors run out one of them makes room in the same way; without guests the door
//! *pauses*: it accepts nobody, and its listener is left out of what is slept on, until the pause
//! is over.
//!
//! The door knows no sockets, only what can be read and written.

use super::proof::{self, Event, Hello, Host, Key, Preamble, Session};
use crate::base::clock::{LOOK, Moment, now};
use crate::base::shortage::{self, is_shortage};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long to accept nobody when the process has no file descriptor left.
pub const PAUSE: Duration = Duration::from_millis(100);
/// How long to rest before a hello is judged again: the owner has work of its own meanwhile.
const REST: Duration = Duration::from_millis(1);
/// The most bytes of a refused guest that are read and thrown away, so that the system does not
/// take the refusal back with them.
const MOST_DRAINED: usize = 64 << 10;

/// Bounds of a door.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most guests.
    pub guests: usize,
    /// How long a guest may take.
    pub patience: Duration,
    /// The most connections accepted before the guests are looked at again.
    pub burst: usize,
}

/// Verdict of a door's owner on a hello.
pub enum Verdict {
    /// Go on, with the secret of this kind and the key that follows from it.
    Answer(u8, Key),
    /// Ask again when the door is served the next time, which is to be soon.
    Later,
    /// Say this and hang up.
    Refuse(Vec<u8>),
    /// Hang up.
    Drop,
}

/// The owner of a door.
pub trait Keeper {
    /// Judges a hello before anything is answered.
    fn judge(&mut self, hello: &Hello) -> Verdict;

    /// Words to a caller that speaks another version.
    fn other_version(&mut self, version: u16) -> Vec<u8>;
}

/// One that has given the proof.
pub struct Entry<S> {
    /// Hello with which it began.
    pub hello: Hello,
    /// Its connection: nothing was read beyond the proof.
    pub stream: S,
    /// The keys of the connection.
    pub session: Session,
}

struct Guest<S> {
    stream: S,
    host: Host,
    hello: Option<Hello>,
    /// The hello is to be judged again.
    waits: bool,
    since: Moment,
}

/// How far a guest is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Crowd {
    /// It has not said hello.
    Silent,
    /// The owner is to judge its hello.
    Waiting,
    /// It was answered, and is to confirm.
    Answered,
}

enum Look<S> {
    Stay(Guest<S>),
    Gone,
    Enters(Entry<S>),
}

/// The guests of one listener.
pub struct Door<S> {
    protocol: Preamble,
    limits: Limits,
    guests: VecDeque<Guest<S>>,
    paused: Option<Moment>,
}

impl<S: Read + Write> Door<S> {
    /// A door for callers that speak `protocol`.
    pub fn new(protocol: Preamble, limits: Limits) -> Door<S> {
        Door {
            protocol,
            limits,
            guests: VecDeque::new(),
            paused: None,
        }
    }

    /// Takes new connections by `accept` (`WouldBlock`: there are no more), looks at all guests,
    /// and returns those who may enter.
    pub fn serve(
        &mut self,
        keeper: &mut impl Keeper,
        mut accept: impl FnMut() -> io::Result<S>,
    ) -> Vec<Entry<S>> {
        if self.paused.is_none_or(|since| since.past(PAUSE)) {
            self.paused = None;
            self.accept(&mut accept);
        }
        let mut entries = Vec::new();
        for _ in 0..self.guests.len() {
            let Some(guest) = self.guests.pop_front() else {
                break;
            };
            match guest.look(keeper) {
                // It is the owner who lets it wait.
                Look::Stay(guest) if guest.waits || !guest.since.past(self.limits.patience) => {
                    self.guests.push_back(guest);
                }
                Look::Stay(_) | Look::Gone => {}
                Look::Enters(entry) => entries.push(entry),
            }
        }
        // Only now: who proves itself at once was no guest.
        while self.guests.len() > self.limits.guests {
            self.drop_one();
        }
        entries
    }

    fn accept(&mut self, accept: &mut impl FnMut() -> io::Result<S>) {
        for _ in 0..self.limits.burst {
            match accept() {
                Ok(stream) => self.guests.push_back(Guest {
                    stream,
                    host: Host::new(self.protocol),
                    hello: None,
                    waits: false,
                    since: now(),
                }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_shortage(&error) => {
                    // A stranger makes room for somebody who may be a rank.
                    if !self.drop_one() {
                        shortage::tell(&error);
                        self.paused = Some(now());
                        return;
                    }
                }
                // The connection died in the queue: the next one may be good.
                Err(_) => {}
            }
        }
    }

    /// One of the largest crowd leaves, of the silent, the answered, or those of whom the owner has
    /// not judged yet; false where there is nobody.
    fn drop_one(&mut self) -> bool {
        let crowd = |it: &Guest<S>| match (it.waits, it.host.has_answered()) {
            (true, _) => Crowd::Waiting,
            (false, true) => Crowd::Answered,
            (false, false) => Crowd::Silent,
        };
        let count = |of: Crowd| self.guests.iter().filter(|it| crowd(it) == of).count();
        let crowds = [Crowd::Waiting, Crowd::Answered, Crowd::Silent];
        let Some(largest) = crowds.into_iter().max_by_key(|of| count(*of)) else {
            return false;
        };
        // They stand in the order in which they came. The oldest goes, but of those who wait for
        // the owner the youngest: whoever got so far is judged, and no crowd pushes it out.
        let mut guests = self.guests.iter();
        let at = match largest {
            Crowd::Waiting => guests.rposition(|it| crowd(it) == largest),
            _ => guests.position(|it| crowd(it) == largest),
        };
        self.guests.remove(at.unwrap_or(0)).is_some()
    }

    /// Adds to a poll set what to sleep on; how long the poll may sleep for the door's sake.
    pub fn watch(&self, listener: &impl AsRawFd, set: &mut Vec<libc::pollfd>) -> Option<Duration>
    where
        S: AsRawFd,
    {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN | libc::POLLRDHUP,
            revents: 0,
        };
        set.extend(self.guests.iter().map(|it| entry(it.stream.as_raw_fd())));
        let left = |since: Moment, limit: Duration| since.left(limit).min(LOOK);
        let expiry = self
            .guests
            .iter()
            .filter(|it| !it.waits)
            .map(|it| left(it.since, self.limits.patience));
        let pause = self.paused.map(|since| left(since, PAUSE));
        let waits = self.guests.iter().any(|it| it.waits);
        let waits = waits.then_some(REST);
        if pause.is_none() {
            set.push(entry(listener.as_raw_fd()));
        }
        expiry.chain(pause).chain(waits).min()
    }

    /// Whether it accepts nobody at the moment.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// How many have not proven themselves.
    pub fn guests(&self) -> usize {
        self.guests.len()
    }
}

impl<S: Read + Write> Guest<S> {
    fn look(mut self, keeper: &mut impl Keeper) -> Look<S> {
        if let Some(hello) = self.hello.take_if(|_| self.waits) {
            self = match self.judged(keeper, hello) {
                Continue(guest) => guest,
                Break(look) => return look,
            };
        }
        let mut room = [0; 512];
        loop {
            let most = self.host.wants().min(room.len());
            let event = match self.stream.read(&mut room[..most]) {
                Ok(0) => return Look::Gone,
                Ok(count) => self.host.take(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Look::Stay(self),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Look::Gone,
            };
            match event {
                Event::Nothing => {}
                Event::Version(version) => return self.refuse(&keeper.other_version(version)),
                Event::Hello(hello) => {
                    self = match self.judged(keeper, hello) {
                        Continue(guest) => guest,
                        Break(look) => return look,
                    };
                }
                Event::Confirmed(true) => {
                    return match (self.hello.take(), self.host.session()) {
                        (Some(hello), Some(session)) => Look::Enters(Entry {
                            hello,
                            stream: self.stream,
                            session,
                        }),
                        _ => Look::Gone,
                    };
                }
                Event::Foreign | Event::Answer(_) | Event::Confirmed(false) => return Look::Gone,
            }
        }
    }

    /// Does what the keeper says to a hello: the guest goes on, or that is all for now.
    fn judged(mut self, keeper: &mut impl Keeper, hello: Hello) -> ControlFlow<Look<S>, Guest<S>> {
        let verdict = keeper.judge(&hello);
        if self.waits {
            self.since = now();
        }
        self.waits = matches!(verdict, Verdict::Later);
        self.hello = Some(hello);
        match verdict {
            Verdict::Answer(choice, key) => {
                let Ok(nonce) = proof::random() else {
                    return Break(Look::Gone);
                };
                let answer = self.host.answer(choice, &key, nonce);
                if self.say(&answer) {
                    Continue(self)
                } else {
                    Break(Look::Gone)
                }
            }
            Verdict::Later => Break(Look::Stay(self)),
            Verdict::Refuse(words) => Break(self.refuse(&words)),
            Verdict::Drop => Break(Look::Gone),
        }
    }

    /// A new connection has room for what the door says; a part of it would be as bad as none.
    fn say(&mut self, words: &[u8]) -> bool {
        matches!(self.stream.write(words), Ok(count) if count == words.len())
    }

    fn refuse(mut self, words: &[u8]) -> Look<S> {
        let mut room = [0; 1024];
        for _ in 0..MOST_DRAINED / room.len() {
            if !matches!(self.stream.read(&mut room), Ok(1..)) {
                break;
            }
        }
        // The offender may be gone already; then nobody misses the sentence.
        self.say(words);
        Look::Gone
    }
}

#[cfg(test)]
#[path = "door_tests.rs"]
mod tests;
