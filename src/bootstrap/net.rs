//! Sockets as the bootstrap wants them: non-blocking, kept alive, closed on exec; `poll`; limits.

use super::settings::Family;
use super::stream::{Listener, Stream};
use crate::base::clock::{LOOK, Moment, now};
use crate::base::{Error, Result, tcp, turns};
use socket2::{Domain, SockRef, Socket, TcpKeepalive};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Length of the queue of connections that wait to be accepted; the kernel caps it at
/// `net.core.somaxconn`.
const BACKLOG: i32 = 16_384;

/// The soft limit of open files that a root asks for: one connection a rank, and room to spare.
const WANTED_FILES: libc::rlim_t = 65_536;

/// A peer whose machine vanished without a word is given up after idle + interval * count.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 4;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Turns `host:port` or `[address]:port` into an address of the wanted family.
pub fn resolve(text: &str, family: Family) -> Result<SocketAddr> {
    let remedy = "set KOLO_COMM_ID to host:port or [IPv6 address]:port with a port from 1 to \
                  65535, the same on every rank";
    let addresses = text.trim().to_socket_addrs().map_err(|error| {
        Error::argument(
            format!("KOLO_COMM_ID=\"{text}\" is not a usable address: {error}"),
            remedy,
        )
    })?;
    let fits = |address: &SocketAddr| family.takes(address.ip());
    let address = addresses.into_iter().find(fits).ok_or_else(|| {
        Error::argument(
            format!("KOLO_COMM_ID=\"{text}\" has no address of the family that is asked for"),
            "change KOLO_SOCKET_FAMILY or the host name",
        )
    })?;
    if address.port() == 0 {
        return Err(Error::argument(
            format!("KOLO_COMM_ID=\"{text}\" names port 0, so the ranks could not find it"),
            remedy,
        ));
    }
    Ok(address)
}

/// Whether the host of `host:port` is the name of a machine, which may have other addresses than
/// the one that this machine knows: an own name often stands for a loopback address in /etc/hosts.
pub fn is_name(text: &str) -> bool {
    let host = text.trim().rsplit_once(':').map_or("", |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    // With a zone it is an address too.
    let is_address = bare
        .split('%')
        .next()
        .is_some_and(|it| it.parse::<IpAddr>().is_ok());
    !is_address && host.split('.').next() != Some("localhost")
}

/// The addresses of a host that are of the wanted family, in the order of the name service.
pub fn addresses_of(host: &str, family: Family) -> io::Result<Vec<IpAddr>> {
    let found = (host, 0).to_socket_addrs()?.map(|address| address.ip());
    Ok(found.filter(|ip| family.takes(*ip)).collect())
}

/// A non-blocking listener. With port 0 the kernel picks one; a forced port may be taken over
/// from connections of an earlier job that are still winding down.
pub fn listen(address: SocketAddr) -> io::Result<(Listener, SocketAddr)> {
    open(tcp::socket(Domain::for_address(address))?, address)
}

/// A non-blocking listener at all addresses of this machine, of one family or both.
pub fn listen_everywhere(port: u16, family: Family) -> io::Result<(Listener, SocketAddr)> {
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    if family == Family::V4 {
        return listen(v4);
    }
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let both = tcp::socket(Domain::IPV6).and_then(|socket| {
        socket.set_only_v6(family == Family::V6)?;
        open(socket, v6)
    });
    match both {
        // A machine may have no IPv6.
        Err(error) if family == Family::Any && error.kind() != io::ErrorKind::AddrInUse => {
            listen(v4)
        }
        result => result,
    }
}

/// The port of a named root is taken over from connections of an earlier job, but never shared
/// with another listener (SO_REUSEPORT): the kernel would deal the ranks out to both.
fn open(socket: Socket, address: SocketAddr) -> io::Result<(Listener, SocketAddr)> {
    if address.port() != 0 {
        socket.set_reuse_address(true)?;
    }
    let bound = tcp::listen(&socket, address, BACKLOG)?;
    Ok((Listener::new(socket)?, bound))
}

/// Sets what every connection of the bootstrap has.
///
/// No `TCP_USER_TIMEOUT`: it would also end a connection to a process that is only stopped, as soon
/// as its buffers are full. A host that is gone is noticed by who receives from it, whose probes go
/// out while it waits; in a ring, and between a rank and the root, there is always one.
pub fn prepare(stream: &Stream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_COUNT);
    socket.set_tcp_keepalive(&keepalive)
}

