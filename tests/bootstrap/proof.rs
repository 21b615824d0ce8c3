//! Both ends of a connection prove that they know the secret, and nobody says it.

use super::support::*;
use kolo::base::hash;
use kolo::bootstrap::{Bootstrap, NetSettings, TcpRing, UniqueId};
use kolo::trust::knock::{Knock, Reply};
use kolo::trust::proof::Key;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Changes the port of an id.
fn redirected(id: &UniqueId, port: u16) -> UniqueId {
    let mut bytes = *id.as_bytes();
    bytes[10..12].copy_from_slice(&port.to_be_bytes());
    let checksum = hash::fnv1a(&bytes[..120]).to_be_bytes();
    bytes[120..].copy_from_slice(&checksum);
    UniqueId::from_bytes(bytes).unwrap()
}

/// Whether eight bytes in a row of `secret` are among `bytes`.
fn holds(bytes: &[u8], secret: &[u8]) -> bool {
    let parts: std::collections::HashSet<&[u8]> = secret.windows(8).collect();
    bytes.windows(8).any(|window| parts.contains(window))
}

/// Everything that this thread's loopback carries, where the system lets this process listen.
struct Tap {
    socket: OwnedFd,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Vec<u8>>>,
}

impl Tap {
    fn open() -> Option<Tap> {
        // SAFETY: plain system calls on values of this function.
        let socket = unsafe {
            let all = 3_u16.to_be();
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(all));
            if fd < 0 {
                return None;
            }
            let socket = OwnedFd::from_raw_fd(fd);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = libc::if_nametoindex(c"lo".as_ptr()) as i32;
            let length = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
            let (room, wait) = (
                64 << 20,
                libc::timeval {
                    tv_sec: 0,
                    tv_usec: 50_000,
                },
            );
            set(fd, libc::SO_RCVBUFFORCE, &room);
            set(fd, libc::SO_RCVTIMEO, &wait);
            socket
        };
        let over = Arc::new(AtomicBool::new(false));
        let (fd, done) = (socket.as_raw_fd(), over.clone());
        let thread = std::thread::spawn(move || {
            let (mut seen, mut packet) = (Vec::new(), vec![0; 1 << 17]);
            loop {
                // SAFETY: the buffer has as many bytes.
                let got = unsafe { libc::recv(fd, packet.as_mut_ptr().cast(), packet.len(), 0) };
                match usize::try_from(got) {
                    Ok(length) => seen.extend_from_slice(&packet[..length]),
                    Err(_) if done.load(Ordering::SeqCst) => return seen,
                    Err(_) => {}
                }
            }
        });
        Some(Tap {
            socket,
            over,
            thread: Some(thread),
        })
    }

    fn close(mut self) -> Vec<u8> {
        self.over.store(true, Ordering::SeqCst);
        let seen = self.thread.take().unwrap().join().unwrap();
        drop(self.socket);
        seen
    }
}

/// # Safety
/// The option takes a value of this type.
unsafe fn set<T>(fd: i32, option: i32, value: &T) {
    let length = size_of::<T>() as u32;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the caller's promise.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, value, length) };
}

/// A listener that passes everything on to `target` and back, and keeps it.
fn relay(target: std::net::SocketAddr) -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let kept: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let all = kept.clone();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(target).unwrap();
            for (mut from, mut to) in [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            ] {
                let all = all.clone();
                let place = {
                    let mut all = all.lock().unwrap();
                    all.push(Vec::new());
                    all.len() - 1
                };
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        all.lock().unwrap()[place].extend_from_slice(&bytes[..count]);
                        if to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (port, kept)
}

/// All bytes of a start, and what the ranks hand to each other, are recorded: none of it shows the
/// secret, nor what is told in confidence (handles with secrets of their own go that way).
#[test]
fn nothing_that_crosses_a_socket_holds_the_secret() {
    within(60, || {
        let tap = own_network().then(Tap::open).flatten();
        // (Another limit is another port: that of other tests is in another network.)
        let settings = NetSettings {
            hello_limit: Duration::from_millis(4999),
            ..settings()
        };
        let id = UniqueId::create(&settings).unwrap();
        let (port, kept) = relay(id.address());
        let via = redirected(&id, port);
        let confidence: [u8; 64] = kolo::trust::proof::random().unwrap();
        let ranks: Vec<_> = (0..3).map(|r| start(via, r, 3, settings.clone())).collect();
        let members: Vec<_> = ranks
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        each(&members, |member| {
            assert_eq!(member.all_gather(&confidence).unwrap()[1], confidence);
        });
        drop(members);
        let secret = &id.as_bytes()[32..64];
        let relayed = kept.lock().unwrap().concat();
        assert!(holds(&relayed, &PROTOCOL.magic) && holds(&relayed, &public(&id)));
        assert!(!holds(&relayed, secret));
        let Some(tap) = tap else {
            println!("this process may not listen to the loopback: seen is what the relay saw");
            return;
        };
        pause(200);
        let seen = tap.close();
        assert!(holds(&seen, &PROTOCOL.magic) && holds(&seen, &public(&id)));
        assert!(!holds(&seen, secret) && !holds(&seen, &confidence));
    });
}

/// Of a hello, as it says itself, and of the proof behind it.
fn length(sent: &[u8]) -> usize {
    let body = sent.get(12..14).map_or([0; 2], |it| [it[0], it[1]]);
    48 + usize::from(u16::from_be_bytes(body)) + 32
}

