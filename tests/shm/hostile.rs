//! Connections from strangers: garbage, wrong secrets, idlers, floods. The job does not notice.

use super::job;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// A connection to the service named `name`.
fn connect(name: &str, kind: libc::c_int) -> Option<OwnedFd> {
    // SAFETY: all-zero bytes are a valid `sockaddr_un`; the new descriptor is owned by `fd` alone;
    // the address is filled for the length given.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, byte) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
            *to = byte as libc::c_char;
        }
        let length = size_of::<libc::sa_family_t>() + 1 + name.len();
        let length = length as libc::socklen_t;
        let result = libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length);
        (result == 0).then_some(fd)
    }
}

fn send(fd: &OwnedFd, bytes: &[u8]) {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `bytes` is readable. The service may have closed the connection: no matter.
    unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
}

/// Whether the service closes the connection within `limit`, and sends nothing before.
fn is_closed(fd: &OwnedFd, limit: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let mut bytes = [0_u8; 128];
        // SAFETY: `bytes` is writable for its length.
        let result = unsafe {
            let at = bytes.as_mut_ptr().cast();
            libc::recv(fd.as_raw_fd(), at, bytes.len(), libc::MSG_DONTWAIT)
        };
        let error = std::io::Error::last_os_error();
        match result {
            0 => return true,
            -1 if error.kind() == std::io::ErrorKind::WouldBlock => {}
            -1 => return true,
            _ => return false,
        }
        if begun.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Of the messages between services: `anybody_with_the_secret_is_welcome` fails when it is another.
const VERSION: u16 = 2;
/// Their kinds.
const KINDS: std::ops::RangeInclusive<u16> = 1..=12;
const HELLO: u16 = 1;
const WELCOME: u16 = 2;
const GET_FD: u16 = 4;
const BYE: u16 = 6;

/// A message of the right form, of any kind and with any secret.
fn frame(kind: u16, secret: u128, random: &mut fastrand::Rng) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..4].copy_from_slice(b"kolo");
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[6..8].copy_from_slice(&kind.to_le_bytes());
    bytes[8..16].copy_from_slice(&random.u64(..).to_le_bytes());
    bytes[16..32].copy_from_slice(&secret.to_le_bytes());
    bytes[32..36].copy_from_slice(&random.u32(..8).to_le_bytes());
    bytes
}

/// One seeded attack.
fn attack(name: &str, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let Some(fd) = connect(name, libc::SOCK_SEQPACKET) else {
        panic!("the service no longer accepts connections (seed {seed})");
    };
    match random.u32(0..7) {
        0 => {
            for _ in 0..random.usize(1..20) {
                let length = random.usize(1..2000);
                let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
                send(&fd, &bytes);
            }
        }
        1 => send(&fd, &frame(random.u16(KINDS), random.u128(..), &mut random)),
        // Hello, of a communicator that nobody knows.
        2 => send(&fd, &frame(HELLO, random.u128(..), &mut random)),
        3 => {
            // The secret of a communicator helps nobody who does not say hello first.
            let kinds: Vec<u16> = KINDS
                .filter(|kind| ![HELLO, GET_FD].contains(kind))
                .collect();
            let kind = kinds[random.usize(..kinds.len())];
            send(&fd, &frame(kind, super::scenarios::NONCE, &mut random));
        }
        4 => {
            let mut bytes = frame(random.u16(KINDS), random.u128(..), &mut random);
            bytes[random.usize(..64)] ^= 1 << random.u32(..8);
            send(&fd, &bytes[..random.usize(1..=64)]);
        }
        5 => send(&fd, &[]),
        _ => return, // Leaves without a word.
    }
    assert!(is_closed(&fd, Duration::from_secs(4)), "seed {seed}");
}

/// The next message that the service sends.
fn answer(fd: &OwnedFd) -> [u8; 64] {
    let mut bytes = [0_u8; 64];
    // SAFETY: `bytes` is writable for its length.
    let got = unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), 64, 0) };
    assert_eq!(got, 64, "the service closes the connection");
    bytes
}

