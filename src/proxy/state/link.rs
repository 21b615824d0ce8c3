//! One connection with another process.

use super::super::frame::{Frame, ServiceKind};
use super::super::socket::{self, Address};
use crate::base::Rank;
use crate::base::clock::{self, Moment};
use crate::transport::fork::Fd;
use crate::transport::segment::Nonce;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;

pub struct ProcessLink {
    pub fd: Fd,
    /// Set when this process opened the link.
    pub(super) address: Option<Address>,
    pub(super) pid: u32,
    pub(super) known: bool,
    pub(super) opened: Moment,
    pub(super) uses: HashMap<Nonce, BTreeSet<Rank>>,
    /// Messages that the socket had no room for: the process may be stopped, and is alive. Each
    /// belongs to a communicator that was created or destroyed meanwhile, or to slots that it is to
    /// send; of what can be said without end, an alarm, one waits.
    pub(super) out: VecDeque<Frame>,
    /// The other side said that its process is exiting, with this status.
    pub(super) leaving: Option<i32>,
    /// No longer needed: goes when `out` is empty.
    pub(super) closing: bool,
}

/// Why a link ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Garbage,
}

impl End {
    /// Fate of the process at the other side, which may have said with which status it exits.
    pub(super) fn fate(self, leaving: Option<i32>) -> Cow<'static, str> {
        match (self, leaving) {
            (End::Garbage, _) => {
                "sent a message that this version of kolo does not understand".into()
            }
            (End::Closed, Some(0)) => {
                "ended without koloCommDestroy, in the middle of something".into()
            }
            (End::Closed, Some(status)) => {
                format!("ended without koloCommDestroy, with status {status}").into()
            }
            (End::Closed, None) => "ended (it was killed or crashed)".into(),
        }
    }
}

/// Whether the other side does not exist any more.
fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::EPIPE, libc::ECONNRESET, libc::ENOTCONN];
    error.raw_os_error().is_some_and(|it| gone.contains(&it))
}

impl ProcessLink {
    pub fn new(fd: Fd, address: Option<Address>, pid: u32) -> ProcessLink {
        ProcessLink {
            fd,
            address,
            pid,
            known: address.is_some(),
            opened: clock::now(),
            uses: HashMap::new(),
            out: VecDeque::new(),
            leaving: None,
            closing: false,
        }
    }

    /// Sends now if possible, else when the socket has room again.
    pub fn post(&mut self, frame: Frame) {
        if self.out.is_empty() {
            // Where the other side is gone, the service thread will find the end of the link.
            match socket::send(&self.fd, &frame, None) {
                Ok(()) => return,
                Err(error) if is_gone(&error) => return,
                Err(_) => {}
            }
        }
        if frame.kind != ServiceKind::Alarm || !self.out.iter().rev().any(|it| *it == frame) {
            self.out.push_back(frame);
        }
    }

    /// Sends what waits, as far as the socket has room.
    pub fn flush(&mut self) {
        while let Some(frame) = self.out.front() {
            match socket::send(&self.fd, frame, None) {
                Ok(()) => drop(self.out.pop_front()),
                Err(error) if is_gone(&error) => self.out.clear(),
                // No room in the socket, or no memory in the system at the moment.
                Err(_) => return,
            }
        }
    }

    /// The events to poll for.
    pub fn events(&self) -> libc::c_short {
        if self.out.is_empty() {
            libc::POLLIN
        } else {
            libc::POLLIN | libc::POLLOUT
        }
    }

    /// When a stranger came.
    pub fn stranger_since(&self) -> Option<Moment> {
        (!self.known).then_some(self.opened)
    }
}
