//! Helpers of every test of the bootstrap.

use kolo::base::{Error, Result};
use kolo::bootstrap::{Bootstrap, Family, NetSettings, TcpRing, UniqueId};
use kolo::trust::proof::{self, Hello, Key, Preamble};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use crate::ports::Port;
pub use crate::within::within;

pub const HERE: [u8; 4] = [127, 0, 0, 1];

/// Each rank counts as a process, so that threads form a ring of sockets.
pub fn settings() -> NetSettings {
    NetSettings {
        socket_ifname: Some("=lo".into()),
        socket_family: Family::V4,
        connect_limit: Duration::from_secs(20),
        process_of: Some(|rank| rank),
        ..NetSettings::default()
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
    assert_eq!(
        all.to_vec(),
        (0..member.nranks()).map(part).collect::<Vec<_>>()
    );
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

/// Settings by which the ranks meet at a port of the loopback.
pub fn named(port: &Port) -> NetSettings {
    NetSettings {
        comm_id: Some(format!("127.0.0.1:{}", port.number())),
        ..settings()
    }
}

/// Lines that a rank has told its user.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    /// These settings, with everything that is told to the user kept here.
    pub fn by(&self, settings: NetSettings) -> NetSettings {
        let sink = Arc::clone(&self.0);
        NetSettings {
            warn: Arc::new(move |text| sink.lock().unwrap().push(text.into())),
            ..settings
        }
    }

    pub fn words(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for the first `count` sentences. (The test ends within its time, whatever comes.)
    pub fn wait_for(&self, count: usize) {
        while self.words().len() < count {
            pause(5);
        }
    }
}

/// With an id that was made by these settings, a rank that has checked in is told at once who is
/// missing: its first sentence to the user says that it is there.
pub fn talkative() -> NetSettings {
    NetSettings {
        warn_after: Duration::from_millis(1),
        ..settings()
    }
}

const OWN_PROCESS: &str = "KOLO_TEST_BOOTSTRAP_OWN_PROCESS";

/// True in a process that runs this test and no other; the caller returns where it is false, after
/// that process has passed.
pub fn has_own_process(test: &str) -> bool {
    if std::env::var_os(OWN_PROCESS).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(OWN_PROCESS, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{text}{errors}");
    false
}

/// Gives this thread, and those that it starts, a network of their own with nothing but a loopback;
/// false where the system does not allow that.
pub fn own_network() -> bool {
    // SAFETY: plain system calls on values of this function; a request is a name and flags.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNET) != 0 {
            return false;
        }
        let socket = OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0));
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) == 0
    }
}

pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Magic and version of the bootstrap's hello.
pub const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOHI\r\n",
    version: 4,
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

/// Hello with which a rank checks in that listens on a port of the loopback.
pub fn check_in(id: &UniqueId, rank: u32, nranks: u32, port: u16) -> Hello {
    let address = (IpAddr::from([127, 0, 0, 1]), port, 0_u32);
    let process: [u8; 16] = proof::random().unwrap();
    let said = (rank, nranks, 0_u32, address, "", process);
    Hello {
        purpose: 1,
        offers: 1,
        id: public(id),
        nonce: proof::random().unwrap(),
        body: postcard::to_stdvec(&said).unwrap(),
    }
}
