//! The TCP connection beside the network: first the two ends meet on it, then it tells them what
//! the network cannot: that the other end closed, failed, or is no more.
//!
//! A queue pair that only receives, for one, never learns that its sender was killed. Its system
//! closes the TCP connection at once, and keepalive finds out when the node itself is gone.

use kolo::base::{Code, Error, quiet};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

/// Longest text of a note.
const NOTE_BYTES: usize = 2000;
/// Numbers of messages are told modulo this, as three bytes.
const MESSAGES_WRAP: u64 = 1 << 24;
const BYE: u8 = 1;
const NOTE: u8 = 2;

/// Last words of the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It closed in good order, after so many messages (modulo 2 to the power 24).
    Bye(u64),
    /// It failed, and says why.
    Note(Code, String),
    /// Its process or node is gone.
    Gone(String),
}

impl Ending {
    /// Returns what it means for an end whose peer is called so.
    pub fn error(self, peer: &str) -> Error {
        match self {
            Ending::Bye(_) => Error::new(
                Code::RemoteError,
                format!("{peer} has closed the connection"),
                "let both ends send and receive the same number of messages before they close",
            ),
            Ending::Note(code, text) => Error::new(
                code,
                format!("{peer} has failed: {text}"),
                "look at the output of that process",
            ),
            Ending::Gone(why) => Error::new(
                Code::RemoteError,
                format!("the connection to {peer} is lost: {why}"),
                "look at the output of that process, and at its node, for why it ended",
            ),
        }
    }
}

/// A socket that never blocks, with what was read ahead and what is still to be written.
pub struct Line {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Sets what every socket of a connection has.
pub fn prepare(stream: &TcpStream, link_timeout: Option<Duration>) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    if let Some(limit) = link_timeout {
        // A silent node is asked after a third of the time, and then every ninth of it.
        let third = (limit / 3).max(Duration::from_secs(1));
        let keepalive = TcpKeepalive::new()
            .with_time(third)
            .with_interval((third / 3).max(Duration::from_secs(1)))
            .with_retries(6);
        let socket = SockRef::from(stream);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(limit.max(Duration::from_secs(1))))?;
    }
    Ok(())
}

impl Line {
    /// Takes a socket that [`prepare`] has seen.
    pub fn new(stream: TcpStream) -> Line {
        Line {
            stream,
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Adds bytes to what is to be written.
    pub fn put(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Writes as much as goes; true when nothing is left.
    pub fn write_on(&mut self) -> io::Result<bool> {
        while !self.output.is_empty() {
            match quiet::send(self.stream.as_fd(), &[IoSlice::new(&self.output)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads until `count` bytes are there; the bytes, once, or `None`: not yet.
    pub fn take(&mut self, count: usize) -> io::Result<Option<Vec<u8>>> {
        while self.input.len() < count {
            if self.read_some(count - self.input.len())? == 0 {
                return Ok(None);
            }
        }
        Ok(Some(self.input.drain(..count).collect()))
    }

    /// Reads what is there; 0: nothing yet. The end of the stream is an error.
    fn read_some(&mut self, most: usize) -> io::Result<usize> {
        let mut room = [0; 512];
        let most = most.min(room.len());
        loop {
            match self.stream.read(&mut room[..most]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&room[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks for the last words of the other end. It takes one system call while there are none.
    pub fn look(&mut self) -> Option<Ending> {
        loop {
            if let Some(ending) = parse(&self.input) {
                return Some(ending);
            }
            match self.read_some(512) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Some(Ending::Gone("its process ended".into()));
                }
                Err(error) => return Some(Ending::Gone(error.to_string())),
            }
        }
    }

    /// Says that this end closes in good order, after so many messages in all. Few bytes, which fit
    /// into the socket's room; a peer that is gone does not need them.
    pub fn say_bye(&mut self, messages: u64) {
        let count = ((messages % MESSAGES_WRAP) as u32).to_le_bytes();
        self.put(&[BYE, count[0], count[1], count[2]]);
        drop(self.write_on());
    }

    /// Says why this end failed.
    pub fn say_error(&mut self, error: &Error) {
        let text = format!("{}. {}", error.what, error.remedy);
        let text = &text.as_bytes()[..text.len().min(NOTE_BYTES)];
        let length = (text.len() as u16).to_le_bytes();
        self.put(&[NOTE, error.code as i32 as u8, length[0], length[1]]);
        self.put(text);
        drop(self.write_on());
    }
}

fn parse(input: &[u8]) -> Option<Ending> {
    let (head, rest) = input.split_first_chunk::<4>()?;
    let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
    match head[0] {
        BYE => Some(Ending::Bye(
            u32::from_le_bytes([head[1], head[2], head[3], 0]).into(),
        )),
        NOTE if length <= NOTE_BYTES => {
            let text = rest.get(..length)?;
            let code = Code::from_number(head[1].into()).unwrap_or(Code::RemoteError);
            Some(Ending::Note(
                code,
                String::from_utf8_lossy(text).into_owned(),
            ))
        }
        _ => Some(Ending::Gone("it sent what is no message".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Line, Line) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, _) = listener.accept().unwrap();
        let line = |stream: TcpStream| {
            prepare(&stream, Some(Duration::from_secs(3))).unwrap();
            Line::new(stream)
        };
        (line(here), line(there))
    }

    fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..10_000 {
            if let Some(seen) = look() {
                return seen;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing was heard");
    }

    #[test]
    fn bytes_come_in_pieces() {
        let (mut a, mut b) = pair();
        assert_eq!(b.take(3).unwrap(), None);
        a.put(b"ab");
        assert!(a.write_on().unwrap());
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(b.take(3).unwrap(), None);
        a.put(b"cd");
        assert!(a.write_on().unwrap());
        assert_eq!(wait(|| b.take(3).unwrap()), b"abc");
        assert_eq!(wait(|| b.take(1).unwrap()), b"d");
    }

    #[test]
    fn endings_are_told_apart() {
        let (mut a, mut b) = pair();
        assert_eq!(b.look(), None);
        a.say_bye((7 << 24) + 0x03_02_01);
        assert_eq!(wait(|| b.look()), Ending::Bye(0x03_02_01));
        let (mut a, mut b) = pair();
        a.say_error(&Error::usage("too large", "send less"));
        let said = wait(|| b.look());
        assert_eq!(
            said,
            Ending::Note(Code::InvalidUsage, "too large. send less".into())
        );
        let (a, mut b) = pair();
        drop(a);
        assert!(matches!(wait(|| b.look()), Ending::Gone(why) if why.contains("ended")));
        let (mut a, mut b) = pair();
        a.put(b"GET / HTTP/1.1");
        assert!(a.write_on().unwrap());
        assert!(matches!(wait(|| b.look()), Ending::Gone(_)));
    }
}
