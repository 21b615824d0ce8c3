//! The caller's side of a proof: says hello, judges the answer, confirms. Never waits.

use super::proof::{Caller, Event, Hello, Key, Preamble, Session};
use std::io::{self, ErrorKind, Read, Write};

/// A connection on which the proof is going on.
pub struct Knock<S> {
    stream: S,
    caller: Caller,
    said: bool,
}

/// How far it has come.
pub enum Reply<S> {
    /// The other end has not answered yet.
    Wait(Knock<S>),
    /// Both ends have proven themselves.
    In(S, Session),
    /// The other end does not have the secret, or chose one that was not offered.
    Stranger,
    /// The other end answers with something else, which began so.
    Foreign(S, Vec<u8>),
    /// The other end speaks this version.
    Version(u16),
    /// The connection ended.
    Lost(io::Error),
}

impl<S: Read + Write> Knock<S> {
    /// On a connection that was just made.
    pub fn new(stream: S, protocol: Preamble, hello: &Hello) -> Knock<S> {
        Knock {
            stream,
            caller: Caller::new(protocol, hello),
            said: false,
        }
    }

    /// The connection.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Goes on; `key` gives the key for the kind of secret that the host chose.
    pub fn go_on(mut self, key: impl FnOnce(u8) -> Option<Key>) -> Reply<S> {
        if !self.said {
            let hello = self.caller.hello();
            match self.stream.write(hello) {
                Ok(count) if count == hello.len() => self.said = true,
                // A new connection has room for a hello; a part of one would be as bad as none.
                Ok(_) => return Reply::Lost(ErrorKind::WriteZero.into()),
                Err(error) => return Reply::Lost(error),
            }
        }
        let mut room = [0; 64];
        loop {
            let most = self.caller.wants().min(room.len());
            let event = match self.stream.read(&mut room[..most]) {
                Ok(0) => return Reply::Lost(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.caller.take(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Reply::Wait(self),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Reply::Lost(error),
            };
            match event {
                Event::Nothing => {}
                Event::Answer(choice) => {
                    let confirmed = key(choice).and_then(|key| self.caller.confirm(&key));
                    let Some((confirm, session)) = confirmed else {
                        return Reply::Stranger;
                    };
                    return match self.stream.write(&confirm) {
                        Ok(count) if count == confirm.len() => Reply::In(self.stream, session),
                        Ok(_) => Reply::Lost(ErrorKind::WriteZero.into()),
                        Err(error) => Reply::Lost(error),
                    };
                }
                Event::Version(version) => return Reply::Version(version),
                _ => {
                    let heard = self.caller.heard().to_vec();
                    return Reply::Foreign(self.stream, heard);
                }
            }
        }
    }
}