/// One entry of a poll set.
pub fn watch(socket: &impl AsRawFd, write: bool) -> libc::pollfd {
    let events = libc::POLLIN | libc::POLLRDHUP | if write { libc::POLLOUT } else { 0 };
    libc::pollfd {
        fd: socket.as_raw_fd(),
        events,
        revents: 0,
    }
}

/// Sleeps until something happens or `limit` has passed (`None`: for ever). A signal, and the next
/// look at the clock, end it early without an event; so does the next turn of MPI.
pub fn poll(set: &mut [libc::pollfd], limit: Option<Duration>) -> io::Result<()> {
    let rest = turns::rest();
    let until_turn = (rest < Duration::MAX).then_some(rest);
    let limit = sooner(limit.map(|limit| limit.min(LOOK)), until_turn);
    if turns::poll(set, limit) >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    for entry in set {
        entry.revents = 0;
    }
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// The smaller of two limits, where `None` means no limit.
pub fn sooner(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Time that is left of `limit` since `start`.
pub fn left(start: Moment, limit: Duration) -> Duration {
    start.left(limit)
}

/// Raises the soft limit of open files as far as a root of many ranks needs, or many ranks of one
/// process, and as the hard limit allows.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the two numbers.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return;
    }
    let wanted = WANTED_FILES.min(limit.rlim_max);
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted;
        // SAFETY: `limit` is initialised. A refusal leaves the old limit, which the root bears.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// How long a port of a root that was there once may refuse connections.
pub const REFUSAL_LIMIT: Duration = Duration::from_secs(2);

/// A connection attempt that is repeated with growing pauses until its limit, at one address or
/// at several in turn.
pub struct Dial {
    addresses: Vec<SocketAddr>,
    /// Attempts that have failed.
    failed: usize,
    start: Moment,
    limit: Duration,
    refusal_limit: Duration,
    next_pause: Duration,
    stage: Stage,
}

enum Stage {
    Pausing(Moment, Duration),
    Connecting(Stream),
    Done,
}

impl Dial {
    /// Begins to connect. `limit` bounds all attempts together, `refusal_limit` those that the
    /// other machine answers with "nobody listens here".
    pub fn start(addresses: Vec<SocketAddr>, limit: Duration, refusal_limit: Duration) -> Dial {
        let start = now();
        Dial {
            addresses,
            failed: 0,
            start,
            limit,
            refusal_limit,
            next_pause: FIRST_PAUSE,
            stage: Stage::Pausing(start, Duration::ZERO),
        }
    }

    /// Entry to add to a poll set, and how long that poll may sleep.
    pub fn watch(&self) -> (Option<libc::pollfd>, Option<Duration>) {
        match &self.stage {
            Stage::Pausing(since, pause) => (None, Some(left(*since, *pause))),
            Stage::Connecting(stream) => {
                let mut entry = watch(stream, true);
                entry.events = libc::POLLOUT;
                (Some(entry), Some(left(self.start, self.limit)))
            }
            Stage::Done => (None, None),
        }
    }

    /// Goes on without blocking: a stream, once, when connected; an error when the limit has
    /// passed or trying again cannot help.
    pub fn advance(&mut self) -> io::Result<Option<Stream>> {
        let attempt = match &self.stage {
            Stage::Pausing(since, pause) if since.past(*pause) => self.attempt(),
            Stage::Connecting(stream) => connected(stream),
            Stage::Pausing(..) | Stage::Done => return Ok(None),
        };
        match attempt {
            Ok(true) => match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::Connecting(stream) => prepare(&stream).map(|()| Some(stream)),
                Stage::Pausing(..) | Stage::Done => Ok(None),
            },
            Ok(false) if self.start.past(self.limit) => Err(io::ErrorKind::TimedOut.into()),
            Ok(false) => Ok(None),
            Err(error) => self.again(error).map(|()| None),
        }
    }

    /// Notes a failed attempt: a pause before the next one, or the error when time is up.
    pub fn again(&mut self, error: io::Error) -> io::Result<()> {
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        let limit = match refused {
            true => self.refusal_limit.min(self.limit),
            false => self.limit,
        };
        if !is_passing(&error) || self.start.waited() + self.next_pause > limit {
            return Err(error);
        }
        self.failed += 1;
        if !self.failed.is_multiple_of(self.addresses.len()) {
            // The next address may be the right one.
            self.stage = Stage::Pausing(now(), Duration::ZERO);
            return Ok(());
        }
        self.stage = Stage::Pausing(now(), self.next_pause);
        self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    fn attempt(&mut self) -> io::Result<bool> {
        let address = self.addresses[self.failed % self.addresses.len()];
        let socket = tcp::socket(Domain::for_address(address))?;
        let result = socket.connect(&address.into());
        self.stage = Stage::Connecting(Stream::new(socket)?);
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
            Err(error) => Err(error),
            Ok(()) => match &self.stage {
                Stage::Connecting(stream) => connected(stream),
                Stage::Pausing(..) | Stage::Done => Ok(false),
            },
        }
    }
}

