//! Whether the interfaces of nodes reach each other, for `kolo doctor`.
//!
//! Problem: an interface that is up may still reach nobody: a cable, a firewall, a wrong route, a
//! switch that drops large packets. Idea: each node listens on the interfaces that kolo would
//! use, and connects from each of its own to those of others. A connection counts only when data
//! have gone over it and an answer has come back, as a path that drops large packets lets
//! connections open.
//!
//! The listeners keep nothing and believe nothing: they read a fixed number of bytes and answer
//! with one.

use crate::base::descriptors::lifted;
use crate::base::interfaces::Interface;
use crate::base::quiet;
use crate::base::turns;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Bytes that cross a connection: more than the largest packet of any network.
const PAYLOAD: usize = 96 << 10;
/// Connections that are tried at a time.
const AT_A_TIME: usize = 64;
/// Connections that a listener serves; others are closed.
const MOST_SERVED: usize = 65_536;

/// How a connection went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reached {
    /// Data went over it.
    Passed,
    /// Nothing came back: something drops the packets.
    Silent,
    /// It was refused at once, though somebody listens.
    Refused,
    /// The system knows no way there, or nobody answers on the link.
    NoWay(String),
    /// It opened, and data did not get through.
    Stuck,
}

/// An interface and its address where nobody can listen, and why.
pub type Deaf = ((String, IpAddr), String);

/// Listeners on some interfaces, which serve until this is dropped.
pub struct Listeners {
    /// Where they are: the interface, and the address with the port.
    pub places: Vec<(String, SocketAddr)>,
    /// One for each thread that has not been told to end.
    running: Vec<Arc<()>>,
}

impl Listeners {
    /// Listens on each of the interfaces, and says where it cannot, and why.
    pub fn open(interfaces: &[Interface], limit: Duration) -> (Listeners, Vec<Deaf>) {
        let (mut places, mut running, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for interface in interfaces {
            let end = (interface.name.clone(), interface.address);
            let opened = TcpListener::bind(interface.socket_address(0)).and_then(lifted);
            let opened = opened.and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.local_addr()?, listener))
            });
            match opened {
                Ok((place, listener)) => {
                    let alive = Arc::new(());
                    let watched = Arc::downgrade(&alive);
                    let served = move || serve(&listener, limit, &|| watched.strong_count() > 0);
                    match thread::Builder::new().spawn(served) {
                        Ok(_) => {
                            places.push((interface.name.clone(), place));
                            running.push(alive);
                        }
                        Err(error) => {
                            let why = format!("no thread can be started: {error}");
                            faults.push((end, why));
                        }
                    }
                }
                Err(error) => {
                    let (name, ip) = &end;
                    let why = format!("no port can be opened on {name} {ip}: {error}");
                    faults.push((end, why));
                }
            }
        }
        (Listeners { places, running }, faults)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.running.clear();
    }
}

/// Answers whoever connects, for as long as somebody wants it.
fn serve(listener: &TcpListener, limit: Duration, is_wanted: &dyn Fn() -> bool) {
    const REST: Duration = Duration::from_millis(2);
    let mut served = 0;
    while is_wanted() {
        let accepted = listener.accept().and_then(|(stream, _)| lifted(stream));
        let Ok(stream) = accepted else {
            turns::sleep(REST);
            continue;
        };
        served += 1;
        if served <= MOST_SERVED {
            // Where there is no thread the other side sees a connection that is closed.
            let _ = thread::Builder::new().spawn(move || answer(stream, limit));
        }
    }
}

/// Reads what one trial sends, and says that it has come.
fn answer(mut stream: TcpStream, limit: Duration) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(limit))?;
    let mut space = vec![0; PAYLOAD];
    stream.read_exact(&mut space)?;
    quiet::write_all(stream.as_fd(), &[1])
}

/// Connects from an address of this node to a listener of another one. The limit is that of the
/// whole trial: an answer that comes later is none.
pub fn try_one(from: SocketAddr, to: SocketAddr, limit: Duration) -> Reached {
    let begun = crate::base::clock::now();
    let left = || {
        let left = begun.left(limit);
        // A socket's limits count microseconds, and none of them is no limit at all.
        match left.as_micros() {
            0 => Err(io::Error::from(ErrorKind::TimedOut)),
            _ => Ok(left),
        }
    };
    let opened = (|| {
        let socket = lifted(Socket::new(Domain::for_address(to), Type::STREAM, None)?)?;
        socket.bind(&from.into())?;
        socket.connect_timeout(&to.into(), left()?)?;
        Ok::<Socket, io::Error>(socket)
    })();
    let mut socket = match opened {
        Ok(socket) => socket,
        Err(error) => {
            return match error.kind() {
                ErrorKind::TimedOut => Reached::Silent,
                ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied => Reached::Refused,
                _ => Reached::NoWay(error.to_string()),
            };
        }
    };
    let crossed = (|| {
        let mut rest: &[u8] = &[0x5a; PAYLOAD];
        while !rest.is_empty() {
            socket.set_write_timeout(Some(left()?))?;
            let sent = socket.send_with_flags(rest, libc::MSG_NOSIGNAL)?;
            rest = &rest[sent..];
        }
        socket.set_read_timeout(Some(left()?))?;
        socket.read_exact(&mut [0])?;
        left()
    })();
    match crossed {
        Ok(_) => Reached::Passed,
        Err(_) => Reached::Stuck,
    }
}

