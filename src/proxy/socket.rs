//! Unix sockets of the service: abstract addresses, packets, descriptors in flight.
//!
//! An *abstract* address is a name without a file: it lives as long as the socket, so that nothing
//! is left behind, and belongs to the network namespace. All sockets are non-blocking and
//! close-on-exec. Nobody gets SIGPIPE.

use super::frame::{FRAME_BYTES, Frame};
use crate::base::turns;
use crate::transport::fork::Fd;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Where a service listens: 128 random bits. It serves as the identity of the process, too, which
/// a process number could not: containers have their own numbering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address(pub [u8; 16]);

/// How many connections may wait to be accepted; the system cuts it to `net.core.somaxconn`.
const BACKLOG: libc::c_int = 4096;

impl Address {
    /// A new address that nobody else has.
    pub fn random() -> io::Result<Address> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Address(bytes))
    }

    /// The address of that name.
    pub(super) fn named(name: &str) -> Option<Address> {
        let digits = name.strip_prefix("kolo-")?;
        if digits.len() != 32 || !digits.is_ascii() {
            return None;
        }
        let number = u128::from_str_radix(digits, 16).ok()?;
        Some(Address(number.to_be_bytes()))
    }
}

impl fmt::Display for Address {
    /// The socket's name: `kolo-` and 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kolo-")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The system's form of `address`, and how many bytes of it count.
fn system_address(address: &Address) -> (libc::sockaddr_un, libc::socklen_t) {
    let name = address.to_string();
    // SAFETY: all-zero bytes are a valid `sockaddr_un`.
    let mut system: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    system.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // A name that starts with a zero byte is abstract; its length is given, not its end.
    for (to, byte) in system.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    (system, length as libc::socklen_t)
}

fn socket() -> io::Result<Fd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call; a new descriptor has no other owner.
    unsafe { Fd::from_result(libc::socket(libc::AF_UNIX, kind, 0)) }
}

/// A socket that listens on `address`.
pub(super) fn listen(address: &Address) -> io::Result<Fd> {
    let fd = socket()?;
    let (system, length) = system_address(address);
    // SAFETY: `system` is a filled address of `length` bytes; `fd` is an open socket.
    let failed = unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const system).cast(), length) != 0
            || libc::listen(fd.as_raw_fd(), BACKLOG) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// A connection to whoever listens on `address`, if that is this user. Never waits:
