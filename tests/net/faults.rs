//! Tests of faults on the way or at the peer: they are noticed, named, and cost no memory.

use super::proxy::Proxy;
use super::support::*;
use crate::alone::alone;
use crate::within::within;
use kolo::base::Code;
use kolo::transport::net::Net;
use kolo::transport::net::socket::{SocketNet, SocketOptions};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A connection whose sockets pass a disturbance.
fn pair_through(sockets: u16, checksum: bool) -> (Pair, Proxy) {
    pair_by(SocketOptions {
        checksum,
        ..options(sockets)
    })
}

fn pair_by(options: SocketOptions) -> (Pair, Proxy) {
    let net = SocketNet::new(options).unwrap();
    let (handle, mut listener) = net.listen(0).unwrap();
    let proxy = Proxy::before(port_of(&handle));
    let mut connecting = net.connect(0, &redirected(&handle, proxy.port)).unwrap();
    let pair = meet(connecting.as_mut(), listener.as_mut()).unwrap();
    (pair, proxy)
}

#[test]
fn a_flipped_bit_in_a_message_is_an_error_with_checksums() {
    within(120, || {
        let mut random = fastrand::Rng::with_seed(1);
        for (bytes, at) in [(9, 50), (5_000, 4_900), (3_000_000, 2_000_000)] {
            let (mut pair, proxy) = pair_through(2, true);
            let data = random_bytes(&mut random, bytes);
            assert!(carry(&mut pair, data.clone()).unwrap() == data);
            proxy.disturb.flip_after.store(at, Ordering::Relaxed);
            let error = carry(&mut pair, data).unwrap_err();
            assert_eq!(error.code, Code::RemoteError, "{error}");
            for part in ["checksum", "interface lo", "127.0.0.1", "tag 7"] {
                assert!(error.what.contains(part), "{error}");
            }
        }
    });
}

#[test]
fn without_checksums_a_flipped_bit_passes_as_tcp_lets_it() {
    within(60, || {
        let (mut pair, proxy) = pair_through(1, false);
        proxy.disturb.flip_after.store(60, Ordering::Relaxed);
        let got = carry(&mut pair, vec![0; 100]).unwrap();
        assert_eq!(got.iter().filter(|&&byte| byte != 0).count(), 1);
    });
}

#[test]
fn a_flipped_bit_in_a_header_is_always_an_error() {
    within(120, || {
        for at in [0, 1, 5, 12, 20, 30, 33, 37, 47] {
            let (mut pair, proxy) = pair_through(1, false);
            proxy.disturb.flip_after.store(at, Ordering::Relaxed);
            let error = carry(&mut pair, vec![7; 1000]).unwrap_err();
            assert!(error.what.contains("damaged"), "byte {at}: {error}");
        }
    });
}

#[test]
fn a_stall_of_a_second_is_survived() {
    within(60, || {
        let (mut pair, proxy) = pair_through(4, false);
        let mut random = fastrand::Rng::with_seed(2);
        let data = random_bytes(&mut random, 8 << 20);
        let disturb = proxy.disturb.clone();
        disturb.stall.store(true, Ordering::Relaxed);
        let wake = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(1));
            disturb.stall.store(false, Ordering::Relaxed);
        });
        let start = Instant::now();
        assert!(carry(&mut pair, data.clone()).unwrap() == data);
        assert!(start.elapsed() >= Duration::from_millis(900));
        wake.join().unwrap();
    });
}

#[test]
fn a_cut_is_an_error_at_both_ends_at_once() {
    within(60, || {
        for sockets in [1, 4] {
            // It is not the limit of the link that ends them.
            let (mut pair, proxy) = pair_by(SocketOptions {
                link_timeout: Some(Duration::from_secs(600)),
                ..options(sockets)
            });
            let mut receiving = Receiving::new(&[(8 << 20, 1)]);
            let mut sending = Sending::new(vec![3; 8 << 20], 1);
            // Nobody reads, so that it is cut in the middle.
            receiving.step(pair.1.as_mut()).unwrap();
            until(10, || {
                sending.step(pair.0.as_mut())?;
                Ok(proxy.disturb.passed.load(Ordering::Relaxed) > 1000)
            })
            .unwrap();
            proxy.disturb.cut.store(true, Ordering::Relaxed);
            let there = until_error(10, || receiving.step(pair.1.as_mut()));
            let here = until_error(10, || match sending.done {
                // The system took all of it before the cut: the next message shows it.
                true => Sending::new(vec![1], 1).step(pair.0.as_mut()),
                false => sending.step(pair.0.as_mut()),
            });
            for error in [here, there] {
                assert_eq!(error.code, Code::RemoteError, "{error}");
                assert!(error.what.contains("interface lo"), "{error}");
            }
        }
    });
}

