//! One TCP socket: never waits, is closed in forked children, and notices a dead link.
//!
//! How a dead link shows. The *receiving* end has next to nothing to send, so the system's
//! keepalive probes and `TCP_USER_TIMEOUT` find it. At the *sending* end these do not serve: the
//! system sends no keepalive probes while data waits, and `TCP_USER_TIMEOUT` also ends a
//! connection whose peer is alive but reads nothing for a while (a closed window), which a rank
//! that computes may well do. So the sending end counts the segments that come in
//! ([`Pulse`]): the peer's system goes on to probe whatever its process does, so a live link never
//! stays silent for longer than a third of the limit.

use crate::base::clock::{Moment, now};
use crate::base::first_store::{self, Store};
use crate::base::tcp;
use crate::transport::fork::Fd;
use socket2::{Domain, SockRef, Socket, TcpKeepalive};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The kernel counts in seconds and needs several probes within the limit.
pub const LEAST_LIMIT: Duration = Duration::from_secs(3);

/// Most bytes that are sent from one place rather than gathered by the system.
const SHORT_BYTES: usize = 1024;

/// Where `tcpi_segs_in` lies in the kernel's `struct tcp_info` (since Linux 4.2).
const SEGMENTS_IN_OFFSET: usize = 140;

/// Which end of a connection a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sends data and receives credits.
    Sender,
    /// Receives data and sends credits.
    Receiver,
}

/// A connected or connecting socket.
#[derive(Debug)]
pub struct Stream(Fd);

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Stream {
    /// Takes over a socket and sets what every socket of a connection has. `limit`: how long its
    /// link may be silent.
    pub fn new(socket: Socket, side: Side, limit: Option<Duration>) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(limit) = limit.map(|limit| limit.max(LEAST_LIMIT)) {
            let seconds = |part: u32| Duration::from_secs((limit / part).as_secs().max(1));
            let (idle, interval) = (seconds(3), seconds(6));
            let probes = (limit - idle).as_secs().div_ceil(interval.as_secs());
            let keepalive = TcpKeepalive::new()
                .with_time(idle)
                .with_interval(interval)
                .with_retries(u32::try_from(probes.clamp(1, 100)).unwrap_or(100));
            socket.set_tcp_keepalive(&keepalive)?;
            if side == Side::Receiver {
                socket.set_tcp_user_timeout(Some(limit))?;
            }
        }
        Ok(Stream(Fd::new(OwnedFd::from(socket))?))
    }

    /// Begins to connect from `local` (any port) to `peer`. The outcome shows in
    /// [`Stream::connected`].
    pub fn dial(
        local: SocketAddr,
        peer: SocketAddr,
        limit: Option<Duration>,
    ) -> io::Result<Stream> {
        let socket = tcp::socket(Domain::for_address(peer))?;
        if local.is_ipv4() == peer.is_ipv4() {
            // Leaves by the chosen rail; the port is picked with the peer known, so that many
            // connections do not run out of ports.
            set_late_port(&socket);
            socket.bind(&local.into())?;
        }
        match socket.connect(&peer.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Stream::new(socket, Side::Sender, limit)
    }

    /// Whether a dialled socket is connected; an error when that failed.
    pub fn connected(&self) -> io::Result<bool> {
        let socket = SockRef::from(&self.0);
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        match (self.peer_address(), self.local_address()) {
            // Dialling a port of one's own machine where nobody listens may by chance connect a
            // socket to itself.
            (Ok(peer), Ok(local)) if peer == local => {
                Err(io::Error::from_raw_os_error(libc::ECONNREFUSED))
            }
            (Ok(_), _) => Ok(true),
            (Err(error), _) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            (Err(error), _) => Err(error),
        }
    }

    /// The local address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.0).local_addr()?;
        address.as_socket().ok_or(io::ErrorKind::InvalidData.into())
    }

    /// The peer's address; `NotConnected` before there is one.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.0).peer_addr()?;
        address.as_socket().ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Sends from `parts` in order; how many bytes the system took, 0 for none at the moment.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        first_store::passes(Store::Socket);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        if wanted <= SHORT_BYTES {
            // The system takes longer for a list of parts than for one.
            let mut whole = [0; SHORT_BYTES];
            let mut end = 0;
            for part in parts {
                whole[end..end + part.len()].copy_from_slice(part);
                end += part.len();
            }
            // SAFETY: the array has as many bytes.
            let sent = unsafe { libc::send(self.as_raw_fd(), whole.as_ptr().cast(), end, flags) };
            return passing(sent)?.map_or(Ok(0), Ok);
        }
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // `IoSlice` has the layout of `iovec`; the system only reads.
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: `message` describes live slices.
        let sent = unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, flags) };
        passing(sent)?.map_or(Ok(0), Ok)
    }

    /// Receives into `parts` in order: the number of bytes, `Some(0)` for the end of the stream
    /// (in whatever way the peer ended it), `None` for nothing at the moment.
    pub fn receive(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // `IoSliceMut` has the layout of `iovec`.
        message.msg_iov = parts.as_mut_ptr().cast();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: `message` describes live, writable slices.
        let got = unsafe {
            match parts {
                [part] => {
                    let (data, bytes) = (part.as_mut_ptr().cast(), part.len());
                    libc::recv(self.as_raw_fd(), data, bytes, libc::MSG_DONTWAIT)
                }
                _ => libc::recvmsg(self.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT),
            }
        };
        match passing(got) {
            Err(error) if is_end(&error) => Ok(Some(0)),
            other => other,
        }
    }

    /// Tells the peer that no more bytes come. Also ends the connection where a forked child has
    /// a copy of the socket.
    pub fn finish(&self) {
        // An error means that the connection has ended already.
        let _ = SockRef::from(&self.0).shutdown(std::net::Shutdown::Write);
    }

    /// Sends an acknowledgement that the system would delay.
    pub fn acknowledge(&self) {
        // It only saves time; a socket that has ended has nothing to acknowledge.
        let _ = SockRef::from(&self.0).set_tcp_quickack(true);
    }

    /// Bytes that the peer's system has not acknowledged; 0 when the connection is gone.
    pub fn unacknowledged(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ (= TIOCOUTQ) writes one int.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        let gone = !matches!(SockRef::from(&self.0).take_error(), Ok(None));
        match result {
            0 if !gone => usize::try_from(bytes).unwrap_or(0),
            _ => 0,
        }
    }

    /// How many segments have come in, modulo 2^32; `None` where the kernel does not say.
    pub fn segments_in(&self) -> Option<u32> {
        let mut info = [0_u8; 256];
        let mut length = info.len() as libc::socklen_t;
        // SAFETY: `info` has room for `length` bytes.
        let result = unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let known = info.get(..length as usize)?;
        let bytes = known.get(SEGMENTS_IN_OFFSET..SEGMENTS_IN_OFFSET + 4)?;
        (result == 0).then(|| u32::from_ne_bytes(bytes.try_into().unwrap_or_default()))
    }

    /// An entry of a poll set for reading, and for writing if `write`.
    pub fn watch(&self, write: bool) -> libc::pollfd {
        libc::pollfd {
            fd: self.as_raw_fd(),
            events: libc::POLLIN | if write { libc::POLLOUT } else { 0 },
            revents: 0,
        }
    }
}