/// `WouldBlock` says that too many connections wait there, `ConnectionRefused` that nobody listens.
pub(super) fn connect(address: &Address) -> io::Result<Fd> {
    let fd = socket()?;
    let (system, length) = system_address(address);
    // SAFETY: as in `listen`.
    if unsafe { libc::connect(fd.as_raw_fd(), (&raw const system).cast(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    check_user(&fd)?;
    Ok(fd)
}

/// The next connection that waits at `listener`; `PermissionDenied` if another user made it.
pub(super) fn accept(listener: &Fd) -> io::Result<Fd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none = std::ptr::null_mut();
    // SAFETY: null pointers say that the caller does not want the other side's address.
    let result = unsafe {
        let result = libc::accept4(listener.as_raw_fd(), none, std::ptr::null_mut(), flags);
        Fd::from_result(result)
    };
    let fd = result?;
    check_user(&fd)?;
    Ok(fd)
}

/// The process at the other end, which has connected or listened.
pub(super) fn peer_of(fd: &Fd) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has room for `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(peer),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An error unless the process at the other end runs as this process's user.
fn check_user(fd: &Fd) -> io::Result<()> {
    // SAFETY: geteuid has no arguments.
    let (peer, me) = (peer_of(fd)?, unsafe { libc::geteuid() });
    if peer.uid != me {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the other process runs as user {}, this one as {me}",
                peer.uid
            ),
        ));
    }
    Ok(())
}

/// Room for the header and one descriptor, aligned as the system wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: CMSG_SPACE is arithmetic on its argument.
const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;

/// Sends `frame`, with a copy of `passed` if there is one. Never waits (`WouldBlock`).
pub(super) fn send(fd: &Fd, frame: &Frame, passed: Option<&Fd>) -> io::Result<()> {
    let mut bytes = frame.encode();
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(passed) = passed {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: the control buffer is aligned and large enough for one header with one
        // descriptor, so that CMSG_FIRSTHDR is not null and its data lies inside the buffer.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            data.write_unaligned(passed.as_raw_fd());
        }
    }
    // SAFETY: `message` points to live buffers of the stated sizes on this stack.
    let sent = unsafe {
        libc::sendmsg(
            fd.as_raw_fd(),
            &raw const message,
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A message from a socket, or the reason why there is none.
#[derive(Debug)]
pub(super) enum Received {
    Frame(Frame, Option<Fd>),
    /// A packet that is not one of kolo's.
    Garbage,
    /// The other side has closed, or its process has ended.
    End,
}

/// The next packet. `want_fd`: keep a descriptor that comes with it; otherwise the system discards
/// whatever descriptors a stranger attaches. Never waits (`WouldBlock`).
pub(super) fn receive(fd: &Fd, want_fd: bool) -> io::Result<Received> {
    // One byte more than a frame: a longer packet shows.
    let mut bytes = [0_u8; FRAME_BYTES + 1];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if want_fd {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES as _;
    }
    // SAFETY: `message` points to live, writable buffers of the stated sizes on this stack.
    let length = unsafe {
        libc::recvmsg(
            fd.as_raw_fd(),
            &raw mut message,
            libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT,
        )
    };
    let Ok(length) = usize::try_from(length) else {
        return Err(io::Error::last_os_error());
    };
    let mut passed = take_descriptors(&message)?;
    if length == 0 {
        return Ok(Received::End);
    }
    if want_fd && passed.is_empty() && message.msg_flags & libc::MSG_CTRUNC != 0 {
        // It was sent, and this process has no number left for it.
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok(match Frame::decode(&bytes[..length]) {
        Some(frame) => Received::Frame(frame, passed.pop()),
        None => Received::Garbage,
    })
}

/// Owns every descriptor that arrived, wanted or not: the buffer has room for two on systems with
/// 64-bit alignment.
fn take_descriptors(message: &libc::msghdr) -> io::Result<Vec<Fd>> {
    let mut taken = Vec::new();
    // SAFETY: the system filled the control buffer and `msg_controllen`; CMSG_FIRSTHDR gives null
    // or a header inside the buffer, and `cmsg_len` counts the bytes that follow in the buffer.
    // The descriptors are new in this process and owned by nobody else.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(std::ptr::from_ref(message));
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_RIGHTS
        {
            return Ok(Vec::new());
        }
        let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
        let data = libc::CMSG_DATA(header).cast::<RawFd>();
        for index in 0..bytes / size_of::<RawFd>() {
            let number = data.add(index).read_unaligned();
            taken.push(OwnedFd::from_raw_fd(number));
        }
    }
    taken.into_iter().map(Fd::new).collect()
}

/// Waits until `fd` can be read or has ended, at most for `limit`; false when time ran out.
pub(super) fn wait_readable(fd: &Fd, limit: std::time::Duration) -> io::Result<bool> {
    let entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    match turns::poll(&mut [entry], Some(limit)) {
        0 => Ok(false),
        1.. => Ok(true),
        _ => {
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::ServiceKind;
    use super::*;
    use std::time::Duration;

    fn pair() -> (Fd, Fd) {
        let address = Address::random().unwrap();
        let listener = listen(&address).unwrap();
        let near = connect(&address).unwrap();
        (near, accept(&listener).unwrap())
    }

    #[test]
    fn address_has_a_name() {
        let name = Address([0xab; 16]).to_string();
        assert_eq!(name, format!("kolo-{}", "ab".repeat(16)));
        assert_eq!(Address::named(&name), Some(Address([0xab; 16])));
        let address = Address::random().unwrap();
        assert_eq!(Address::named(&address.to_string()), Some(address));
        for wrong in ["kolo-", "kolo-12", "other", &name[1..], &format!("{name}0")] {
            assert_eq!(Address::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobody_listens() {
        let address = Address::random().unwrap();
        let error = connect(&address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn frames_and_descriptors_cross() {
        let (near, far) = pair();
        let would_block = receive(&far, false).unwrap_err();
        assert_eq!(would_block.kind(), io::ErrorKind::WouldBlock);
        assert!(!wait_readable(&far, Duration::ZERO).unwrap());
        let frame = Frame::new(ServiceKind::TakeFd, 9, 8);
        let listener = listen(&Address::random().unwrap()).unwrap();
        send(&near, &frame, Some(&listener)).unwrap();
        assert!(wait_readable(&far, Duration::ZERO).unwrap());
        match receive(&far, true).unwrap() {
            Received::Frame(got, Some(fd)) => {
                assert_eq!(got, frame);
                assert_ne!(fd.as_raw_fd(), listener.as_raw_fd());
            }
            other => panic!("{other:?}"),
        }
        send(&near, &frame, Some(&listener)).unwrap();
        match receive(&far, false).unwrap() {
            Received::Frame(got, None) => assert_eq!(got, frame),
            other => panic!("{other:?}"),
        }
        drop(near);
        assert!(matches!(receive(&far, false).unwrap(), Received::End));
    }

    #[test]
    fn packets_of_other_sizes_are_garbage() {
        let (near, far) = pair();
        for length in [1, 63, 65, 4000] {
            let bytes = vec![7_u8; length];
            // SAFETY: `bytes` is readable for its whole length.
            let sent = unsafe { libc::send(near.as_raw_fd(), bytes.as_ptr().cast(), length, 0) };
            assert_eq!(sent, length as isize);
            assert!(matches!(receive(&far, false).unwrap(), Received::Garbage));
        }
    }
}
