//! One socket that carries frames, both ways, without ever blocking.

use super::frame::{Frame, HEADER_BYTES};
use super::net;
use super::stream::Stream;
use crate::base::clock::now;
use crate::trust::proof::Session;
use crate::trust::seal::{SEAL_BYTES, Seal};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::net::Shutdown;
use std::time::Duration;

/// A body is received in pieces of this size, so that a false length reserves no memory.
const PIECE: usize = 1 << 20;

/// Result of a look at a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A whole frame.
    Frame(Frame),
    /// Nothing more for now.
    Nothing,
    /// The other side has closed, or the connection broke; with the system's words.
    Closed(String),
    /// The other side speaks something else.
    Garbage,
}

/// Bytes that are read ahead.
const AHEAD: usize = 16 << 10;
/// Frames that are sent by one system call.
const TOGETHER: usize = 64;

/// Input of a link.
struct Input {
    stream: Stream,
    /// Bytes that were read ahead, and how many of them were taken.
    ahead: Vec<u8>,
    taken: usize,
}

impl Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ahead.len() {
            if self.ahead.capacity() == 0 || into.len() >= AHEAD {
                return (&self.stream).read(into);
            }
            self.taken = 0;
            self.ahead.resize(AHEAD, 0);
            let result = (&self.stream).read(&mut self.ahead);
            self.ahead.truncate(*result.as_ref().unwrap_or(&0));
            result?;
        }
        let count = (&self.ahead[self.taken..]).read(into)?;
        self.taken += count;
        Ok(count)
    }
}

/// A socket with a frame being received and frames to be sent.
pub struct RankLink {
    input: Input,
    header: [u8; HEADER_BYTES],
    header_have: usize,
    frame: Option<(Frame, usize)>,
    outbox: VecDeque<Vec<u8>>,
    sent: usize,
    /// For what goes out and what comes in; none before the proof.
    seals: Option<(Seal, Seal)>,
}

/// Which end of a link this is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It connected.
    Caller,
    /// It listened.
    Host,
}

impl RankLink {
    /// Takes a stream that [`net::prepare`] has seen.
    pub fn new(stream: Stream) -> RankLink {
        RankLink {
            input: Input {
                stream,
                ahead: Vec::new(),
                taken: 0,
            },
            header: [0; HEADER_BYTES],
            header_have: 0,
            frame: None,
            outbox: VecDeque::new(),
            sent: 0,
            seals: None,
        }
    }

    /// A link whose two ends have proven themselves: what it carries is sealed.
    pub fn sealed(stream: Stream, session: &Session, side: Side) -> RankLink {
        let (to_host, to_caller) = (Seal::new(&session.to_host), Seal::new(&session.to_caller));
        let mut link = RankLink::new(stream);
        link.seals = Some(match side {
            Side::Caller => (to_host, to_caller),
            Side::Host => (to_caller, to_host),
        });
        link
    }

    /// A link of which these first bytes were read already.
    pub fn begun(stream: Stream, heard: Vec<u8>) -> RankLink {
        let mut link = RankLink::new(stream);
        link.input.ahead = heard;
        link
    }

    /// From now on several frames are read at once: whoever polls must have received until there is
    /// nothing more.
    pub fn read_ahead(&mut self) {
        self.input.ahead.reserve_exact(AHEAD);
    }

    /// The entry for a poll set.
    pub fn watch(&self) -> libc::pollfd {
        net::watch(&self.input.stream, !self.outbox.is_empty())
    }

    /// Queues an encoded frame; [`RankLink::flush`] sends it.
    pub fn push(&mut self, frame: Vec<u8>) {
        let frame = match &mut self.seals {
            Some((out, _)) => out.close(frame, HEADER_BYTES),
            None => frame,
        };
        self.outbox.push_back(frame);
    }

