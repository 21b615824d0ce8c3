//! The two ends of a connection, as every error names them.

use crate::base::{Code, Error};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const LINK_REMEDY: &str = "check the cable, the switch and the other node; KOLO_NET_LINK_TIMEOUT \
                           sets how long a silent link is borne";
const PEER_REMEDY: &str = "look for the first error of the rank at that address";
const BYTES_REMEDY: &str = "check that only kolo uses its ports and that no device on the way \
                            changes data; KOLO_NET_CHECKSUM=1 protects every message";

/// Interface and addresses of a connection.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The local interface.
    pub interface: String,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "interface {}, {} here and {} there",
            self.interface, self.local, self.peer
        )
    }
}

impl Ends {
    /// The error for what the system says of a socket.
    pub fn failed(&self, operation: &'static str, error: &io::Error) -> Error {
        let lost = [
            libc::ETIMEDOUT,
            libc::EHOSTUNREACH,
            libc::ENETUNREACH,
            libc::ENETDOWN,
        ];
        let gone = [libc::ECONNRESET, libc::EPIPE, libc::ECONNREFUSED];
        match error.raw_os_error() {
            Some(number) if lost.contains(&number) => {
                let what = format!("the link to another node was lost ({self}): {error}");
                Error::new(Code::RemoteError, what, LINK_REMEDY)
            }
            Some(number) if gone.contains(&number) => return self.closed(operation),
            _ => Error::system(
                format!("a socket to another node failed ({self})"),
                error,
                "look up the system's message; `kolo info` shows the settings of the network",
            ),
        }
        .during(operation)
    }

    /// The error for a link that has been silent for too long.
    pub fn silent(&self, operation: &'static str, limit: Duration) -> Error {
        let what = format!(
            "the link to another node was lost ({self}): nothing came back for {:.1} s",
            limit.as_secs_f64()
        );
        Error::new(Code::RemoteError, what, LINK_REMEDY).during(operation)
    }

    /// The error for a peer that has closed.
    pub fn closed(&self, operation: &'static str) -> Error {
        let what = format!("the peer ended the connection or its process ended ({self})");
        Error::new(Code::RemoteError, what, PEER_REMEDY).during(operation)
    }

    /// The error for bytes that make no sense.
    pub fn garbled(&self, operation: &'static str, which: &str) -> Error {
        let what = format!("{which} ({self})");
        Error::new(Code::RemoteError, what, BYTES_REMEDY).during(operation)
    }

    /// The error for a message that its buffer cannot hold.
    pub fn too_large(&self, operation: &'static str, bytes: u64, capacity: u64, tag: u32) -> Error {
        Error::usage(
            format!(
                "a message of {bytes} bytes with tag {tag} was sent to a buffer of {capacity} \
                 bytes ({self})"
            ),
            "make the counts of both ranks agree",
        )
        .during(operation)
    }
}

/// Whether an error says that the other end was closed, and not that the link was lost.
pub fn was_closed(error: &Error) -> bool {
    error.remedy == PEER_REMEDY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_interface_and_addresses_and_say_what_to_do() {
        let ends = Ends {
            interface: "eth7".into(),
            local: "10.0.0.1:5".parse().unwrap(),
            peer: "[2001:db8::9]:6".parse().unwrap(),
        };
        let system = |number| ends.failed("send", &io::Error::from_raw_os_error(number));
        let cases = [
            (system(libc::ETIMEDOUT), Code::RemoteError, "link"),
            (system(libc::EPIPE), Code::RemoteError, "process ended"),
            (system(libc::ENOBUFS), Code::SystemError, "socket"),
            (
                ends.silent("send", Duration::from_secs(30)),
                Code::RemoteError,
                "30.0 s",
            ),
            (ends.closed("receive"), Code::RemoteError, "ended"),
            (ends.garbled("receive", "x"), Code::RemoteError, "x"),
            (
                ends.too_large("send", 9, 8, 3),
                Code::InvalidUsage,
                "9 bytes with tag 3",
            ),
        ];
        for (error, code, word) in cases {
            assert_eq!(error.code, code, "{error}");
            for part in [word, "eth7", "10.0.0.1:5", "[2001:db8::9]:6"] {
                assert!(error.what.contains(part), "{error}");
            }
            assert!(error.operation.is_some() && !error.remedy.is_empty());
        }
    }
}
