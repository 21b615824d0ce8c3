//! TCP sockets as the rooms open them: none has the number of a standard stream, and none blocks.

use super::descriptors::lifted;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// A socket of a family of addresses, which never blocks.
///
/// # Errors
/// The process may open no more files, or the system has no such family.
pub fn socket(domain: Domain) -> io::Result<Socket> {
    let socket = lifted(Socket::new(domain, Type::STREAM, None)?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Lets a socket listen at an address, with room for `backlog` callers that nobody has let in yet;
/// returns where it listens. For port 0 the system picks one.
///
/// # Errors
/// The address is not this machine's, or another socket listens there.
pub fn listen(socket: &Socket, address: SocketAddr, backlog: i32) -> io::Result<SocketAddr> {
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    let bound = socket.local_addr()?.as_socket();
    bound.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_listener_never_blocks_and_knows_its_port() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = socket(Domain::for_address(address)).unwrap();
        let bound = listen(&listener, address, 4).unwrap();
        assert!(bound.ip() == address.ip() && bound.port() != 0, "{bound}");
        assert!(listener.as_raw_fd() >= super::super::descriptors::LEAST);
        let nobody = listener.accept().unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock);
        let caller = Socket::new(Domain::for_address(bound), Type::STREAM, None).unwrap();
        caller.connect(&bound.into()).unwrap();
        let (_, from) = listener.accept().unwrap();
        let caller = caller.local_addr().unwrap();
        assert_eq!(from.as_socket(), caller.as_socket());
        let second = socket(Domain::for_address(bound)).unwrap();
        let taken = listen(&second, bound, 4).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }
}