    /// Whether everything queued is with the kernel.
    pub fn is_flushed(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Sends what the kernel takes now.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            let frames = self.outbox.iter().take(TOGETHER);
            let mut frames: Vec<IoSlice> = frames.map(|frame| IoSlice::new(frame)).collect();
            frames[0].advance(self.sent);
            match self.input.stream.send(&frames) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            while let Some(first) = self.outbox.front()
                && self.sent >= first.len()
            {
                self.sent -= first.len();
                self.outbox.pop_front();
            }
        }
        Ok(())
    }

    /// Sends what is queued, but waits no longer than `limit`; whether all went out.
    pub fn flush_within(&mut self, limit: Duration) -> bool {
        let start = now();
        while self.flush().is_ok() {
            if self.is_flushed() {
                return true;
            }
            if start.past(limit) {
                break;
            }
            // Only room to write ends this wait; a peer that talks all the time must not spin it.
            let mut entry = self.watch();
            entry.events = libc::POLLOUT;
            if net::poll(&mut [entry], Some(net::left(start, limit))).is_err() {
                break;
            }
        }
        false
    }

    /// Waits until the other side has closed, but no longer than `limit`. What it says is dropped.
    pub fn await_end(&mut self, limit: Duration) {
        let start = now();
        while !start.past(limit) {
            match self.receive() {
                Seen::Frame(_) => {}
                Seen::Closed(_) | Seen::Garbage => return,
                Seen::Nothing => {
                    let mut entry = self.watch();
                    entry.events = libc::POLLIN;
                    if net::poll(&mut [entry], Some(net::left(start, limit))).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Says farewell to the kernel: what is queued there still reaches the other side.
    pub fn close_write(&self) {
        // It fails only if the other side has closed already, which is as good.
        let _ = self.input.stream.shutdown(Shutdown::Write);
    }

    /// Receives at most one frame; never reads beyond its end, unless it reads ahead.
    pub fn receive(&mut self) -> Seen {
        loop {
            if self.frame.is_none() {
                match self.input.read(&mut self.header[self.header_have..]) {
                    Ok(0) => return Seen::Closed(self.closed_words()),
                    Ok(count) => self.header_have += count,
                    Err(error) => match self.stopped(error) {
                        Some(seen) => return seen,
                        None => continue,
                    },
                }
                if self.header_have < HEADER_BYTES {
                    continue;
                }
                let sealed = if self.seals.is_some() { SEAL_BYTES } else { 0 };
                match Frame::decode_header(&self.header) {
                    Some((frame, length)) => self.frame = Some((frame, length + sealed)),
                    None => return Seen::Garbage,
                }
            }
            if let Some(seen) = self.receive_body() {
                return seen;
            }
        }
    }

    fn receive_body(&mut self) -> Option<Seen> {
        let (frame, length) = self.frame.as_mut()?;
        let have = frame.body.len();
        if have < *length {
            frame.body.resize((have + PIECE).min(*length), 0);
            let result = self.input.read(&mut frame.body[have..]);
            frame
                .body
                .truncate(have + result.as_ref().map_or(0, |&count| count));
            return match result {
                Ok(0) => Some(Seen::Closed(self.closed_words())),
                Ok(_) => None,
                Err(error) => self.stopped(error),
            };
        }
        self.header_have = 0;
        let (mut frame, _) = self.frame.take()?;
        if let Some((_, seal)) = &mut self.seals {
            match seal.open(&self.header, frame.body) {
                Some(body) => frame.body = body,
                None => return Some(Seen::Garbage),
            }
        }
        Some(Seen::Frame(frame))
    }

    fn closed_words(&self) -> String {
        match self.header_have {
            0 => "it closed the connection".into(),
            _ => "the connection ended in the middle of a message".into(),
        }
    }

    /// Meaning of a failed read; `None`: read again.
    fn stopped(&self, error: io::Error) -> Option<Seen> {
        match error.kind() {
            io::ErrorKind::WouldBlock => Some(Seen::Nothing),
            io::ErrorKind::Interrupted => None,
            _ => Some(Seen::Closed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quiet::tests::signals_of;
    use crate::bootstrap::frame::FrameKind;
    use std::io::Write;
    use std::net::TcpStream;

    fn pair() -> (TcpStream, RankLink) {
        let (listener, address) = net::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let raw = TcpStream::connect(address).unwrap();
        net::poll(&mut [net::watch(&listener, false)], None).unwrap();
        let stream = listener.accept().unwrap().0;
        net::prepare(&stream).unwrap();
        (raw, RankLink::new(stream))
    }

    fn wait(link: &mut RankLink) -> Seen {
        loop {
            match link.receive() {
                Seen::Nothing => net::poll(&mut [link.watch()], None).unwrap(),
                seen => return seen,
            }
        }
    }

    #[test]
    fn frames_survive_any_cutting() {
        let (mut raw, mut link) = pair();
        raw.set_nodelay(true).unwrap();
        let frame = |n: u8| Frame::control(FrameKind::Notice, vec![n; usize::from(n) * 9]);
        let bytes: Vec<u8> = (0..4).flat_map(|n| frame(n).encode()).collect();
        let writer = std::thread::spawn(move || {
            for piece in bytes.chunks(5) {
                raw.write_all(piece).unwrap();
            }
        });
        for n in 0..4 {
            assert_eq!(wait(&mut link), Seen::Frame(frame(n)));
            if n == 1 {
                link.read_ahead();
            }
        }
        writer.join().unwrap();
        assert!(matches!(wait(&mut link), Seen::Closed(_)));
    }

    /// Frames of every length, more than go out or come in at once, in one go.
    #[test]
    fn many_frames_pass_together() {
        let (raw, mut link) = pair();
        let raw = Stream::new(raw).unwrap();
        net::prepare(&raw).unwrap();
        let mut sender = RankLink::new(raw);
        link.read_ahead();
        let frame = |n: usize| Frame::control(FrameKind::Notice, vec![n as u8; n * 37 % 9000]);
        let frames = 500;
        (0..frames).for_each(|n| sender.push(frame(n).encode()));
        for n in 0..frames {
            let seen = loop {
                sender.flush().unwrap();
                match link.receive() {
                    Seen::Nothing => std::thread::yield_now(),
                    seen => break seen,
                }
            };
            assert_eq!(seen, Seen::Frame(frame(n)));
        }
        assert!(sender.is_flushed());
        assert_eq!(link.receive(), Seen::Nothing);
    }

    #[test]
    fn a_cut_message_and_garbage_are_told_apart() {
        let (mut raw, mut link) = pair();
        raw.write_all(&Frame::control(FrameKind::Notice, vec![1; 99]).encode()[..50])
            .unwrap();
        drop(raw);
        assert_eq!(
            wait(&mut link),
            Seen::Closed("the connection ended in the middle of a message".into())
        );
        let (mut raw, mut link) = pair();
        raw.write_all(&[b'x'; 64]).unwrap();
        assert_eq!(wait(&mut link), Seen::Garbage);
    }

    /// A peer that ends with words of ours unread: what is said to it afterwards is an error, and
    /// no signal that would end the program.
    #[test]
    fn words_to_a_lost_peer_raise_no_signal() {
        let (raw, mut link) = pair();
        link.push(vec![1; 100]);
        link.flush().unwrap();
        while raw.peek(&mut [0; 100]).unwrap() < 100 {}
        drop(raw);
        assert!(matches!(wait(&mut link), Seen::Closed(_)));
        let seen = signals_of(|| {
            link.push(vec![2; 100]);
            let error = link.flush().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
        });
        assert_eq!(seen, 0);
    }

    #[test]
    fn a_full_pipe_does_not_block() {
        let (_raw, mut link) = pair();
        link.push(vec![0; 64 << 20]);
        link.flush().unwrap();
        assert!(!link.is_flushed());
        let start = now();
        assert!(!link.flush_within(Duration::from_millis(50)));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