/// Whether a connection that was begun has been made.
fn connected(stream: &Stream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        // Dialling a free port of one's own machine may by chance pick that very port as the
        // local one; TCP then connects the socket to itself.
        Ok(peer) if peer == stream.local_addr()? => {
            Err(io::Error::from_raw_os_error(libc::ECONNREFUSED))
        }
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// As good as a refused connection: nobody of the job listens there.
pub fn unproven(who: &str) -> io::Error {
    let why = format!("what answers there has not proven to be {who}");
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

/// Errors that may be gone at the next attempt.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::ECONNRESET
                | libc::ECONNABORTED
                | libc::ETIMEDOUT
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EAGAIN
                | libc::EADDRNOTAVAIL
                | libc::EINTR
        )
    ) || matches!(
        error.kind(),
        // Of those that kolo makes itself.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dial(address: SocketAddr, limit: Duration) -> io::Result<Stream> {
        let mut dial = Dial::start(vec![address], limit, limit);
        loop {
            if let Some(stream) = dial.advance()? {
                return Ok(stream);
            }
            let (entry, sleep) = dial.watch();
            poll(&mut Vec::from_iter(entry), sleep)?;
        }
    }

    #[test]
    fn addresses() {
        let four = resolve("127.0.0.1:80", Family::Any).unwrap();
        assert_eq!(four, "127.0.0.1:80".parse().unwrap());
        let six = resolve("[::1]:80", Family::V6).unwrap();
        assert_eq!(six, "[::1]:80".parse().unwrap());
        for (text, word) in [
            ("127.0.0.1", "not a usable address"),
            ("", "not a usable address"),
            ("127.0.0.1:99999", "not a usable address"),
            ("127.0.0.1:0", "port 0"),
        ] {
            let error = resolve(text, Family::Any).unwrap_err();
            assert!(error.what.contains(word), "{text:?}: {error}");
        }
        let error = resolve("127.0.0.1:80", Family::V6).unwrap_err();
        assert!(error.remedy.contains("KOLO_SOCKET_FAMILY"));
    }

    #[test]
    fn dial_waits_for_a_late_listener() {
        let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        drop(listener);
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            listen(address).unwrap().0
        });
        dial(address, Duration::from_secs(20)).unwrap();
        drop(late.join().unwrap());
    }

    #[test]
    fn dial_gives_up_at_its_limit() {
        let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        drop(listener);
        let start = now();
        let error = dial(address, Duration::from_millis(200)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn sockets_have_their_options() {
        let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(address.port(), 0);
        let stream = dial(address, Duration::from_secs(5)).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), None);
        drop(listener);
        raise_file_limit();
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `limit` is a valid place for the two numbers.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
        assert!(limit.rlim_cur >= WANTED_FILES.min(limit.rlim_max));
    }
}
