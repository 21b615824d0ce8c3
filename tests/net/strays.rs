//! Connections that are no senders: they must neither harm nor delay those that are.

use super::support::*;
use crate::within::within;
use kolo::transport::net::Net;
use kolo::trust::knock::{Knock, Reply};
use kolo::trust::proof::{self, Hello, Key, Preamble};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOnet\xf1",
    version: 4,
};

/// First words of a sender.
fn hello(socket: u16, sockets: u16, connection: u64) -> Hello {
    Hello {
        purpose: 1,
        offers: 1,
        id: [0; 16],
        nonce: proof::random().unwrap(),
        body: postcard::to_stdvec(&(socket, sockets, connection)).unwrap(),
    }
}

fn key(secret: &[u8]) -> Key {
    Key::derive(secret, &[b"kolo net socket"])
}

/// Says hello on a socket and proves it, without a look at what comes back: the listener is served
/// by the caller.
fn prove(stream: TcpStream, said: &Hello, secret: &[u8], mut serve: impl FnMut()) -> TcpStream {
    stream.set_nonblocking(true).unwrap();
    let mut knock = Knock::new(stream, PROTOCOL, said);
    loop {
        match knock.go_on(|_| Some(key(secret))) {
            Reply::Wait(still) => knock = still,
            Reply::In(stream, _) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            _ => panic!("the listener does not prove itself"),
        }
        serve();
    }
}

/// One stray: silent, garbage, half a hello, a whole one without the proof or with an impossible
/// number.
fn stray(port: u16, random: &mut fastrand::Rng) -> Option<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let length = random.usize(..300);
    let whole = hello(0, 1, 5).encode(PROTOCOL);
    let bytes = match random.u8(..8) {
        0 => Vec::new(),
        1 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        2 => whole[..random.usize(1..whole.len())].to_vec(),
        3 => [whole, vec![9; 32]].concat(),
        4 => hello(9, 4, random.u64(..)).encode(PROTOCOL),
        5 => hello(0, 65_535, random.u64(..)).encode(PROTOCOL),
        6 => whole,
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
            let port = port_of(&handle);
            let mut held = Vec::new();
            for _ in 0..200 {
                held.extend(stray(port, &mut random));
            }
            let mut connecting = net.connect(0, &handle).unwrap();
            // Some come between the sockets of the real one.
            assert!(connecting.poll().unwrap().is_none());
            for _ in 0..100 {
                held.extend(stray(port, &mut random));
            }
            // Whoever gave each silent one its time would be at it for longer than this may take.
            let mut pair = meet(connecting.as_mut(), listener.as_mut()).unwrap();
            for _ in 0..20 {
                held.extend(stray(port, &mut random));
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
        let (port, secret) = (port_of(&handle), secret_of(&handle));
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        // Garbage goes at the first byte.
        let mut garbage = connect();
        garbage.write_all(b"x").unwrap();
        let mut wrong = connect();
        let unproven = [hello(0, 1, 5).encode(PROTOCOL), vec![9; 32]].concat();
        wrong.write_all(&unproven).unwrap();
        until(5, || {
            assert!(listener.accept().unwrap().is_none());
            // The wrong one hears the answer to its hello first.
            Ok(is_closed(&mut garbage) && is_closed(&mut wrong))
        })
        .unwrap();
        // Of many that say nothing, the oldest go; all go after a while.
        let mut silent: Vec<_> = (0..200).map(|_| connect()).collect();
        // A connection whose other sockets never come.
        let serve = || assert!(listener.accept().unwrap().is_none());
        let mut half = prove(connect(), &hello(0, 2, 5), &secret, serve);
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
        let newer = Preamble {
            version: 77,
            ..PROTOCOL
        };
        old.write_all(&hello(0, 1, 5).encode(newer)).unwrap();
        old.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        until(5, || {
            assert!(listener.accept().unwrap().is_none());
            let mut first = [0];
            Ok(old.peek(&mut first).is_ok())
        })
        .unwrap();
        let mut answer = [0; 24];
        old.read_exact(&mut answer).unwrap();
        assert_eq!(&answer[..10], b"KOLOnet\xf2\0\x04");
        // The other way round: a sender that meets another version gives up at once.
        let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        let mut connecting = net.connect(0, &redirected(&handle, port)).unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = other.accept().unwrap();
            let mut head = [0; 48];
            stream.read_exact(&mut head).unwrap();
            let mut body = vec![0; usize::from(u16::from_be_bytes([head[12], head[13]]))];
            stream.read_exact(&mut body).unwrap();
            let (.., connection): (u16, u16, u64) = postcard::from_bytes(&body).unwrap();
            let mut welcome = b"KOLOnet\xf2\0\x4d\0\0".to_vec();
            welcome.extend(connection.to_be_bytes());
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
        assert!(error.what.contains("does not know the secret"), "{error}");
        // Its own sender still comes in.
        let mut own = net.connect(0, &handle).unwrap();
        meet(own.as_mut(), listener.as_mut()).unwrap();
    });
}

