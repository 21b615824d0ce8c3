//! Connections that are no senders: they must neither harm nor delay those that are.

use super::support::*;
use kolo::transport::net::Net;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// A hello as a sender writes it; `secret` as in the handle.
fn hello(version: u16, socket: u16, sockets: u16, connection: u64, secret: &[u8]) -> Vec<u8> {
    let mut bytes = b"KOLOnet\xf1".to_vec();
    for number in [version, socket, sockets, 0] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(connection.to_be_bytes());
    bytes.extend(secret);
    bytes.resize(60, 0);
    bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
    bytes
}

/// One stray: silent, garbage, half a hello, a whole one with a bad secret or an impossible number.
fn stray(port: u16, secret: &[u8], random: &mut fastrand::Rng) -> Option<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let wrong: Vec<u8> = secret.iter().map(|byte| byte ^ 1).collect();
    let length = random.usize(..300);
    let bytes = match random.u8(..8) {
        0 => Vec::new(),
        1 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        2 => hello(1, 0, 1, 5, secret)[..random.usize(1..64)].to_vec(),
        3 => hello(1, 0, 1, 5, &wrong),
        4 => hello(1, 9, 4, random.u64(..), secret),
        5 => hello(1, 0, 65_535, random.u64(..), secret),
        // A connection whose other sockets never come.
        6 => hello(1, 1, 2, random.u64(..), secret),
        _ => random_bytes(random, length),
    };
    // The other side may have hung up already, as it should.
    let _ = stream.write_all(&bytes);
    random.bool().then_some(stream)
}

#[test]
fn strays_before_during_and_after_a_real_connection() {
    for seed in seeds(&[1, 2, 3]) {
        within(60, move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let net = net(4);
            let (handle, mut listener) = net.listen(0).unwrap();
            let (port, secret) = (port_of(&handle), handle.bytes()[32..48].to_vec());
            let mut held = Vec::new();
            for _ in 0..200 {
                held.extend(stray(port, &secret, &mut random));
            }
            let start = Instant::now();
            let mut connecting = net.connect(0, &handle).unwrap();
            // Some come between the sockets of the real one.
            assert!(connecting.poll().unwrap().is_none());
            for _ in 0..100 {
                held.extend(stray(port, &secret, &mut random));
            }
            let mut pair = meet(connecting.as_mut(), listener.as_mut()).unwrap();
            assert!(
                start.elapsed() < Duration::from_secs(2),
                "{:?}",
                start.elapsed()
            );
            for _ in 0..20 {
                held.extend(stray(port, &secret, &mut random));
                assert!(listener.accept().unwrap().is_none());
                let length = random.usize(..2_000_000);
                let data = random_bytes(&mut random, length);
                assert!(carry(&mut pair, data.clone()).unwrap() == data);
            }
            // The listener is as good as before.
            let mut more = net.connect(0, &handle).unwrap();
            let mut second = meet(more.as_mut(), listener.as_mut()).unwrap();
            assert_eq!(carry(&mut second, vec![1; 9]).unwrap(), [1; 9]);
        });
    }
}

/// Whether the other side has hung up.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn strangers_are_thrown_out_and_their_number_is_bounded() {
    within(60, || {
        let net = net(1);
        let (handle, mut listener) = net.listen(0).unwrap();
        let (port, secret) = (port_of(&handle), handle.bytes()[32..48].to_vec());
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        // Garbage goes at the first byte.
        let mut garbage = connect();
        garbage.write_all(b"x").unwrap();
        let mut wrong = connect();
        wrong.write_all(&hello(1, 0, 1, 5, &[9; 16])).unwrap();
        until(5, || {
            assert!(listener.accept().unwrap().is_none());
            Ok(is_closed(&mut garbage) && is_closed(&mut wrong))
        })
        .unwrap();
        // Of many that say nothing, the oldest go; all go after a while.
        let mut silent: Vec<_> = (0..200).map(|_| connect()).collect();
        let mut half = connect();
        half.write_all(&hello(1, 0, 2, 5, &secret)).unwrap();
        until(5, || {
            assert!(listener.accept().unwrap().is_none());
            Ok(silent[..72].iter_mut().all(is_closed))
        })
        .unwrap();
        assert!(!is_closed(&mut silent[199]) && !is_closed(&mut half));
        until(15, || {
            assert!(listener.accept().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(20));
            Ok(silent.iter_mut().all(is_closed) && is_closed(&mut half))
        })
        .unwrap();
    });
}

#[test]
fn another_version_is_told_so() {
    within(30, || {
        let net = net(1);
        let (handle, mut listener) = net.listen(0).unwrap();
        let mut old = TcpStream::connect((Ipv4Addr::LOCALHOST, port_of(&handle))).unwrap();
        old.write_all(&hello(77, 0, 1, 5, &handle.bytes()[32..48]))
            .unwrap();
        old.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        until(5, || {
            assert!(listener.accept().unwrap().is_none());
            let mut first = [0];
            Ok(old.peek(&mut first).is_ok())
        })
        .unwrap();
        let mut answer = [0; 24];
        old.read_exact(&mut answer).unwrap();
        assert_eq!(&answer[..10], b"KOLOnet\xf2\0\x01");
        // The other way round: a sender that meets another version gives up at once.
        let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        let mut connecting = net.connect(0, &redirected(&handle, port)).unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = other.accept().unwrap();
            let mut hello = [0; 64];
            stream.read_exact(&mut hello).unwrap();
            let mut welcome = b"KOLOnet\xf2\0\x4d\0\0".to_vec();
            welcome.extend(&hello[16..24]);
            welcome.extend(crc32c::crc32c(&welcome).to_be_bytes());
            stream.write_all(&welcome).unwrap();
            stream
        });
        let start = Instant::now();
        let error = until_error(10, || connecting.poll().map(|c| c.is_some()));
        assert!(error.what.contains("version 77"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(2));
        drop(peer.join().unwrap());
    });
}

#[test]
fn a_wrong_handle_is_an_error_in_time() {
    within(30, || {
        let net = net(2);
        let (handle, mut listener) = net.listen(0).unwrap();
        let (other, _other_listener) = net.listen(0).unwrap();
        let mut connecting = net
            .connect(0, &redirected(&other, port_of(&handle)))
            .unwrap();
        let error = until_error(10, || {
            assert!(listener.accept().unwrap().is_none());
            connecting.poll().map(|c| c.is_some())
        });
        assert!(error.what.contains("hung up before the welcome"), "{error}");
        // Its own sender still comes in.
        let mut own = net.connect(0, &handle).unwrap();
        meet(own.as_mut(), listener.as_mut()).unwrap();
    });
}
