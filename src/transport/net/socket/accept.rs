//! The receiver's way to a connection: a listening socket that lets in only who has the handle.
//!
//! The port is open to the whole network, so what arrives may be anything. Nothing here waits:
//! sockets that have not proven themselves ([`crate::trust::door`]) and connections of which some
//! sockets are missing (*parties*) are bounded in number and in time, and the oldest makes room for
//! a new one.

use super::super::{Listener, RecvComm};
use super::ends::Ends;
use super::frame::{self, HANDLE, Hello, MOST_SPOTS, PROTOCOL, Secret, Spots, VERSION};
use super::options::{MAX_SOCKETS, SocketOptions};
use super::recv::SocketReceiver;
use super::stream::{Side, Stream};
use crate::base::clock::{Moment, now};
use crate::base::descriptors::lifted;
use crate::base::interfaces::class::FaceClass;
use crate::base::interfaces::face::FaceAddress;
use crate::base::interfaces::ways::FaceCard;
use crate::base::{Error, Result, tcp};
use crate::transport::fork::Fd;
use crate::trust::door::{self, Keeper, Limits, Verdict};
use crate::trust::proof;
use socket2::{Domain, SockAddr, SockRef, Socket};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// The most sockets that have not proven themselves.
pub const MAX_GUESTS: usize = 128;
/// The most connections with missing sockets.
const MAX_PARTIES: usize = 128;
/// How long a guest may take, and a party.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most sockets that one call accepts before it looks at the others.
const BURST: usize = 256;
/// Length of the system's queue of new sockets (it may cap it).
const BACKLOG: i32 = 16_384;

const OPERATION: &str = "accept over sockets";

/// Judges hellos: whoever does not have the handle fails at the proof.
struct Porter(Secret);

impl Keeper for Porter {
    fn judge(&mut self, hello: &proof::Hello) -> Verdict {
        match Hello::decode(hello) {
            Some(hello) if is_possible(&hello) => Verdict::Answer(HANDLE, self.0.key()),
            _ => Verdict::Drop,
        }
    }

    fn other_version(&mut self, _version: u16) -> Vec<u8> {
        frame::encode_welcome(VERSION, 0).to_vec()
    }
}

fn is_possible(hello: &Hello) -> bool {
    (1..=MAX_SOCKETS).contains(&hello.sockets) && hello.socket < hello.sockets
}

/// A connection of which some sockets may be missing.
struct Party {
    connection: u64,
    streams: Vec<Option<Stream>>,
    since: Moment,
}

/// The receiving end before there are connections.
pub struct SocketDoor {
    /// One for each address, with its interface.
    sockets: Vec<(Fd, String)>,
    spots: Spots,
    porter: Porter,
    options: SocketOptions,
    door: door::Door<Stream>,
    parties: VecDeque<Party>,
}

/// Listens at an address, on a port that the system picks.
fn listen(place: &FaceAddress) -> io::Result<(Fd, u16)> {
    let address = place.own();
    let socket = tcp::socket(Domain::for_address(address))?;
    let bound = tcp::listen(&socket, address, BACKLOG)?;
    Ok((Fd::new(OwnedFd::from(socket))?, bound.port()))
}

