//! Questions from outside: what does this process do, and what do the other nodes of its job?
//!
//! **Problem.** Whoever wants to know why a job hangs comes from outside, while all threads of the
//! program are stuck, in kolo or elsewhere.
//!
//! **Idea.** The service thread is never stuck. A process of the same user connects to its socket
//! like any other ([`asking`]), and sends one frame with its question. The connection leaves the
//! service's list then, and goes with the question to whoever answers ([`answer_by`]), who takes a
//! thread of his own for it: the service thread does not wait. Questions about other nodes travel
//! along the lookouts' ring ([`super::lookout`]), and so do the answers.
//!
//! **Trust.** The system says whose process is at the other end, and the service lets no other
//! user in. Between nodes the lookouts' links know the communicator's nonce.

pub mod asking;

use super::frame::{Frame, ServiceKind};
use crate::base::clock;
use crate::base::turns;
use crate::transport::fork::Fd;
use crate::transport::segment::Nonce;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::time::Duration;

/// Inquiry about what is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// About the process that is asked.
    Own,
    /// About all ranks of this communicator, as its boards have them.
    Boards(Nonce),
    /// About the processes of its node that are of the job with this communicator.
    Node(Nonce),
    /// About those of the other nodes, for a process that has a lookout of it.
    Around(Nonce),
}

impl Inquiry {
    fn frame(self) -> Frame {
        let (number, nonce) = match self {
            Inquiry::Own => (0, 0),
            Inquiry::Boards(nonce) => (1, nonce.0),
            Inquiry::Node(nonce) => (2, nonce.0),
            Inquiry::Around(nonce) => (3, nonce.0),
        };
        Frame::new(ServiceKind::Inquire, number, nonce)
    }

    /// The question of a frame.
    pub(super) fn of(frame: &Frame) -> Option<Inquiry> {
        let nonce = Nonce(frame.secret);
        Some(match frame.operation {
            0 => Inquiry::Own,
            1 => Inquiry::Boards(nonce),
            2 => Inquiry::Node(nonce),
            3 => Inquiry::Around(nonce),
            _ => return None,
        })
    }
}

/// Way back to whoever has asked: it takes the answer.
pub type Asker = Box<dyn FnOnce(&[u8]) + Send>;

/// Bytes of one packet of an answer.
const PACKET_BYTES: usize = 32 << 10;
/// How long somebody who has asked may take to read.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// Way back to a process of this machine, for which the end of the connection is the end of the
/// answer. An asker who is gone, or does not read, is not served.
pub(super) fn local(fd: Fd) -> Asker {
    Box::new(move |text| {
        let start = clock::now();
        let mut packets = text.chunks(PACKET_BYTES);
        packets.all(|packet| send(&fd, packet, start.left(READ_LIMIT)));
    })
}

/// Sends a packet within that time; false if that was not possible.
fn send(fd: &Fd, packet: &[u8], limit: Duration) -> bool {
    let start = clock::now();
    loop {
        // SAFETY: the packet is readable for its whole length.
        let sent = unsafe {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            libc::send(fd.as_raw_fd(), packet.as_ptr().cast(), packet.len(), flags)
        };
        if sent >= 0 {
            return true;
        }
        let full = std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock;
        let left = start.left(limit);
        if !full || left.is_zero() {
            return false;
        }
        let entry = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        turns::poll(&mut [entry], Some(left));
    }
}

/// Takes a question. It is called on the service thread and must not wait.
pub type Answerer = fn(Inquiry, Asker);

static ANSWERER: OnceLock<Answerer> = OnceLock::new();

/// From now on this function answers; the first one of a process counts.
pub fn answer_by(answerer: Answerer) {
    ANSWERER.get_or_init(|| answerer);
}

/// A question has come.
pub(super) fn came(question: Inquiry, asker: Asker) {
    if let Some(answerer) = ANSWERER.get() {
        answerer(question, asker);
    }
}

/// Parts of the answer of one node, at most: 48 MiB.
const MOST_PARTS: u32 = 4096;

/// Answers of other nodes to a question of this process.
pub(super) struct RingAnswers {
    /// Its number.
    pub number: u64,
    /// Parts of the answer of each lookout: how many there will be, and those that are there.
    parts: BTreeMap<u32, (u32, Vec<Vec<u8>>)>,
}

impl RingAnswers {
    /// Nothing yet.
    pub fn new(number: u64) -> RingAnswers {
        RingAnswers {
            number,
            parts: BTreeMap::new(),
        }
    }

    /// Takes part `at` of `all` of what `origin` says.
    pub fn take(&mut self, origin: u32, at: u32, all: u32, bytes: Vec<u8>) {
        let (_, parts) = self.parts.entry(origin).or_insert((all, Vec::new()));
        // Each lookout's messages keep their order.
        if at as usize == parts.len() && at < all && all <= MOST_PARTS {
            parts.push(bytes);
        }
    }

    /// Whether the answer of this lookout is whole.
    pub fn is_whole(&self, origin: u32) -> bool {
        let is_whole = |(all, parts): &(u32, Vec<Vec<u8>>)| parts.len() == *all as usize;
        self.parts.get(&origin).is_some_and(is_whole)
    }

    /// Answers that are whole.
    pub fn whole(&self) -> Vec<Vec<u8>> {
        let answers = self.parts.iter().filter(|(rank, _)| self.is_whole(**rank));
        answers.map(|(_, (_, parts))| parts.concat()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_crosses_in_a_frame() {
        let all = [
            Inquiry::Own,
            Inquiry::Boards(Nonce(7)),
            Inquiry::Node(Nonce(u128::MAX - 2)),
            Inquiry::Around(Nonce(9)),
        ];
        for question in all {
            assert_eq!(Inquiry::of(&question.frame()), Some(question));
        }
        let unknown = Frame::new(ServiceKind::Inquire, 4, 0);
        assert_eq!(Inquiry::of(&unknown), None);
    }

    #[test]
    fn answers_in_parts_are_whole_in_order_or_not_at_all() {
        let mut gathered = RingAnswers::new(3);
        gathered.take(5, 0, 2, vec![1]);
        gathered.take(8, 1, 2, vec![9]);
        gathered.take(6, 0, 1, vec![4, 5]);
        assert_eq!(gathered.whole(), [vec![4, 5]]);
        gathered.take(5, 1, 2, vec![2]);
        assert!(gathered.is_whole(5) && !gathered.is_whole(8) && !gathered.is_whole(1));
        assert_eq!(gathered.whole(), [vec![1, 2], vec![4, 5]]);
    }
}
