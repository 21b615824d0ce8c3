//! The receiving end before connections exist: a TCP port that takes greetings.
//!
//! A stranger is whoever does not send the handle's secret: it is dropped, and nothing else
//! happens. A sender that is slow to greet is not a stranger, so silent sockets are kept, the
//! newest [`PENDING`] of them; a sender that was pushed out tries again.

use crate::abi::HANDLE_BYTES;
use crate::base::{Error, Result};
use crate::handle::{Handle, Secret};
use crate::hello::{HELLO_BYTES, Hello, refusal};
use crate::line::{self, Line};
use crate::network::Network;
use crate::recv::Receiver;
use crate::report;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;

/// Most sockets that have not become connections.
const PENDING: usize = 128;

/// What a sender says when it is ready.
pub const READY: u8 = b'R';

/// The receiving end on a port.
pub struct Listener {
    network: Arc<Network>,
    port: usize,
    traffic_class: u8,
    socket: TcpListener,
    secret: Secret,
    pending: VecDeque<Pending>,
}

struct Pending {
    line: Line,
    /// Made when the greeting has come.
    receiver: Option<Receiver>,
}

enum Step {
    NotYet,
    Stranger,
    Connected,
}

impl Listener {
    /// Listens on a port's behalf, and gives the handle.
    pub fn new(
        network: &Arc<Network>,
        port: usize,
        traffic_class: u8,
    ) -> Result<(Listener, [u8; HANDLE_BYTES])> {
        let failed = |error: std::io::Error| {
            let doing = format!("cannot listen on {}", network.interface.name);
            Error::system(
                doing,
                &error,
                "check KOLO_SOCKET_IFNAME, and the limit of open files",
            )
        };
        let socket = TcpListener::bind(network.interface.socket_address(0)).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        let handle = Handle { address, secret }.write();
        let listener = Listener {
            network: network.clone(),
            port,
            traffic_class,
            socket,
            secret,
            pending: VecDeque::new(),
        };
        Ok((listener, handle))
    }

    /// The next connection, or `None`: not yet.
    pub fn accept(&mut self) -> Result<Option<Receiver>> {
        self.take_sockets()?;
        let mut index = 0;
        while index < self.pending.len() {
            match self.step(index) {
                Ok(Step::NotYet) => index += 1,
                Ok(Step::Connected) => {
                    let pending = self.pending.remove(index);
                    if let Some((mut receiver, line)) =
                        pending.and_then(|pending| Some((pending.receiver?, pending.line)))
                    {
                        receiver.ends.line = Some(line);
                        return Ok(Some(receiver));
                    }
                }
                Ok(Step::Stranger) => drop(self.pending.remove(index)),
                Err(error) => {
                    // The sender hears it; whoever listens goes on with the others.
                    report::warn(&format!("NET/verbs: {}. {}", error.what, error.remedy));
                    if let Some(mut pending) = self.pending.remove(index) {
                        pending.line.put(&refusal(&error));
                        drop(pending.line.write_on());
                    }
                }
            }
        }
        Ok(None)
    }

    fn take_sockets(&mut self) -> Result<()> {
        // Bounded, so that a flood of strangers cannot keep this call for ever.
        for _ in 0..PENDING {
            match self.socket.accept() {
                Ok((stream, _)) => {
                    if line::prepare(&stream, self.network.settings.link_timeout).is_ok() {
                        self.pending.push_back(Pending {
                            line: Line::new(stream),
                            receiver: None,
                        });
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => {
                        return Err(Error::system(
                            "cannot accept a connection",
                            &error,
                            "raise the limit of open files (`ulimit -n`)",
                        ));
                    }
                },
            }
        }
        while self.pending.len() > PENDING {
            // A greeted connection is no stranger.
            let silent = self
                .pending
                .iter()
                .position(|pending| pending.receiver.is_none());
            self.pending.remove(silent.unwrap_or(0));
        }
        Ok(())
    }

    fn step(&mut self, index: usize) -> Result<Step> {
        let pending = &mut self.pending[index];
        if pending.receiver.is_none() {
            let Ok(taken) = pending.line.take(HELLO_BYTES) else {
                return Ok(Step::Stranger);
            };
            let Some(bytes) = taken else {
                return Ok(Step::NotYet);
            };
            let greeting = <[u8; HELLO_BYTES]>::try_from(bytes.as_slice());
            let Ok(Ok(Some(hello))) = greeting.map(|bytes| Hello::read(&bytes)) else {
                return Ok(Step::Stranger);
            };
            if !same(&hello.secret, &self.secret) {
                return Ok(Step::Stranger);
            }
            let mut receiver = Receiver::new(&self.network, self.port, &hello)?;
            let gid = receiver.ends.gid()?;
            receiver.ends.connect(&hello, &gid, self.traffic_class)?;
            let answer = receiver.ends.hello(&gid, self.secret, receiver.area());
            pending.line.put(&answer.write());
            pending.receiver = Some(receiver);
        }
        let written = pending.line.write_on();
        match written.and_then(|written| {
            if written {
                pending.line.take(1)
            } else {
                Ok(None)
            }
        }) {
            Ok(None) => Ok(Step::NotYet),
            Ok(Some(byte)) if byte == [READY] => Ok(Step::Connected),
            // The sender gave up meanwhile.
            _ => Ok(Step::Stranger),
        }
    }
}

/// Compares without telling by the time how much was right.
fn same(a: &Secret, b: &Secret) -> bool {
    a.iter()
        .zip(b)
        .fold(0, |different, (a, b)| different | (a ^ b))
        == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_compared_whole() {
        let secret = [7; 16];
        assert!(same(&secret, &secret));
        for at in [0, 15] {
            let mut other = secret;
            other[at] ^= 0x80;
            assert!(!same(&secret, &other));
        }
    }
}
