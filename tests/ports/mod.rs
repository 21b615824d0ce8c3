//! A port that no program beside this one is given while a test uses it.
//!
//! A port that was asked for, given back and used a moment later may meanwhile belong to a
//! connection of any program: the system hands out hundreds of ports a second from its own range.
//! This one lies outside of that range, and a lock on a file keeps other tests away from it. The
//! lock ends with the process that holds it, however it ends.

use std::fs::{self, File};
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::MetadataExt;

/// Below it ports belong to services that a machine may have.
const LOWEST: u16 = 10_000;

/// A port on which nobody listens but who is told of it; held while this lives.
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// One that is free at this address.
    pub fn take(address: impl Into<IpAddr>) -> Port {
        let (address, range) = (address.into(), kept_free());
        let user = fs::metadata("/proc/self").unwrap().uid();
        let folder = std::env::temp_dir().join(format!("kolo-test-ports-{user}"));
        fs::create_dir_all(&folder).unwrap();
        let begin = fastrand::usize(..range.len());
        for at in 0..range.len() {
            let number = range[(begin + at) % range.len()];
            let lock = File::create(folder.join(number.to_string())).unwrap();
            if lock.try_lock().is_ok() && TcpListener::bind((address, number)).is_ok() {
                return Port {
                    number,
                    _lock: lock,
                };
            }
        }
        panic!("no port is free at {address}");
    }

    /// Its number; good for as long as this lives.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// The ports that the system gives to nobody who does not name them; all, where it gives all.
fn kept_free() -> Vec<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map(|end| end.parse::<u16>());
    let given = match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        _ => 32_768..=60_999,
    };
    let all = LOWEST..=u16::MAX;
    let free: Vec<u16> = all.clone().filter(|port| !given.contains(port)).collect();
    match free.is_empty() {
        true => all.collect(),
        false => free,
    }
}
