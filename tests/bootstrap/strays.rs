//! Connections that are no ranks: they must neither harm nor delay those that are.

use super::support::*;
use kolo::bootstrap::{NetSettings, UniqueId};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Settings with which a silent connection is thrown out only when all is over.
fn patient() -> NetSettings {
    NetSettings {
        hello_limit: Duration::from_secs(600),
        ..settings()
    }
}

#[test]
fn the_root_never_echoes_a_secret() {
    within(30, || {
        let id = UniqueId::create(&settings()).unwrap();
        let (secret, offered) = (&id.as_bytes()[32..64], [7u8; 16]);
        let mut hello = check_in(&id, 0, 2, 9);
        hello.id = offered;
        let mut stream = TcpStream::connect(id.address()).unwrap();
        stream.write_all(&hello.encode(PROTOCOL)).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        assert!(String::from_utf8_lossy(&reply).contains("secret in the unique id is not"));
        for needle in [secret, &offered] {
            assert!(
                !reply
                    .windows(8)
                    .any(|window| needle.windows(8).any(|n| n == window))
            );
        }
    });
}

/// Sockets of a process, by the kernel's own tables: the words of the line of each.
fn sockets(process: &str) -> Vec<Vec<String>> {
    let mut inodes = HashSet::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .flatten()
    {
        if let Ok(target) = std::fs::read_link(entry.path()) {
            let name = target.to_string_lossy().into_owned();
            let inode = name
                .strip_prefix("socket:[")
                .and_then(|n| n.strip_suffix(']'));
            inodes.extend(inode.map(str::to_string));
        }
    }
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    let lines = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().map(str::to_string).collect());
    lines
        .filter(|words: &Vec<String>| inodes.contains(&words[9]))
        .collect()
}

/// Ports on which this process listens.
pub fn listening_ports() -> Vec<u16> {
    let sockets = sockets("self").into_iter().filter(|words| words[3] == "0A");
    sockets
        .filter_map(|words| u16::from_str_radix(words[1].rsplit(':').next()?, 16).ok())
        .collect()
}

/// Whether something lies before a process that it has not read.
pub fn has_unread_data(process: u32) -> bool {
    let mut sockets = sockets(&process.to_string()).into_iter();
    sockets.any(|words| words[3] == "01" && !words[4].ends_with(":00000000"))
}

/// One stray connection: silent, garbage, half a hello, or a whole one without the proof.
fn stray(port: u16, random: &mut fastrand::Rng) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    let mut bytes = vec![0; random.usize(..400)];
    random.fill(&mut bytes);
    match random.u8(..5) {
        0 => bytes.clear(),
        1 => bytes = b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        2 if bytes.len() > 11 => bytes[..8].copy_from_slice(b"KOLOHI\r\n"),
        3 if bytes.len() > 11 => {
            bytes[..8].copy_from_slice(b"KOLOHI\r\n");
            bytes[8..10].copy_from_slice(&PROTOCOL.version.to_be_bytes());
            bytes[10] = random.u8(1..3);
            bytes[11] = 1;
        }
        _ => {}
    }
    // The other side may have hung up already, as it should.
    let _ = stream.write_all(&bytes);
    random.bool().then_some(stream)
}

#[test]
fn garbage_on_every_port_while_ranks_meet() {
    // All that listens in it belongs to this test.
    if !has_own_process("strays::garbage_on_every_port_while_ranks_meet") {
        return;
    }
    let seed = std::env::var("KOLO_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    for seed in seed.map_or(vec![1, 2, 3], |seed| vec![seed]) {
        println!("KOLO_TEST_SEED={seed}");
        within(60, move || {
            let mut random = fastrand::Rng::with_seed(seed);
            // Whoever waited for the silent ones among the strays would wait longer than the test.
            let id = UniqueId::create(&patient()).unwrap();
            let mut ranks: Vec<_> = (0..5).map(|rank| start(id, rank, 6, patient())).collect();
            // That of the root, and one of each rank.
            while listening_ports().len() < 6 {
                pause(5);
            }
            let ports = listening_ports();
            assert_eq!(ports.len(), 6, "{ports:?}");
            let mut held = Vec::new();
            for _ in 0..600 {
                held.extend(stray(ports[random.usize(..ports.len())], &mut random));
            }
            ranks.push(start(id, 5, 6, patient()));
            for _ in 0..100 {
                held.extend(stray(ports[random.usize(..ports.len())], &mut random));
            }
            let members: Vec<_> = ranks
                .into_iter()
                .map(|r| r.join().unwrap().unwrap())
                .collect();
            each(&members, check_exchange);
            drop(held);
        });
    }
}

#[test]
fn more_silent_connections_than_the_root_keeps() {
    within(60, || {
        let id = UniqueId::create(&patient()).unwrap();
        let first = start(id, 0, 2, patient());
        let silent: Vec<_> = (0..1500)
            .map(|_| TcpStream::connect(id.address()).unwrap())
            .collect();
        let second = start(id, 1, 2, patient()).join().unwrap().unwrap();
        let members = [first.join().unwrap().unwrap(), second];
        each(&members, check_exchange);
        drop(silent);
    });
}

#[test]
fn silent_connections_are_thrown_out_after_their_time() {
    within(30, || {
        let hasty = NetSettings {
            hello_limit: Duration::from_millis(100),
            ..settings()
        };
        let id = UniqueId::create(&hasty).unwrap();
        let mut silent = TcpStream::connect(id.address()).unwrap();
        assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0);
        // One byte at a time does not help.
        let mut slow = TcpStream::connect(id.address()).unwrap();
        // This would go on for four seconds; its time is over long before.
        let sent = (0..128).take_while(|at| {
            pause(30);
            slow.write_all(&[b"KOLOHI\r\n"[at % 8]]).is_ok()
        });
        assert!(sent.count() < 128);
    });
}
