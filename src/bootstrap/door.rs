//! A listening socket that lets in only those who know the secret.
//!
//! Problem: a port that is open on a cluster's network meets port scanners, health checks and
//! old jobs. None of them may delay a rank, so nothing here ever blocks: all connections that
//! have not shown the secret yet (*guests*) sit in one list, read without waiting, each for a
//! bounded time; the oldest is thrown out when the list is full. Who shows the secret is handed
//! to the owner of the door.

use super::frame::{BadHello, Frame, HELLO_BYTES, HELLO_MAGIC, Hello, Kind, Purpose};
use super::link::Link;
use super::net;
use super::unique_id::Secret;
use crate::base::Error;
use crate::base::clock::{Moment, now};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The most connections that may wait without having shown the secret.
const MAX_GUESTS: usize = 1024;
/// The most connections accepted before the others are looked at again.
const ACCEPT_BURST: usize = 256;
/// How long to accept nobody when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One that may enter.
pub struct Entry {
    pub hello: Hello,
    pub link: Link,
    pub from: SocketAddr,
}

struct Guest {
    stream: TcpStream,
    from: SocketAddr,
    since: Moment,
    bytes: [u8; HELLO_BYTES],
    have: usize,
}

enum Look {
    Stay,
    Gone,
    Whole,
}

/// The listener and its guests.
pub struct Door {
    listener: TcpListener,
    secret: Secret,
    purpose: Purpose,
    hello_limit: Duration,
    guests: VecDeque<Guest>,
    paused: Option<Moment>,
}

impl Door {
    /// A door behind a non-blocking listener.
    pub fn new(
        listener: TcpListener,
        secret: Secret,
        purpose: Purpose,
        hello_limit: Duration,
    ) -> Door {
        Door {
            listener,
            secret,
            purpose,
            hello_limit,
            guests: VecDeque::new(),
            paused: None,
        }
    }

    /// Adds the door's entries to a poll set; how long the poll may sleep for the door's sake.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> Option<Duration> {
        set.extend(
            self.guests
                .iter()
                .map(|guest| net::watch(&guest.stream, false)),
        );
        let pause = self.paused.map(|since| net::left(since, ACCEPT_PAUSE));
        if pause.is_none() {
            set.push(net::watch(&self.listener, false));
        }
        let oldest = self.guests.front();
        let expiry = oldest.map(|guest| net::left(guest.since, self.hello_limit));
        net::sooner(pause, expiry)
    }

    /// Looks at every guest and at the queue of new ones; returns those who may enter.
    pub fn serve(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.accept();
        for _ in 0..self.guests.len() {
            let Some(mut guest) = self.guests.pop_front() else {
                break;
            };
            match guest.look() {
                Look::Stay if !guest.since.past(self.hello_limit) => self.guests.push_back(guest),
                Look::Stay | Look::Gone => {}
                Look::Whole => entries.extend(self.judge(guest)),
            }
        }
        entries
    }

    fn accept(&mut self) {
        if self.paused.is_some_and(|since| !since.past(ACCEPT_PAUSE)) {
            return;
        }
        self.paused = None;
        for _ in 0..ACCEPT_BURST {
            match self.listener.accept() {
                Ok((stream, from)) => self.admit(stream, from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_shortage(&error) => {
                    // A stranger makes room for somebody who may be a rank.
                    if self.guests.pop_front().is_none() {
                        self.paused = Some(now());
                        return;
                    }
                }
                // The connection died in the queue: the next one may be good.
                Err(_) => {}
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, from: SocketAddr) {
        if net::prepare(&stream).is_err() {
            return;
        }
        if self.guests.len() >= MAX_GUESTS {
            self.guests.pop_front();
        }
        self.guests.push_back(Guest {
            stream,
            from,
            since: now(),
            bytes: [0; HELLO_BYTES],
            have: 0,
        });
    }

    fn judge(&self, guest: Guest) -> Option<Entry> {
        let mut link = Link::new(guest.stream);
        match Hello::decode(&guest.bytes, &self.secret, self.purpose) {
            Ok(hello) => Some(Entry {
                hello,
                link,
                from: guest.from,
            }),
            Err(BadHello::Stray) => None,
            Err(BadHello::Refused(error)) => {
                refuse(&mut link, &error);
                None
            }
        }
    }
}

/// Sends a refusal and closes. A new connection always has room for it in the kernel.
pub fn refuse(link: &mut Link, error: &Error) {
    link.push(Frame::error(Kind::Refused, error).encode());
    // The offender may be gone already; then nobody misses the sentence.
    let _ = link.flush();
    link.close_write();
}

impl Guest {
    fn look(&mut self) -> Look {
        while self.have < HELLO_BYTES {
            match (&self.stream).read(&mut self.bytes[self.have..]) {
                Ok(0) => return Look::Gone,
                Ok(count) => self.have += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Look::Stay,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Look::Gone,
            }
            let known = self.have.min(HELLO_MAGIC.len());
            if self.bytes[..known] != HELLO_MAGIC[..known] {
                return Look::Gone;
            }
        }
        Look::Whole
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