impl SocketDoor {
    /// Listens on the addresses of interfaces, as many as a handle names: first on one of each.
    /// `about`: what stands for this machine, and whether the user has named the interfaces. An
    /// address that the system does not give yet (one of IPv6 that is new) is left out.
    pub fn open(
        cards: &[&FaceCard],
        about: (u64, bool),
        options: &SocketOptions,
    ) -> Result<SocketDoor> {
        let most = cards.iter().map(|card| card.places.len()).max();
        let nth = |n: usize| {
            let of_card =
                move |card: &&'_ FaceCard| Some((card.places.get(n)?.to_owned(), card.class));
            let named = cards.iter().filter_map(move |card| {
                let (place, class) = of_card(card)?;
                Some((place, class, card.name.clone()))
            });
            named.collect::<Vec<_>>()
        };
        let wanted = (0..most.unwrap_or(0)).flat_map(nth).take(MOST_SPOTS);
        let (mut sockets, mut all, mut failure) = (Vec::new(), Vec::new(), None);
        for (place, class, name) in wanted {
            match listen(&place) {
                Ok((socket, port)) => {
                    sockets.push((socket, name));
                    all.push((class, FaceAddress { port, ..place }));
                }
                Err(error) => failure = Some((place.ip, name, error)),
            }
        }
        if let (true, Some((ip, name, error))) = (sockets.is_empty(), failure) {
            let what = format!("cannot listen on interface {name} ({ip})");
            let remedy = "check the interface with `ip address`, and the limit of open files";
            return Err(Error::system(what, &error, remedy).during(OPERATION));
        }
        let (machine, is_named) = about;
        Ok(SocketDoor {
            sockets,
            spots: Spots {
                machine,
                is_named,
                all,
            },
            porter: Porter(Secret::random()?),
            options: options.clone(),
            door: door::Door::new(
                PROTOCOL,
                Limits {
                    guests: MAX_GUESTS,
                    patience: PATIENCE,
                    burst: BURST,
                },
            ),
            parties: VecDeque::new(),
        })
    }

    /// The handle that senders need.
    pub fn handle(&self) -> Result<super::super::Handle> {
        frame::encode_handle(&self.spots, &self.porter.0)
    }

    /// The interface of a connection that has come in.
    fn interface_of(&self, local: SocketAddr) -> String {
        let is_it =
            |(_, (_, place)): &(&(Fd, String), &(FaceClass, FaceAddress))| place.ip == local.ip();
        let found = self.sockets.iter().zip(&self.spots.all).find(is_it);
        found.map_or_else(String::new, |((_, name), _)| name.clone())
    }

    /// Takes new sockets from the system's queue, and looks at all that have not proven themselves.
    fn admit(&mut self) {
        let (sockets, limit) = (&self.sockets, self.options.link_timeout);
        let entries = self.door.serve(&mut self.porter, || {
            let (socket, _) = accept_any(sockets)?;
            Stream::new(socket, Side::Receiver, limit)
        });
        for entry in entries {
            if let Some(hello) = Hello::decode(&entry.hello) {
                self.join(hello, entry.stream);
            }
        }
    }

    /// Adds a socket to its party.
    fn join(&mut self, hello: Hello, stream: Stream) {
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
    fn begin(&self, connection: u64, streams: Vec<Stream>) -> io::Result<SocketReceiver> {
        let local = streams[0].local_address()?;
        let ends = Ends {
            interface: self.interface_of(local),
            local,
            peer: streams[0].peer_address()?,
        };
        let welcome = frame::encode_welcome(VERSION, connection);
        for stream in &streams {
            if stream.send(&[IoSlice::new(&welcome)])? < welcome.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(SocketReceiver::new(ends, connection, streams))
    }
}

impl Party {
    fn is_whole(&self) -> bool {
        self.streams.iter().all(Option::is_some)
    }
}

/// Accepts at the first address where somebody waits; the last answer where nobody does.
fn accept_any(sockets: &[(Fd, String)]) -> io::Result<(Socket, SockAddr)> {
    let mut answer = Err(io::ErrorKind::WouldBlock.into());
    for (socket, _) in sockets {
        answer = SockRef::from(socket).accept();
        let waits = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if !answer.as_ref().is_err_and(waits) {
            break;
        }
    }
    let (socket, from) = answer?;
    Ok((lifted(socket)?, from))
}

impl Listener for SocketDoor {
    fn accept(&mut self) -> Result<Option<Box<dyn RecvComm>>> {
        self.admit();
        while let Some((connection, streams)) = self.take_party() {
            // A sender that died meanwhile is not waited for; it was told nothing.
            if let Ok(receiver) = self.begin(connection, streams) {
                return Ok(Some(Box::new(receiver)));
            }
        }
        Ok(None)
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        let is_paused = self.door.is_paused();
        if let Some(((first, _), others)) = self.sockets.split_first() {
            self.door.watch(first, set);
            let others = others.iter().filter(|_| !is_paused);
            set.extend(others.map(|(socket, _)| libc::pollfd {
                fd: socket.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            }));
        }
        !is_paused
    }
}
