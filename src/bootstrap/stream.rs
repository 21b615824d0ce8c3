//! The sockets of the bootstrap: closed in forked children at once, and silent when a peer is gone.
//!
//! Whatever writes to a socket of the program's process must not raise SIGPIPE, and a child that
//! the program forks must neither keep the sockets open nor shut them down.

use crate::base::fork::Fd;
use crate::base::quiet;
use socket2::{SockRef, Socket};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A connected or connecting socket.
#[derive(Debug)]
pub struct Stream(Fd);

/// A listening socket.
#[derive(Debug)]
pub struct Listener(Fd);

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Stream {
    /// Takes over a socket.
    pub fn new(socket: impl Into<OwnedFd>) -> io::Result<Stream> {
        Fd::new(socket.into()).map(Stream)
    }

    /// Sends from `parts` in order; how many bytes the system took.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        quiet::send(self.as_fd(), parts)
    }

    /// The error of an attempt to connect, once.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        SockRef::from(self).take_error()
    }

    /// Ends one or both directions.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        SockRef::from(self).shutdown(how)
    }

    /// The peer's address; `NotConnected` before there is one.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        internet(SockRef::from(self).peer_addr()?)
    }

    /// The local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet(SockRef::from(self).local_addr()?)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(&[IoSlice::new(bytes)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*SockRef::from(*self)).read(into)
    }
}

impl Listener {
    /// Takes over a socket that listens.
    pub fn new(socket: Socket) -> io::Result<Listener> {
        Fd::new(socket.into()).map(Listener)
    }

    /// The next connection and where it comes from.
    pub fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (socket, from) = SockRef::from(&self.0).accept()?;
        Ok((Stream::new(socket)?, internet(from)?))
    }
}

fn internet(address: socket2::SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or(io::ErrorKind::InvalidData.into())
}
