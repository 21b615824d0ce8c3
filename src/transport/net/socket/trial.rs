//! Whether addresses of nodes reach each other, tried while a communicator is made.
//!
//! Tables say what should work; firewalls, dead switches and equal names of different networks say
//! otherwise. A trial is a connection that the systems of both nodes make by themselves: it needs
//! nobody at the other end but an open port, so it ends in a moment where there is a way, however
//! busy the processes are.

use super::stream::Stream;
use crate::base::clock::now;
use crate::base::interfaces::ways::FaceTable;
use crate::base::{tcp, turns};
use crate::transport::net::sleep_on;
use socket2::{Domain, Socket};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Trials that are under way at a time.
const AT_A_TIME: usize = 256;
/// Callers that the system lets wait at a port.
const BACKLOG: i32 = 4096;
/// The longest sleep between two looks.
const NAP: Duration = Duration::from_millis(50);

/// Ports where the system answers callers, for as long as this lives.
pub struct Targets(Vec<Socket>);

impl Targets {
    /// Opens a port on every address of a table, and writes it there. Where that is impossible (an
    /// address of IPv6 that is new), nobody else could, and the address is taken out.
    pub fn open(table: &mut FaceTable) -> Targets {
        let mut sockets = Vec::new();
        for card in &mut table.cards {
            card.places.retain_mut(|place| {
                let opened = listen(place.own()).ok();
                opened.is_some_and(|(socket, port)| {
                    sockets.push(socket);
                    place.port = port;
                    true
                })
            });
        }
        table.cards.retain(|card| !card.places.is_empty());
        Targets(sockets)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

fn listen(address: SocketAddr) -> io::Result<(Socket, u16)> {
    let socket = tcp::socket(Domain::for_address(address))?;
    let bound = tcp::listen(&socket, address, BACKLOG)?;
    Ok((socket, bound.port()))
}

/// Tries connections from local addresses to others, side by side, for at most `limit`: why each
/// did not come about, or `None` where it did.
pub fn try_all(ways: &[(SocketAddr, SocketAddr)], limit: Duration) -> Vec<Option<String>> {
    ways.chunks(AT_A_TIME)
        .flat_map(|part| try_some(part, limit))
        .collect()
}

fn try_some(ways: &[(SocketAddr, SocketAddr)], limit: Duration) -> Vec<Option<String>> {
    let begun = now();
    let dial = |&(local, peer): &(SocketAddr, SocketAddr)| Stream::dial(local, peer, None);
    let mut dialled: Vec<io::Result<Stream>> = ways.iter().map(dial).collect();
    let mut done = vec![false; ways.len()];
    loop {
        // The last look is behind the limit: what has come by then counts.
        let is_last = begun.past(limit);
        let mut set = Vec::new();
        for (one, done) in dialled
            .iter_mut()
            .zip(&mut done)
            .filter(|(_, done)| !**done)
        {
            let outcome = one.as_ref().map(Stream::connected);
            match outcome {
                Ok(Ok(false)) if is_last => *one = Err(io::ErrorKind::TimedOut.into()),
                Ok(Ok(false)) => set.extend(one.as_ref().map(|stream| stream.watch(true))),
                Ok(Ok(true)) => *done = true,
                Ok(Err(error)) => *one = Err(error),
                Err(_) => *done = true,
            }
        }
        if set.is_empty() {
            break;
        }
        sleep_on(&mut set, NAP.min(turns::some_rest()));
    }
    dialled
        .into_iter()
        .map(|one| one.err().map(words))
        .collect()
}

fn words(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "it does not answer".into(),
        io::ErrorKind::ConnectionRefused => "it refuses, though somebody listens".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::interfaces::class::FaceClass;
    use crate::base::interfaces::face::FaceAddress;
    use crate::base::interfaces::ways::FaceCard;

    #[test]
    fn the_system_answers_where_a_target_is_and_nowhere_else() {
        let place = FaceAddress {
            ip: [127, 0, 0, 1].into(),
            prefix: 8,
            scope: 0,
            port: 0,
        };
        let nowhere = FaceAddress {
            ip: [203, 0, 113, 77].into(),
            ..place
        };
        let card = FaceCard {
            name: "lo".into(),
            class: FaceClass::Loopback,
            places: vec![place, nowhere],
        };
        let mut table = FaceTable {
            cards: vec![card],
            ..FaceTable::default()
        };
        let targets = Targets::open(&mut table);
        assert_eq!(targets.count(), 1);
        let [open] = table.cards[0].places[..] else {
            panic!("one place that can be opened");
        };
        let way = |place: &FaceAddress, port: u16| (place.own(), SocketAddr::new(open.ip, port));
        let tried = [way(&open, open.port), way(&nowhere, open.port)];
        let limit = Duration::from_secs(20);
        let found = try_all(&tried, limit);
        assert!(found[0].is_none() && found[1].is_some(), "{found:?}");
        drop(targets);
        assert!(try_all(&tried[..1], limit)[0].is_some());
    }
}
