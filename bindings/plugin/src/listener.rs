//! The receiving end before connections exist: a TCP port that takes greetings.
//!
//! A stranger is whoever does not prove that it knows the handle's secret ([`kolo::trust::door`]):
//! it is dropped, and nothing else happens. A sender that is slow is not a stranger, so silent
//! sockets are kept for a while, the newest [`PENDING`] of them; a sender that was pushed out tries
//! again.

use crate::abi::HANDLE_BYTES;
use crate::fabric::{Fabric, Receiving, Side, Signs};
use crate::greeting::{HELLO_BYTES, refusal};
use crate::handle::{self, Handle, KIND, Secret};
use crate::line::{self, Line};
use crate::report;
use kolo::base::descriptors::lifted;
use kolo::base::quiet::Quiet;
use kolo::base::{Error, Result};
use kolo::trust::door::{Door, Keeper, Limits, Verdict};
use kolo::trust::proof;
use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Most sockets that have not become connections.
const PENDING: usize = 128;
/// How long a socket may take to prove itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Byte that a sender sends when it is ready.
pub const READY: u8 = b'R';

/// The receiving end on a device.
pub struct Listener<F: Fabric> {
    fabric: Arc<F>,
    device: usize,
    traffic_class: u8,
    socket: TcpListener,
    porter: Porter,
    door: Door<Quiet<TcpStream>>,
    pending: VecDeque<Pending<F>>,
}

/// Judges hellos: whoever does not have the handle fails at the proof.
struct Porter {
    secret: Secret,
    signs: Signs,
}

impl Keeper for Porter {
    fn judge(&mut self, hello: &proof::Hello) -> Verdict {
        if hello.offers & KIND == 0 || !hello.body.is_empty() {
            return Verdict::Drop;
        }
        Verdict::Answer(KIND, handle::key(&self.secret, &self.signs))
    }

    fn other_version(&mut self, _version: u16) -> Vec<u8> {
        let protocol = &self.signs.protocol;
        [&protocol.magic[..], &protocol.version.to_be_bytes()].concat()
    }
}

struct Pending<F: Fabric> {
    line: Line,
    /// Made when the greeting has come.
    receiver: Option<F::Receiver>,
}

enum Step {
    NotYet,
    Stranger,
    Connected,
}

impl<F: Fabric> Listener<F> {
    /// Listens on a device's behalf, and gives the handle.
    pub fn new(
        fabric: &Arc<F>,
        device: usize,
        traffic_class: u8,
    ) -> Result<(Listener<F>, [u8; HANDLE_BYTES])> {
        let failed = |error: std::io::Error| {
            let doing = format!("cannot listen on {}", fabric.meeting().name);
            Error::system(
                doing,
                &error,
                "check KOLO_SOCKET_IFNAME, and the limit of open files",
            )
        };
        let socket = TcpListener::bind(fabric.meeting().socket_address(0)).and_then(lifted);
        let socket = socket.map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let secret = proof::random()?;
        let handle = Handle { address, secret }.write(&F::SIGNS);
        let listener = Listener {
            fabric: fabric.clone(),
            device,
            traffic_class,
            socket,
            porter: Porter {
                secret,
                signs: F::SIGNS,
            },
            door: Door::new(
                F::SIGNS.protocol,
                Limits {
                    guests: PENDING,
                    patience: PATIENCE,
                    burst: PENDING,
                },
            ),
            pending: VecDeque::new(),
        };
        Ok((listener, handle))
    }

    /// The next connection, or `None`: not yet.
    pub fn accept(&mut self) -> Result<Option<F::Receiver>> {
        self.take_sockets();
        let mut index = 0;
        while index < self.pending.len() {
            match self.step(index) {
                Ok(Step::NotYet) => index += 1,
                Ok(Step::Connected) => {
                    let pending = self.pending.remove(index);
                    if let Some((mut receiver, line)) =
                        pending.and_then(|pending| Some((pending.receiver?, pending.line)))
                    {
                        receiver.keep_line(line);
                        return Ok(Some(receiver));
                    }
                }
                Ok(Step::Stranger) => drop(self.pending.remove(index)),
                Err(error) => {
                    // The sender hears it; whoever listens goes on with the others.
                    report::warn(&format!(
                        "{}: {}. {}",
                        F::SIGNS.log,
                        error.what,
                        error.remedy
                    ));
                    if let Some(mut pending) = self.pending.remove(index) {
                        pending.line.put(&refusal(F::SIGNS.handle, &error));
                        drop(pending.line.write_on());
                    }
                }
            }
        }
        Ok(None)
    }

    fn take_sockets(&mut self) {
        let (socket, limit) = (&self.socket, self.fabric.link_timeout());
        let entries = self.door.serve(&mut self.porter, || {
            let stream = lifted(socket.accept()?.0)?;
            line::prepare(&stream, limit)?;
            Ok(Quiet(stream))
        });
        self.pending
            .extend(entries.into_iter().map(|entry| Pending {
                line: Line::new(entry.stream.0),
                receiver: None,
            }));
        while self.pending.len() > PENDING {
            let silent = self
                .pending
                .iter()
                .position(|pending| pending.receiver.is_none());
            self.pending.remove(silent.unwrap_or(0));
        }
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
            let Ok(bytes) = greeting else {
                return Ok(Step::Stranger);
            };
            let (fabric, class) = (&self.fabric, self.traffic_class);
            let greeted = F::Receiver::greeted(fabric, self.device, class, &bytes)?;
            let Some((receiver, answer)) = greeted else {
                return Ok(Step::Stranger);
            };
            pending.line.put(&answer);
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