/// Run as a process of its own by [`a_killed_peer_is_an_error_at_once`].
#[test]
#[ignore = "the other end of a test"]
fn receiver_that_will_be_killed() {
    let (handle, mut listener) = net(2).listen(0).unwrap();
    println!("HANDLE {:?}", handle.bytes());
    let mut receiver = loop {
        if let Some(receiver) = listener.accept().unwrap() {
            break receiver;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut first = Receiving::new(&[(100, 1), (100, 1)]);
    loop {
        first.step(receiver.as_mut()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_peer_is_an_error_at_once() {
    within(60, || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "faults::receiver_that_will_be_killed",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        let line = std::io::BufRead::lines(output)
            .map(|line| line.unwrap())
            .find_map(|line| Some(line.split_once("HANDLE ")?.1.to_string()))
            .unwrap();
        let numbers = line.trim_matches(|c| c == '[' || c == ']').split(", ");
        let bytes: Vec<u8> = numbers.map(|n| n.parse().unwrap()).collect();
        let handle = kolo::transport::net::Handle::new(&bytes).unwrap();
        let mut connecting = net(2).connect(0, &handle).unwrap();
        let mut sender = None;
        until(10, || {
            sender = connecting.poll()?;
            Ok(sender.is_some())
        })
        .unwrap();
        let mut sender = sender.unwrap();
        let mut sending = Sending::new(vec![1; 100], 1);
        until(10, || {
            sending.step(sender.as_mut())?;
            Ok(sending.done)
        })
        .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let error = until_error(10, || {
            let mut next = Sending::new(vec![1; 100], 1);
            next.step(sender.as_mut()).inspect(|_| {
                // The last credit may still be used; its message then goes nowhere.
                std::mem::forget(next.data);
            })
        });
        assert_eq!(error.code, Code::RemoteError, "{error}");
        // (A link that only falls silent is called something else.)
        assert!(error.what.contains("process ended"), "{error}");
    });
}

/// Memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn a_slow_reader_holds_the_sender_and_outlives_the_limit_of_the_link() {
    within(60, || alone("faults::alone_with_a_slow_reader", &[]));
}

/// Run alone in a process by the test above.
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_with_a_slow_reader() {
    within(60, || {
        let mut pair = pair(2);
        let mut random = fastrand::Rng::with_seed(8);
        let data = random_bytes(&mut random, 8 << 20);
        let mut receiving: Vec<_> = (0..8).map(|_| Receiving::new(&[(8 << 20, 1)])).collect();
        for one in &mut receiving {
            one.step(pair.1.as_mut()).unwrap();
        }
        let mut sending: Vec<_> = (0..9).map(|_| Sending::new(data.clone(), 1)).collect();
        let before = resident();
        // The reader does nothing for longer than a link may be silent (3 s): its system answers.
        let start = Instant::now();
        until(20, || {
            for one in &mut sending {
                one.step(pair.0.as_mut())?;
            }
            std::thread::sleep(Duration::from_micros(100));
            Ok(start.elapsed() > Duration::from_secs(6))
        })
        .unwrap();
        assert!(!sending[7].done, "somebody stores what nobody has read");
        assert!(!sending[8].started(), "no buffer was posted for it");
        let grown = resident().saturating_sub(before);
        assert!(grown < 2 << 20, "{grown} bytes more");
        until(20, || {
            for one in &mut sending[..8] {
                one.step(pair.0.as_mut())?;
            }
            for one in &mut receiving {
                one.step(pair.1.as_mut())?;
            }
            Ok(receiving.iter().all(|r| r.sizes.is_some()))
        })
        .unwrap();
        for one in &receiving {
            assert!(one.message(0) == data);
        }
    });
}

#[test]
fn nobody_listens_is_an_error_that_says_where() {
    within(30, || {
        let net = net(1);
        let (handle, listener) = net.listen(0).unwrap();
        drop(listener);
        let mut connecting = net.connect(0, &handle).unwrap();
        let error = until_error(10, || connecting.poll().map(|c| c.is_some()));
        assert_eq!(error.code, Code::RemoteError, "{error}");
        let address = format!("127.0.0.1:{}", port_of(&handle));
        assert!(
            error.what.contains(&address) && error.what.contains("lo"),
            "{error}"
        );
        assert!(connecting.poll().is_err());
    });
}

#[test]
fn nobody_listens_at_several_addresses_is_an_error_at_the_limit() {
    within(30, || {
        let limit = Duration::from_millis(300);
        let net = net_of_two_addresses(limit);
        let (handle, listener) = net.listen(0).unwrap();
        drop(listener);
        let mut connecting = net.connect(0, &handle).unwrap();
        let start = Instant::now();
        let error = until_error(10, || connecting.poll().map(|c| c.is_some()));
        // Somebody may still come: it tries again until then, as it does with one way.
        assert!(start.elapsed() >= limit / 4, "after {:?}", start.elapsed());
        assert_eq!(error.code, Code::RemoteError, "{error}");
        for part in ["refused", "to 127.0.0.1", "to 127.0.0.2"] {
            assert!(error.what.contains(part), "{error}");
        }
    });
}

/// Run alone in a process by [`nothing_is_left_after_close`].
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_open_and_close() {
    let count = |what: &str| std::fs::read_dir(what).unwrap().count();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut pairs: Vec<Pair> = (1..5).map(pair).collect();
        for pair in &mut pairs {
            assert_eq!(carry(pair, vec![1; 200_000]).unwrap(), [1; 200_000]);
        }
        let (opened, _) = (count("/proc/self/fd"), pairs.len());
        for (sender, receiver) in pairs {
            sender.close().unwrap();
            receiver.close().unwrap();
        }
        seen.push((opened, count("/proc/self/fd"), count("/proc/self/task")));
    }
    let (opened, closed, threads) = seen[0];
    assert_eq!(opened - closed, 2 * (1 + 2 + 3 + 4), "{seen:?}");
    assert_eq!(seen[2], (opened, closed, threads));
    // The test's own two: kolo needs no thread.
    assert_eq!(threads, 2, "{seen:?}");
}

#[test]
fn nothing_is_left_after_close() {
    within(60, || alone("faults::alone_open_and_close", &[]));
}