/// Other ways help no sender whom the listener does not know at any of them.
#[test]
fn a_wrong_handle_of_several_addresses_is_an_error_at_once() {
    within(30, || {
        // It is not the limit of the link that ends it.
        let net = net_of_two_addresses(Duration::from_secs(600));
        let (handle, mut listener) = net.listen(0).unwrap();
        let (other, _other_listener) = net.listen(0).unwrap();
        let wrong = with_secret_of(&handle, &other);
        let mut connecting = net.connect(0, &wrong).unwrap();
        let error = until_error(10, || {
            assert!(listener.accept().unwrap().is_none());
            connecting.poll().map(|c| c.is_some())
        });
        let parts = ["does not know the secret", "to 127.0.0.1", "to 127.0.0.2"];
        for part in parts {
            assert!(error.what.contains(part), "{error}");
        }
        let mut own = net.connect(0, &handle).unwrap();
        meet(own.as_mut(), listener.as_mut()).unwrap();
    });
}

/// A sender's words and proof on a connection that was made are said again.
#[test]
fn a_replayed_sender_stays_outside() {
    within(30, || {
        let net = net(1);
        let (handle, mut listener) = net.listen(0).unwrap();
        let secret = secret_of(&handle);
        // A host of the test's own, with the listener's secret: what the sender says there is kept.
        let spy = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = spy.local_addr().unwrap().port();
        let mut connecting = net.connect(0, &redirected(&handle, port)).unwrap();
        let key = key(&secret);
        let kept = std::thread::spawn(move || {
            let (mut stream, _) = spy.accept().unwrap();
            let mut host = proof::Host::new(PROTOCOL);
            // The number of the connection takes more or fewer bytes, as it is random.
            let mut said = vec![0; 48];
            stream.read_exact(&mut said).unwrap();
            let mut body = vec![0; usize::from(u16::from_be_bytes([said[12], said[13]]))];
            stream.read_exact(&mut body).unwrap();
            said.extend(body);
            assert!(matches!(host.take(&said), proof::Event::Hello(_)));
            stream.write_all(&host.answer(1, &key, [3; 16])).unwrap();
            let mut confirm = [0; 32];
            stream.read_exact(&mut confirm).unwrap();
            assert_eq!(host.take(&confirm), proof::Event::Confirmed(true));
            said.extend(confirm);
            said
        });
        while !kept.is_finished() {
            let _ = connecting.poll();
            std::thread::yield_now();
        }
        let said = kept.join().unwrap();
        assert!(!said.windows(8).any(|w| secret.windows(8).any(|s| s == w)));
        let mut again = TcpStream::connect((Ipv4Addr::LOCALHOST, port_of(&handle))).unwrap();
        again.write_all(&said).unwrap();
        let mut heard = Vec::new();
        again
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        until(10, || {
            assert!(listener.accept().unwrap().is_none());
            Ok(again.read_to_end(&mut heard).is_ok())
        })
        .unwrap();
        assert_eq!(heard.len(), 64, "an answer, and no welcome");
    });
}
