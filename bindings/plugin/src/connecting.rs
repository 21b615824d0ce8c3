//! A connection that is being made, from the sender's side: TCP, proof, greeting, answer, ready.

use crate::fabric::{Fabric, Sending, Side};
use crate::greeting::HELLO_BYTES;
use crate::handle::{self, Handle, KIND};
use crate::line::{self, Line};
use crate::listener::READY;
use kolo::base::clock::{Moment, now};
use kolo::base::descriptors::lifted;
use kolo::base::quiet::Quiet;
use kolo::base::{Code, Error, Result};
use kolo::trust::knock::{Knock, Reply};
use kolo::trust::proof;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// How often a connection is tried again that the other end dropped before it answered.
const TRIES: u32 = 10;

/// Pause before the next try; it doubles.
const PAUSE: Duration = Duration::from_millis(5);

/// A connection that is being made.
pub struct Connecting<F: Fabric> {
    fabric: Arc<F>,
    sender: Box<F::Sender>,
    handle: Handle,
    stage: Stage,
    tries: u32,
    begun: Moment,
}

enum Stage {
    /// TCP connects.
    Reaching(TcpStream),
    /// Both ends prove that they know the secret.
    Knocking(Box<Knock<Quiet<TcpStream>>>),
    /// The greeting is sent, the answer awaited.
    Greeted(Line),
    /// Connected; the last byte is sent.
    Ready(Line),
    /// Waits before the next try.
    Pausing(Moment),
    /// Nothing is left.
    Over,
}

impl<F: Fabric> Connecting<F> {
    /// Begins to connect from a device.
    pub fn new(
        fabric: &Arc<F>,
        device: usize,
        handle: Handle,
        traffic_class: u8,
    ) -> Result<Connecting<F>> {
        let sender = F::Sender::new(fabric, device, traffic_class)?;
        let mut connecting = Connecting {
            fabric: fabric.clone(),
            sender: Box::new(sender),
            handle,
            stage: Stage::Over,
            tries: 0,
            begun: now(),
        };
        connecting.stage = connecting.reach()?;
        Ok(connecting)
    }

    fn reach(&self) -> Result<Stage> {
        let address = self.handle.address;
        let start = || -> io::Result<TcpStream> {
            let domain = Domain::for_address(address);
            let socket = lifted(Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?)?;
            socket.set_nonblocking(true)?;
            match socket.connect(&address.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
                _ => Ok(socket.into()),
            }
        };
        match start() {
            Ok(stream) => Ok(Stage::Reaching(stream)),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn lost(&self, error: &io::Error) -> Error {
        Error::new(
            Code::RemoteError,
            format!(
                "no {} connection to {}, where the receiving end listens: {error}",
                F::SIGNS.what,
                self.handle.address
            ),
            "see whether that process still runs; check firewalls, and KOLO_SOCKET_IFNAME where \
             nodes have several networks",
        )
    }

    /// The sending end, once; `None`: not yet.
    pub fn poll(mut self) -> Result<Progress<F>> {
        loop {
            let before = std::mem::discriminant(&self.stage);
            let stage = std::mem::replace(&mut self.stage, Stage::Over);
            self.stage = match stage {
                Stage::Reaching(stream) => self.reaching(stream)?,
                Stage::Knocking(knock) => self.knocking(*knock)?,
                Stage::Greeted(line) => self.greeted(line)?,
                Stage::Pausing(since) if since.past(PAUSE * (1 << self.tries)) => self.reach()?,
                Stage::Ready(mut line) => match line.write_on() {
                    Ok(true) => {
                        self.sender.keep_line(line);
                        return Ok(Progress::Connected(self.sender));
                    }
                    Ok(false) => Stage::Ready(line),
                    Err(error) => return Err(self.lost(&error)),
                },
                other => other,
            };
            if std::mem::discriminant(&self.stage) == before {
                return Ok(Progress::NotYet(Box::new(self)));
            }
        }
    }

    fn reaching(&mut self, stream: TcpStream) -> Result<Stage> {
        let failed = stream.take_error().unwrap_or_else(Some);
        if let Some(error) = failed {
            return Err(self.lost(&error));
        }
        if stream.peer_addr().is_err() {
            let limit = self.fabric.link_timeout();
            return match limit.filter(|limit| self.begun.past(*limit)) {
                Some(_) => Err(self.lost(&ErrorKind::TimedOut.into())),
                None => Ok(Stage::Reaching(stream)),
            };
        }
        let prepared = line::prepare(&stream, self.fabric.link_timeout());
        if let Err(error) = prepared {
            return Err(self.lost(&error));
        }
        let hello = proof::Hello {
            purpose: 1,
            offers: KIND,
            id: [0; proof::ID_BYTES],
            nonce: proof::random()?,
            body: Vec::new(),
        };
        Ok(Stage::Knocking(Box::new(Knock::new(
            Quiet(stream),
            F::SIGNS.protocol,
            &hello,
        ))))
    }

    fn knocking(&mut self, knock: Knock<Quiet<TcpStream>>) -> Result<Stage> {
        let secret = self.handle.secret;
        let strange =
            match knock.go_on(|kind| (kind == KIND).then(|| handle::key(&secret, &F::SIGNS))) {
                Reply::Wait(knock) => return Ok(Stage::Knocking(Box::new(knock))),
                Reply::In(Quiet(stream), _) => {
                    let mut line = Line::new(stream);
                    line.put(&self.sender.greeting());
                    return Ok(Stage::Greeted(line));
                }
                Reply::Lost(error) => return self.again(&error),
                Reply::Stranger => "it does not know the secret of the handle".to_string(),
                Reply::Foreign(..) => "the answer is not one of this kolo".to_string(),
                Reply::Version(version) => {
                    format!(
                        "it speaks version {version}, this kolo {}",
                        F::SIGNS.protocol.version
                    )
                }
            };
        Err(self.lost(&io::Error::other(strange)))
    }

    /// Pushed out by strangers, perhaps: tries again.
    fn again(&mut self, error: &io::Error) -> Result<Stage> {
        if self.tries >= TRIES {
            return Err(self.lost(error));
        }
        self.tries += 1;
        Ok(Stage::Pausing(now()))
    }

    fn greeted(&mut self, mut line: Line) -> Result<Stage> {
        let taken = match line.write_on().and_then(|written| {
            if written {
                line.take(HELLO_BYTES)
            } else {
                Ok(None)
            }
        }) {
            Ok(None) => return Ok(Stage::Greeted(line)),
            Ok(Some(bytes)) => bytes,
            Err(error) => return self.again(&error),
        };
        let known = match <[u8; HELLO_BYTES]>::try_from(taken.as_slice()) {
            Ok(bytes) => self.sender.answered(&bytes)?,
            Err(_) => false,
        };
        if !known {
            return Err(self.lost(&io::Error::other("the answer is not one of this kolo")));
        }
        line.put(&[READY]);
        Ok(Stage::Ready(line))
    }
}

/// How far it has come.
pub enum Progress<F: Fabric> {
    /// Not there.
    NotYet(Box<Connecting<F>>),
    /// The sending end.
    Connected(Box<F::Sender>),
}
