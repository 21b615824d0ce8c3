//! The connection that a launcher hands over as the number of a descriptor, in `PMI_FD`.
//!
//! Whoever started the program may have closed it, and the number may be that of another file by
//! now, into which a request would be written.

use crate::base::{Error, Result, descriptors};
use socket2::{SockRef, Type};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A descriptor of its own for the connection that the launcher has left at this number, if it is
/// one. What is checked is what is used.
pub fn connection(number: RawFd) -> Result<File> {
    let none = |what: &str| {
        Error::usage(
            format!(
                "PMI_FD is {number}, and {what} there, not the connection to the launcher's PMI \
                 server"
            ),
            "look into what closes the files that the launcher leaves open (a shell, a wrapper, \
             the program itself); or set KOLO_RANK, KOLO_NRANKS and KOLO_COMM_ID",
        )
    };
    if number < descriptors::LEAST {
        return Err(none("a standard stream is"));
    }
    let own = descriptors::another(number).map_err(|_| none("no open file is"))?;
    let socket = SockRef::from(&own);
    let is_stream = socket.r#type().is_ok_and(|it| it == Type::STREAM);
    let is_local = socket.peer_addr().is_ok_and(|peer| peer.is_unix());
    if !is_stream || !is_local {
        return Err(none("another kind of file is"));
    }
    // Both ends of a pair of the program's own were made by it.
    match maker_of(&own) {
        Ok(maker) if maker != std::process::id() => Ok(own.into()),
        _ => Err(none("a connection of the program itself is")),
    }
}

/// The process that made the other end of a local socket.
fn maker_of(socket: &OwnedFd) -> std::io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let fd = socket.as_raw_fd();
    // SAFETY: the option fills `length` bytes of `peer`.
    match unsafe { libc::getsockopt(fd, level, option, (&raw mut peer).cast(), &mut length) } {
        0 => Ok(peer.pid.unsigned_abs()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Whoever started the program has closed the connection, and its number is another file's.
    #[test]
    fn what_is_no_connection_to_a_launcher_is_left_alone() {
        let words = "restart file, header\nsecond line\n";
        let path = std::env::temp_dir().join(format!("kolo-pmi-{}", std::process::id()));
        std::fs::write(&path, words).unwrap();
        let mut options = File::options();
        let file = options.read(true).write(true).open(&path).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let (near, _far) = UnixStream::pair().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let internet = std::net::TcpStream::connect(there).unwrap();
        let numbers = [
            file.as_raw_fd(),
            reader.as_raw_fd(),
            writer.as_raw_fd(),
            near.as_raw_fd(),
            listener.as_raw_fd(),
            internet.as_raw_fd(),
            0,
            1,
            2,
            -1,
            RawFd::MAX,
        ];
        for number in numbers {
            let error = connection(number).err().unwrap();
            let what = format!("PMI_FD is {number}, and ");
            assert!(error.what.starts_with(&what), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), words);
        std::fs::remove_file(path).unwrap();
    }
}