/// For the proof, whose words always fit.
impl io::Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.receive(&mut [IoSliceMut::new(into)])?;
        got.ok_or(io::ErrorKind::WouldBlock.into())
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(&[IoSlice::new(bytes)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets `connect` choose the local port; kernels without it choose in `bind`.
fn set_late_port(socket: &Socket) {
    let on: libc::c_int = 1;
    // SAFETY: the option reads one int. A refusal only makes ports scarcer.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        );
    }
}

/// A peer that closes with bytes unread resets the connection; what it sent before was read.
fn is_end(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE))
}

/// The result of a system call that may find nothing to do.
fn passing(result: isize) -> io::Result<Option<usize>> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(Some(count));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Memory for socket buffers may be short for a moment.
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => Ok(None),
        _ => Err(error),
    }
}

/// Watches whether anything comes back on a socket that has data to send.
#[derive(Debug)]
pub struct Pulse {
    limit: Option<Duration>,
    segments: Option<u32>,
    since: Moment,
    looked: Moment,
}

impl Pulse {
    /// `limit`: how long nothing may come back; `None` never ends.
    pub fn new(limit: Option<Duration>) -> Pulse {
        let now = now();
        Pulse {
            limit: limit.map(|limit| limit.max(LEAST_LIMIT)),
            segments: None,
            since: now,
            looked: now,
        }
    }

    /// Called while something waits, however seldom. The limit, when nothing has come in for as
    /// long.
    pub fn silent(&mut self, stream: &Stream) -> Option<Duration> {
        let limit = self.limit?;
        if self.segments.is_some() && !self.looked.past(limit / 32) {
            return None;
        }
        self.looked = now();
        let segments = Some(stream.segments_in()?);
        if segments != self.segments {
            self.segments = segments;
            self.since = self.looked;
            return None;
        }
        self.since.past(limit).then_some(limit)
    }
}
