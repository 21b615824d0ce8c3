//! What every test of the bootstrap uses.

use kolo::base::proof::{self, Hello, Key, Preamble};
use kolo::base::{Error, Result};
use kolo::bootstrap::{Bootstrap, Family, NetSettings, TcpRing, UniqueId};
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

pub fn settings() -> NetSettings {
    NetSettings {
        socket_ifname: Some("=lo".into()),
        socket_family: Family::V4,
        connect_limit: Duration::from_secs(20),
        ..NetSettings::default()
    }
}

/// Fails a test that hangs, instead of hanging with it.
pub fn within<T: Send + 'static>(seconds: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(body()));
    match wait.recv_timeout(Duration::from_secs(seconds)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end after {seconds} s"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}

pub type Started = std::thread::JoinHandle<Result<TcpRing>>;

pub fn start(id: UniqueId, rank: u32, nranks: u32, settings: NetSettings) -> Started {
    std::thread::spawn(move || TcpRing::connect(&id, rank, nranks, &settings))
}

pub fn ring(nranks: u32, settings: &NetSettings) -> Vec<TcpRing> {
    let id = UniqueId::create(settings).unwrap();
    let ranks: Vec<_> = (0..nranks)
        .map(|rank| start(id, rank, nranks, settings.clone()))
        .collect();
    ranks
        .into_iter()
        .map(|rank| rank.join().unwrap().unwrap())
        .collect()
}

/// Runs `body` on every member, each on a thread of its own.
pub fn each<T: Send>(members: &[TcpRing], body: impl Fn(&TcpRing) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = members
            .iter()
            .map(|m| scope.spawn(move || body(m)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

pub fn check_exchange(member: &TcpRing) {
    let rank = member.rank().0;
    let part = |rank: u32| vec![rank as u8; (rank as usize * 7 + 1) % 23];
    let all = member.all_gather(&part(rank)).unwrap();
    assert_eq!(all, (0..member.nranks()).map(part).collect::<Vec<_>>());
}

pub fn to_hex(id: &UniqueId) -> String {
    let bytes = id.as_bytes().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

pub fn from_hex(text: &str) -> UniqueId {
    let mut bytes = [0; 128];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    }
    UniqueId::from_bytes(bytes).unwrap()
}

pub fn failure(started: Started) -> Error {
    match started.join().unwrap() {
        Ok(_) => panic!("the offender was let in"),
        Err(error) => error,
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Magic and version of the bootstrap's hello.
pub const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOHI\r\n",
    version: 3,
};

/// The name of an id on the wire.
pub fn public(id: &UniqueId) -> [u8; 16] {
    let digest = proof::digest(&[b"kolo public id", &id.as_bytes()[32..64]]);
    digest[..16].try_into().unwrap()
}

/// The key by which a rank and the root prove themselves.
pub fn check_in_key(id: &UniqueId) -> Key {
    let uses: [&[u8]; 3] = [b"kolo check in", &[1], &public(id)];
    Key::derive(&id.as_bytes()[32..64], &uses)
}

/// What a rank that listens on a port of the loopback says when it checks in.
pub fn check_in(id: &UniqueId, rank: u32, nranks: u32, port: u16) -> Hello {
    let address = (IpAddr::from([127, 0, 0, 1]), port, 0_u32);
    let said = (rank, nranks, 0_u32, address, "");
    Hello {
        purpose: 1,
        offers: 1,
        id: public(id),
        nonce: proof::random().unwrap(),
        body: postcard::to_stdvec(&said).unwrap(),
    }
}