/// Without this, the attacks would only show that messages of another form are refused.
#[test]
fn anybody_with_the_secret_is_welcome() {
    let mut job = job::start("watch", &[&[0], &[1]]);
    let name = job[0].hear("address");
    job[1].hear("address");
    job.iter().for_each(|process| drop(process.hear("ready")));
    let fd = connect(&name, libc::SOCK_SEQPACKET).expect("a listener");
    let mut random = fastrand::Rng::with_seed(1);
    let mut hello = frame(HELLO, super::scenarios::NONCE, &mut random);
    hello[32] = 9;
    send(&fd, &hello);
    assert_eq!(answer(&fd)[6..8], WELCOME.to_le_bytes());
    // It takes its leave, so its end is nobody's death.
    let mut bye = frame(BYE, super::scenarios::NONCE, &mut random);
    bye[32] = 9;
    send(&fd, &bye);
    // The answer to one more hello, of which the service is asked about another communicator, comes
    // after the goodbye was understood.
    send(&fd, &frame(HELLO, 7, &mut random));
    answer(&fd);
    drop(fd);
    job[1].kill();
    job[0].hear("death of 1:");
    job.truncate(1);
    job.into_iter().for_each(job::Process::finish);
}

#[test]
fn strangers_do_no_harm() {
    let mut job = job::start("watch", &[&[0], &[1], &[2]]);
    let names: Vec<String> = job.iter().map(|process| process.hear("address")).collect();
    job.iter().for_each(|process| drop(process.hear("ready")));
    for seed in 0..400 {
        attack(&names[seed as usize % 3], seed);
    }
    assert!(connect(&names[0], libc::SOCK_STREAM).is_none());
    // More idlers than a service keeps: the oldest are closed, and it still answers.
    let idlers: Vec<_> = (0..400)
        .filter_map(|_| connect(&names[0], libc::SOCK_SEQPACKET))
        .collect();
    assert!(is_closed(&idlers[0], Duration::from_secs(4)));
    attack(&names[0], 1000);
    // The rest have their time.
    assert!(is_closed(&idlers[399], Duration::from_secs(8)));
    // The watch still works.
    job[2].kill();
    for process in &job[..2] {
        process.hear("death of 2:");
    }
    job.truncate(2);
    job.into_iter().for_each(job::Process::finish);
}

/// Rank 0 has 0, 1, 2, ... descriptors left while the two make a communicator: it succeeds, or both
/// fail soon and say why. (A rank that cannot let the other in must not leave it waiting.)
#[test]
fn few_descriptors_are_enough_or_a_sentence_for_all() {
    let job = job::start("few", &[&[0], &[1]]);
    let (mut cannot_reach, mut last) = (0, String::new());
    for left in 0..=super::scenarios::MOST_LEFT {
        let said: Vec<String> = job
            .iter()
            .map(|it| it.hear(&format!("{left} left:")))
            .collect();
        assert_eq!(said[0] == "joined", said[1] == "joined", "{left}: {said:?}");
        last.clone_from(&said[0]);
        if said[0] == "joined" {
            continue;
        }
        for text in &said {
            let cause = format!(
                "no file descriptor left (ulimit -n {})",
                super::scenarios::FEW
            );
            assert!(text.contains(&cause), "{left}: {text}");
            assert!(
                text.contains("Remedy: ") && text.contains("ulimit -n 65536"),
                "{left}: {text}"
            );
        }
        let unreached = "rank 1 cannot reach rank 0";
        cannot_reach += usize::from(said.iter().all(|text| text.contains(unreached)));
    }
    assert_eq!(last, "joined");
    assert!(cannot_reach > 0, "rank 0 never failed to let rank 1 in");
    job.into_iter().for_each(job::Process::finish);
}

#[test]
fn a_full_table_of_descriptors_is_a_sentence_and_does_not_spin() {
    let job = job::start("emfile", &[&[0], &[1]]);
    let name = job[0].hear("address");
    let own = job[0].hear("kolo: rank 0:");
    assert!(
        own.contains("os error 24") && own.contains("ulimit -n"),
        "{own}"
    );
    let told = job[1].hear("kolo: rank 1: [peer 0] rank 0 could not join:");
    assert!(
        told.contains("os error 24") && told.contains("ulimit -n"),
        "{told}"
    );
    job[0].hear("full");
    let stranger = connect(&name, libc::SOCK_SEQPACKET).unwrap();
    send(&stranger, &[0; 64]);
    // Its reserve lies beyond this limit: it cannot even say so.
    assert!(!is_closed(&stranger, Duration::from_millis(500)));
    job[0].hear("room again");
    assert!(is_closed(&stranger, Duration::from_secs(20)));
    job.into_iter().for_each(job::Process::finish);
}