/// Tries many connections, some at a time; the answers are in the order of the questions.
pub fn try_all(trials: &[(SocketAddr, SocketAddr)], limit: Duration) -> Vec<Reached> {
    let mut answers = Vec::with_capacity(trials.len());
    for part in trials.chunks(AT_A_TIME) {
        let asked: Vec<_> = part
            .iter()
            .map(|&(from, to)| {
                let asked = move || try_one(from, to, limit);
                thread::Builder::new().spawn(asked)
            })
            .collect();
        answers.extend(asked.into_iter().map(|one| match one.map(|it| it.join()) {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Reached::NoWay("the trial ended by a fault of its own".into()),
            Err(error) => Reached::NoWay(format!("no thread can be started: {error}")),
        }));
    }
    answers
}

/// For each name, why it has no address on this node; `None` where it has one.
pub fn unresolved(names: &[String], limit: Duration) -> Vec<Option<String>> {
    let (tell, told) = mpsc::channel();
    for (at, name) in names.iter().cloned().enumerate() {
        let tell = tell.clone();
        let ask = move || {
            let found = (name.as_str(), 0).to_socket_addrs();
            let fault = match found.map(|mut addresses| addresses.next()) {
                Ok(Some(_)) => None,
                Ok(None) => Some("it has no address".to_string()),
                Err(error) => Some(error.to_string()),
            };
            // Nobody listens any more where it took too long.
            let _ = tell.send((at, fault));
        };
        // Without a thread the name counts as one that did not answer.
        let _ = thread::Builder::new().spawn(ask);
    }
    drop(tell);
    let silent = || Some(format!("no answer within {} s", limit.as_secs()));
    let mut faults: Vec<Option<String>> = names.iter().map(|_| silent()).collect();
    let begun = crate::base::clock::now();
    while let Ok((at, fault)) = told.recv_timeout(limit.saturating_sub(begun.elapsed())) {
        faults[at] = fault;
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::interfaces::face::Signs;
    use std::net::Ipv4Addr;

    const LIMIT: Duration = Duration::from_secs(20);
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const FROM: SocketAddr = SocketAddr::new(HERE, 0);

    fn loopback() -> Interface {
        Interface {
            name: "lo".into(),
            address: HERE,
            scope: 0,
            netmask: None,
            signs: Signs::default(),
        }
    }

    #[test]
    fn data_pass_to_whoever_listens_and_to_nobody_else() {
        let (listeners, faults) = Listeners::open(&[loopback()], LIMIT);
        assert_eq!(faults, []);
        let place = listeners.places[0].1;
        // A port that is taken, so that nobody else is given it, and at which nobody listens.
        let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        deaf.bind(&SocketAddr::from((HERE, 0)).into()).unwrap();
        let deaf_place = deaf.local_addr().unwrap().as_socket().unwrap();
        let trials = [(FROM, place), (FROM, deaf_place), (FROM, place)];
        let wanted = [Reached::Passed, Reached::Refused, Reached::Passed];
        assert_eq!(try_all(&trials, LIMIT), wanted);
    }

    #[test]
    fn a_connection_that_takes_no_data_is_stuck() {
        let deaf = TcpListener::bind((HERE, 0)).unwrap();
        let place = deaf.local_addr().unwrap();
        let closing = thread::spawn(move || drop(deaf.accept()));
        assert_eq!(try_one(FROM, place, LIMIT), Reached::Stuck);
        closing.join().unwrap();
    }

    #[test]
    fn the_limit_is_that_of_the_whole_trial() {
        const SHORT: Duration = Duration::from_secs(1);
        let slow = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // So little fits on the way that the other side waits for the first half to be read.
        slow.set_tcp_mss(536).unwrap();
        slow.set_recv_buffer_size(4096).unwrap();
        slow.bind(&SocketAddr::new(HERE, 0).into()).unwrap();
        slow.listen(1).unwrap();
        let slow = TcpListener::from(slow);
        let place = slow.local_addr().unwrap();
        // Each half is read within the limit, and both are not.
        let reading = thread::spawn(move || {
            let (mut stream, _) = slow.accept()?;
            for _ in 0..2 {
                thread::sleep(SHORT * 3 / 4);
                stream.read_exact(&mut [0; PAYLOAD / 2])?;
            }
            quiet::write_all(stream.as_fd(), &[1])
        });
        assert_eq!(try_one(FROM, place, SHORT), Reached::Stuck);
        // It may have heard that the other side is gone.
        let _ = reading.join().unwrap();
    }

    #[test]
    fn names_without_an_address_are_told() {
        let names = ["localhost".to_string(), "no-such-name.invalid".into()];
        let faults = unresolved(&names, LIMIT);
        assert_eq!(faults[0], None);
        assert!(faults[1].is_some());
    }
}
