//! The receiver's way to a connection: a listening socket that lets in only who has the handle.
//!
//! The port is open to the whole network, so what arrives may be anything. Nothing here waits:
//! sockets that have not shown a hello yet (*guests*) and connections of which some sockets are
//! missing (*parties*) are bounded in number and in time, and the oldest makes room for a new one.
//! A hello comes in the same breath as its connection, so a real sender is a guest only for the
//! moment between two system calls, however many strangers there are.

use super::super::{Listener, RecvComm};
use super::SocketOptions;
use super::ends::Ends;
use super::frame::{self, HELLO_BYTES, HELLO_MAGIC, Hello, Secret, VERSION};
use super::input::Opening;
use super::recv::Receiver;
use super::stream::{Side, Stream};
use crate::base::clock::{Moment, now};
use crate::base::interfaces::Interface;
use crate::base::{Error, Result};
use crate::transport::fork::Fd;
use socket2::{Domain, SockRef, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// The most sockets without a hello.
pub const MAX_GUESTS: usize = 128;
/// The most connections with missing sockets.
const MAX_PARTIES: usize = 128;
/// How long a guest may take, and a party.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most sockets that one call accepts before it looks at the others.
const BURST: usize = 256;
/// Length of the system's queue of new sockets (it may cap it).
const BACKLOG: i32 = 16_384;
/// The most sockets of one connection.
pub const MAX_SOCKETS: u16 = 64;

const OPERATION: &str = "accept over sockets";

/// A socket that has not shown its hello.
struct Guest {
    stream: Stream,
    hello: Opening<HELLO_BYTES>,
    since: Moment,
}

enum Look {
    Stay,
    Gone,
    Hello(Hello),
}

/// A connection of which some sockets may be missing.
struct Party {
    connection: u64,
    streams: Vec<Option<Stream>>,
    since: Moment,
}

/// The receiving end before there are connections.
pub struct Door {
    socket: Fd,
    interface: Interface,
    address: SocketAddr,
    secret: Secret,
    options: SocketOptions,
    guests: VecDeque<Guest>,
    parties: VecDeque<Party>,
}

impl Door {
    /// Listens on the address of `interface`, on a port that the system picks.
    pub fn open(interface: &Interface, options: &SocketOptions) -> Result<Door> {
        let listen = || -> io::Result<(Socket, SocketAddr)> {
            let address = interface.socket_address(0);
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            let bound = socket.local_addr()?.as_socket();
            Ok((socket, bound.ok_or(io::ErrorKind::InvalidData)?))
        };
        let (socket, address) = listen().map_err(|error| {
            Error::system(
                format!(
                    "cannot listen on interface {} ({})",
                    interface.name, interface.address
                ),
                &error,
                "check the interface with `ip address`, and the limit of open files",
            )
            .during(OPERATION)
        })?;
        Ok(Door {
            socket: Fd::new(OwnedFd::from(socket)),
            interface: interface.clone(),
            address,
            secret: Secret::random()?,
            options: options.clone(),
            guests: VecDeque::new(),
            parties: VecDeque::new(),
        })
    }

    /// The handle that senders need.
    pub fn handle(&self) -> Result<super::super::Handle> {
        frame::encode_handle(self.address, &self.secret)
    }

    /// Takes new sockets from the system's queue.
    fn admit(&mut self) {
        for _ in 0..BURST {
            match SockRef::from(&self.socket).accept() {
                Ok((socket, _)) => {
                    let limit = self.options.link_timeout;
                    // A socket that died in the queue is nobody's loss.
                    if let Ok(stream) = Stream::new(socket, Side::Receiver, limit) {
                        self.welcome_guest(stream);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A stranger makes room for somebody who may be a rank.
                Err(error) if is_shortage(&error) => {
                    if self.guests.pop_front().is_none() {
                        return;
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn welcome_guest(&mut self, stream: Stream) {
        let guest = Guest {
            stream,
            hello: Opening::new(),
            since: now(),
        };
        self.receive(guest);
        if self.guests.len() > MAX_GUESTS {
            self.guests.pop_front();
        }
    }

    /// Looks at a guest and puts it where it belongs.
    fn receive(&mut self, mut guest: Guest) {
        match guest.look(&self.secret) {
            Look::Stay if !guest.since.past(PATIENCE) => self.guests.push_back(guest),
            Look::Stay | Look::Gone => {}
            Look::Hello(hello) => self.join(hello, guest.stream),
        }
    }

    /// Adds a socket to its party.
    fn join(&mut self, hello: Hello, stream: Stream) {
        if hello.version != VERSION {
            let refusal = frame::encode_welcome(VERSION, hello.connection);
            // The sender may be gone; then nobody misses the refusal.
            let _ = stream.send(&[IoSlice::new(&refusal)]);
            return;
        }
        if hello.sockets == 0 || hello.sockets > MAX_SOCKETS || hello.socket >= hello.sockets {
            return;
        }
        let known = |party: &Party| party.connection == hello.connection;
        if !self.parties.iter().any(known) {
            if self.parties.len() >= MAX_PARTIES {
                self.parties.pop_front();
            }
            self.parties.push_back(Party {
                connection: hello.connection,
                streams: (0..hello.sockets).map(|_| None).collect(),
                since: now(),
            });
        }
        let Some(party) = self.parties.iter_mut().find(|party| known(party)) else {
            return;
        };
        let place = party.streams.get_mut(usize::from(hello.socket));
        if let Some(place @ None) = place {
            *place = Some(stream);
        }
    }

    /// The oldest party that is complete.
    fn take_party(&mut self) -> Option<(u64, Vec<Stream>)> {
        self.parties
            .retain(|p| p.is_whole() || !p.since.past(PATIENCE));
        let at = self.parties.iter().position(Party::is_whole)?;
        let party = self.parties.remove(at)?;
        Some((
            party.connection,
            party.streams.into_iter().flatten().collect(),
        ))
    }

    /// Says welcome on every socket; the connection if that worked.
    fn begin(&self, connection: u64, streams: Vec<Stream>) -> io::Result<Receiver> {
        let ends = Ends {
            interface: self.interface.name.clone(),
            local: streams[0].local_address()?,
            peer: streams[0].peer_address()?,
        };
        let welcome = frame::encode_welcome(VERSION, connection);
        for stream in &streams {
            if stream.send(&[IoSlice::new(&welcome)])? < welcome.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(Receiver::new(ends, connection, streams))
    }
}

impl Party {
    fn is_whole(&self) -> bool {
        self.streams.iter().all(Option::is_some)
    }
}

impl Guest {
    fn look(&mut self, secret: &Secret) -> Look {
        match self.hello.read(&self.stream) {
            Ok(Some(bytes)) => Hello::decode(&bytes, secret).map_or(Look::Gone, Look::Hello),
            Ok(None) => {
                let seen = self.hello.bytes();
                let known = seen.len().min(HELLO_MAGIC.len());
                match seen[..known] == HELLO_MAGIC[..known] {
                    true => Look::Stay,
                    false => Look::Gone,
                }
            }
            Err(_) => Look::Gone,
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

impl Listener for Door {
    fn accept(&mut self) -> Result<Option<Box<dyn RecvComm>>> {
        self.admit();
        for _ in 0..self.guests.len() {
            if let Some(guest) = self.guests.pop_front() {
                self.receive(guest);
            }
        }
        while let Some((connection, streams)) = self.take_party() {
            // A sender that died meanwhile is not waited for; it was told nothing.
            if let Ok(receiver) = self.begin(connection, streams) {
                return Ok(Some(Box::new(receiver)));
            }
        }
        Ok(None)
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) {
        set.push(libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        set.extend(self.guests.iter().map(|guest| guest.stream.watch(false)));
    }
}
