//! The handle that a receiver hands to its senders: where it listens, and a secret that proves it.
//!
//! The caller keeps the 128 bytes and gives them to every call of `connect` again, so the second
//! half has room for the number of the connection that is being made. On its way between
//! processes that half is zero.

use crate::abi::HANDLE_BYTES;
use crate::fabric::Signs;
use kolo::base::{Error, Result};
use kolo::trust::proof::Key;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const USED: usize = 4 + 1 + 2 + 16 + 4 + 16;
/// Where the caller's copy keeps the number of a connection that is being made.
const LOCAL: usize = 64;

/// Secret that both ends of a connection know, and neither sends over it.
pub type Secret = [u8; 16];

/// The kind of secret that both ends use: there is one.
pub const KIND: u8 = 1;

/// The key by which they prove it.
pub fn key(secret: &Secret, signs: &Signs) -> Key {
    Key::derive(secret, &[signs.label])
}

/// The contents of a handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// Where the receiver listens.
    pub address: SocketAddr,
    /// Secret that proves a sender.
    pub secret: Secret,
}

impl Handle {
    /// Writes the handle; the rest of the room is zero.
    pub fn write(&self, signs: &Signs) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        let (family, ip, scope) = match self.address {
            SocketAddr::V4(v4) => (4, v4.ip().to_ipv6_mapped().octets(), 0),
            SocketAddr::V6(v6) => (6, v6.ip().octets(), v6.scope_id()),
        };
        bytes[..4].copy_from_slice(&signs.handle);
        bytes[4] = family;
        bytes[5..7].copy_from_slice(&self.address.port().to_be_bytes());
        bytes[7..23].copy_from_slice(&ip);
        bytes[23..27].copy_from_slice(&scope.to_be_bytes());
        bytes[27..43].copy_from_slice(&self.secret);
        let sum = crc32c::crc32c(&bytes[..USED]);
        bytes[USED..USED + 4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Reads a handle; `InvalidArgument` for what another network made.
    pub fn read(bytes: &[u8; HANDLE_BYTES], signs: &Signs) -> Result<Handle> {
        let sum = crc32c::crc32c(&bytes[..USED]).to_be_bytes();
        let port = u16::from_be_bytes([bytes[5], bytes[6]]);
        let mut ip = [0; 16];
        ip.copy_from_slice(&bytes[7..23]);
        let scope = u32::from_be_bytes([bytes[23], bytes[24], bytes[25], bytes[26]]);
        let v6 = Ipv6Addr::from(ip);
        let address = match bytes[4] {
            _ if bytes[..4] != signs.handle || bytes[USED..USED + 4] != sum => None,
            4 => v6
                .to_ipv4_mapped()
                .map(|v4: Ipv4Addr| SocketAddr::new(IpAddr::V4(v4), port)),
            6 => Some(SocketAddrV6::new(v6, port, 0, scope).into()),
            _ => None,
        };
        let mut secret = [0; 16];
        secret.copy_from_slice(&bytes[27..43]);
        let address = address.ok_or_else(|| {
            Error::argument(
                format!("the handle is not one of kolo's {} network", signs.what),
                "let all ranks use the same network (KOLO_NET) and hand handles over unchanged",
            )
        })?;
        Ok(Handle { address, secret })
    }
}

/// The number of the connection that is being made with this copy, or 0.
pub fn local(bytes: &[u8; HANDLE_BYTES]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[LOCAL..LOCAL + 8]);
    u64::from_ne_bytes(number)
}

/// Keeps the number in this copy.
pub fn set_local(bytes: &mut [u8; HANDLE_BYTES], number: u64) {
    bytes[LOCAL..LOCAL + 8].copy_from_slice(&number.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo::trust::proof::Preamble;

    const SIGNS: Signs = Signs {
        what: "test",
        log: "NET/test",
        page: "",
        handle: *b"TEST",
        label: b"test",
        protocol: Preamble {
            magic: *b"KOLOtest",
            version: 1,
        },
    };

    #[test]
    fn handles_come_back_as_they_were() {
        for address in ["10.1.2.3:77", "[2001:db8::5]:65535", "[fe80::1%7]:1"] {
            let handle = Handle {
                address: address.parse().unwrap(),
                secret: [9; 16],
            };
            let mut bytes = handle.write(&SIGNS);
            assert!(Handle::read(&bytes, &SIGNS).unwrap() == handle);
            assert_eq!(local(&bytes), 0);
            set_local(&mut bytes, 1 << 40);
            assert_eq!(local(&bytes), 1 << 40);
            assert!(Handle::read(&bytes, &SIGNS).unwrap() == handle);
        }
    }

    #[test]
    fn what_others_made_is_refused() {
        let handle = Handle {
            address: "10.1.2.3:77".parse().unwrap(),
            secret: [9; 16],
        };
        let good = handle.write(&SIGNS);
        for at in [0, 4, 6, 20, 30, 43] {
            let mut bytes = good;
            bytes[at] ^= 1;
            assert!(Handle::read(&bytes, &SIGNS).is_err(), "byte {at}");
        }
        let error = Handle::read(&[0; HANDLE_BYTES], &SIGNS).err().unwrap();
        assert!(error.remedy.contains("KOLO_NET"));
    }
}