/// The first connection of a whole start once more, byte for byte.
#[test]
fn a_replayed_check_in_is_dropped_and_harms_nobody() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let (port, kept) = relay(id.address());
        let first = start(redirected(&id, port), 0, 2, settings());
        while kept
            .lock()
            .unwrap()
            .first()
            .is_none_or(|sent| sent.len() < length(sent))
        {
            pause(5);
        }
        let said = kept.lock().unwrap()[0].clone();
        let mut stream = TcpStream::connect(id.address()).unwrap();
        stream.write_all(&said).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        // An answer, which is made with another number, and nothing after it: no welcome.
        assert_eq!(heard.len(), 64);
        assert_ne!(heard, kept.lock().unwrap()[1][..64]);
        let members = [
            start(id, 1, 2, settings()).join().unwrap().unwrap(),
            first.join().unwrap().unwrap(),
        ];
        each(&members, check_exchange);
    });
}

/// A listener sends back what it gets, twice, or answers without knowing the secret.
#[test]
fn a_rank_does_not_believe_who_only_pretends_to_be_the_root() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let other = UniqueId::create(&settings()).unwrap();
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = echo.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in echo.incoming().flatten() {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    let _ = stream.write_all(&bytes[..count].repeat(2));
                }
            }
        });
        // (The echo has no place for a tag, so it is the hello's own bytes that stand there.)
        let error = failure(start(redirected(&id, port), 1, 2, settings()));
        assert!(error.what.contains("does not know the secret"), "{error}");
        // Another root, asked for the id that it has, by somebody with another key.
        let stream = TcpStream::connect(other.address()).unwrap();
        let knock = Knock::new(stream, PROTOCOL, &check_in(&other, 0, 2, 9));
        let wrong = Key::derive(b"another", &[]);
        assert!(matches!(knock.go_on(|_| Some(wrong)), Reply::Stranger));
    });
}

#[test]
fn another_version_and_a_cut_hello_are_told_apart() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let talk = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(id.address()).unwrap();
            stream.write_all(bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            String::from_utf8_lossy(&heard).into_owned()
        };
        // As kolo of version 1 says it: 128 bytes.
        let mut old = b"KOLOHI\r\n\0\x01\x01\0".to_vec();
        old.resize(128, 0);
        let heard = talk(&old);
        assert!(heard.starts_with("KoFr"), "{heard}");
        assert!(
            heard.contains("protocol 1 was offered, this side speaks 4"),
            "{heard}"
        );
        let hello = check_in(&id, 0, 2, 9).encode(PROTOCOL);
        for length in [0, 1, 8, 10, 40, 48, hello.len() - 1] {
            assert_eq!(talk(&hello[..length]), "", "{length} bytes");
        }
        // A confirmation that is none.
        let garbage = [&hello[..], &[7; 32]].concat();
        assert_eq!(talk(&garbage).len().min(1), 1);
        let ranks: Vec<_> = (0..2).map(|r| start(id, r, 2, settings())).collect();
        let members: Vec<_> = ranks
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        each(&members, check_exchange);
    });
}

fn with_file(port: &Port, name: &str, byte: u8) -> NetSettings {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("kolo-proof-{name}-{}", std::process::id()));
    std::fs::write(&path, [byte; 32]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    NetSettings {
        secret_file: Some(path),
        munge_socket: Some("/nonexistent/munge".into()),
        start_limit: Duration::from_secs(20),
        ..named(port)
    }
}

/// Ranks that know only an address meet by the secret of a file; without it nobody comes in.
#[test]
fn a_file_lets_in_those_who_can_read_it() {
    within(60, || {
        let port = Port::take(HERE);
        let (right, wrong) = (with_file(&port, "right", 1), with_file(&port, "wrong", 2));
        let told = Told::default();
        // What rank 0 says without a proof is told, and looked past until the time is over.
        let soon = |settings: &NetSettings| NetSettings {
            start_limit: Duration::from_millis(300),
            ..told.by(settings.clone())
        };
        let nothing = NetSettings {
            secret_file: None,
            ..right.clone()
        };
        let id = UniqueId::create(&right).unwrap();
        let zero = start(id, 0, 2, right.clone());
        let error = failure(start(id, 1, 2, soon(&wrong)));
        assert!(error.what.contains("does not know the secret"), "{error}");
        let error = failure(start(id, 1, 2, soon(&nothing)));
        assert!(error.what.contains("has not proven"), "{error}");
        assert!(error.remedy.contains("KOLO_SECRET_FILE"), "{error}");
        let words = told.words().concat();
        assert!(words.contains("rank 0 by KOLO_SECRET_FILE"), "{words}");
        let one = start(id, 1, 2, right.clone());
        let members = [zero, one].map(|rank| rank.join().unwrap().unwrap());
        each(&members, check_exchange);
        for settings in [right, wrong] {
            std::fs::remove_file(settings.secret_file.unwrap()).unwrap();
        }
    });
}

/// As many as there are: they all meet, while the ids that nobody uses stay valid.
#[test]
fn ids_of_one_process_are_told_apart() {
    within(60, || {
        let ids: Vec<_> = (0..20)
            .map(|_| UniqueId::create(&settings()).unwrap())
            .collect();
        assert!(ids.iter().all(|id| id.address() == ids[0].address()));
        let ranks: Vec<_> = ids
            .iter()
            .skip(1)
            .flat_map(|id| (0..2).map(|rank| start(*id, rank, 2, settings())))
            .collect();
        let members: Vec<TcpRing> = ranks
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        for pair in members.chunks(2) {
            each(pair, check_exchange);
        }
        let late: Vec<_> = (0..2).map(|r| start(ids[0], r, 2, settings())).collect();
        let late: Vec<_> = late
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        each(&late, check_exchange);
    });
}
