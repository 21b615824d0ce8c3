//! Messages arrive whole, in their buffers, whatever their size, order and number.

use super::support::*;
use kolo::base::{Code, interfaces::Family};
use kolo::transport::net::Net;
use kolo::transport::net::socket::{SocketNet, SocketOptions};

/// A size that is often small, often near a limit of the cutting, at most 8 MiB.
fn size(random: &mut fastrand::Rng) -> usize {
    let edges = [0, 1, 4048, 4096, 64 << 10, 128 << 10, 1 << 20, 2 << 20];
    match random.u8(..4) {
        0 => random.usize(..200),
        1 => (edges[random.usize(..edges.len())] + random.usize(..5)).saturating_sub(2),
        2 => random.usize(..300_000),
        _ => random.usize(..=8 << 20),
    }
}

/// Sends `count` random messages, several at a time, with tags that are posted in another order,
/// and compares every byte.
fn storm(pair: &mut Pair, random: &mut fastrand::Rng, count: usize) {
    let mut waiting: Vec<Sending> = Vec::new();
    let mut posted: Vec<(Receiving, Vec<usize>)> = Vec::new();
    let data: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let bytes = size(random);
            random_bytes(random, bytes)
        })
        .collect();
    // Buffers of one request; each tag is the number of its message. Buffers may be too large.
    let mut order: Vec<usize> = (0..count).collect();
    let mut at = 0;
    while at < count {
        let group = random.usize(1..=8).min(count - at);
        let numbers = order[at..at + group].to_vec();
        let spare = random.usize(..3);
        let wanted: Vec<(usize, u32)> = numbers
            .iter()
            .map(|&n| (data[n].len() + spare, n as u32))
            .collect();
        posted.push((Receiving::new(&wanted), numbers));
        at += group;
    }
    // Sent in another order, but near enough that the buffers are posted.
    for chunk in order.chunks_mut(12) {
        random.shuffle(chunk);
    }
    waiting.extend(
        order
            .iter()
            .map(|&n| Sending::new(data[n].clone(), n as u32)),
    );
    until(60, || {
        // Few at a time are tested, so that many are in flight.
        for (receiving, _) in posted.iter_mut().filter(|(r, _)| r.sizes.is_none()).take(8) {
            receiving.step(pair.1.as_mut())?;
        }
        for sending in waiting.iter_mut().filter(|s| !s.done).take(16) {
            sending.step(pair.0.as_mut())?;
        }
        let received = posted.iter().all(|(r, _)| r.sizes.is_some());
        Ok(received && waiting.iter().all(|s| s.done))
    })
    .unwrap();
    for (receiving, numbers) in &posted {
        for (index, &n) in numbers.iter().enumerate() {
            assert!(receiving.message(index) == data[n], "message {n} differs");
        }
    }
}

#[test]
fn random_messages_over_one_two_and_four_sockets() {
    for seed in seeds(&[1, 2]) {
        for sockets in [1, 2, 4] {
            for checksum in [false, true] {
                println!("seed {seed}, {sockets} sockets, checksum {checksum}");
                within(120, move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let net = SocketNet::new(SocketOptions {
                        checksum,
                        ..options(sockets)
                    });
                    let mut pair = pair_on(&net.unwrap(), 0);
                    storm(&mut pair, &mut random, 24);
                    pair.0.close().unwrap();
                    pair.1.close().unwrap();
                });
            }
        }
    }
}

#[test]
fn both_directions_and_ipv6() {
    within(60, || {
        // IPv6's loopback is not taken by itself; any other address of this machine will do, else
        // the test of this family says that it did not run.
        let found = kolo::base::interfaces::discover().unwrap();
        let six = found.iter().find(|i| match i.address {
            std::net::IpAddr::V6(v6) => !v6.is_loopback() && i.scope != 0,
            std::net::IpAddr::V4(_) => false,
        });
        let mut nets = vec![net(2)];
        match six {
            Some(interface) => nets.push(
                SocketNet::new(SocketOptions {
                    ifname: Some(format!("={}", interface.name)),
                    family: Family::V6,
                    ..options(2)
                })
                .unwrap(),
            ),
            None => println!("skipped: this machine has no IPv6 address besides the loopback's"),
        }
        for net in nets {
            let mut random = fastrand::Rng::with_seed(5);
            let mut there = pair_on(&net, 0);
            let mut back = pair_on(&net, 0);
            std::thread::scope(|scope| {
                let mut other = random.fork();
                scope.spawn(|| storm(&mut there, &mut random, 12));
                scope.spawn(move || storm(&mut back, &mut other, 12));
            });
        }
    });
}

#[test]
fn a_message_waits_for_its_buffer() {
    within(30, || {
        let mut pair = pair(1);
        let mut sending = Sending::new(vec![5; 100], 3);
        for _ in 0..200 {
            assert!(!sending.step(pair.0.as_mut()).unwrap());
        }
        // A buffer of another tag does not help.
        let mut other = Receiving::new(&[(100, 4)]);
        other.step(pair.1.as_mut()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        for _ in 0..200 {
            assert!(!sending.step(pair.0.as_mut()).unwrap());
        }
        let mut receiving = Receiving::new(&[(100, 3)]);
        receiving.step(pair.1.as_mut()).unwrap();
        until(10, || {
            sending.step(pair.0.as_mut())?;
            receiving.step(pair.1.as_mut())?;
            Ok(sending.done && receiving.sizes.is_some())
        })
        .unwrap();
        assert_eq!(receiving.message(0), [5; 100]);
        assert!(other.sizes.is_none());
    });
}

#[test]
fn buffers_of_one_tag_are_filled_in_the_order_of_posting() {
    within(30, || {
        let mut pair = pair(4);
        let mut receiving: Vec<_> = (0..6).map(|_| Receiving::new(&[(200_000, 1)])).collect();
        let message = |n: usize| vec![n as u8; 200_000 - n];
        let mut sending: Vec<_> = (0..6).map(|n| Sending::new(message(n), 1)).collect();
        for one in &mut receiving {
            assert!(one.step(pair.1.as_mut()).unwrap());
        }
        until(20, || {
            let first = sending.iter_mut().find(|s| !s.started());
            first.map_or(Ok(false), |one| one.step(pair.0.as_mut()))?;
            for one in sending.iter_mut().filter(|s| s.started()) {
                one.step(pair.0.as_mut())?;
            }
            for one in &mut receiving {
                one.step(pair.1.as_mut())?;
            }
            Ok(receiving.iter().all(|r| r.sizes.is_some()))
        })
        .unwrap();
        for (n, one) in receiving.iter().enumerate() {
            assert!(one.message(0) == message(n), "message {n}");
        }
    });
}

#[test]
fn a_message_that_does_not_fit_is_an_error_at_both_ends() {
    within(30, || {
        let mut pair = pair(2);
        let mut receiving = Receiving::new(&[(1000, 9)]);
        receiving.step(pair.1.as_mut()).unwrap();
        let mut sending = Sending::new(vec![1; 1001], 9);
        let here = until_error(10, || sending.step(pair.0.as_mut()));
        let there = until_error(10, || receiving.step(pair.1.as_mut()));
        for error in [&here, &there] {
            assert_eq!(error.code, Code::InvalidUsage, "{error}");
            for part in ["1001 bytes", "1000 bytes", "tag 9", "interface lo"] {
                assert!(error.what.contains(part), "{error}");
            }
        }
        // The first error is the last word.
        let again = Sending::new(vec![1], 9).step(pair.0.as_mut());
        assert_eq!(again.unwrap_err(), here);
        assert!(receiving.buffers[0].0.iter().all(|&byte| byte == 0xee));
    });
}

#[test]
fn too_many_buffers_and_messages_must_wait() {
    within(30, || {
        let mut pair = pair(1);
        let mut posted: Vec<Receiving> = Vec::new();
        loop {
            let mut more = Receiving::new(&[(64, 1); 8]);
            if !more.step(pair.1.as_mut()).unwrap() {
                break;
            }
            posted.push(more);
        }
        assert_eq!(posted.len() * 8, 64);
        let none = Receiving::new(&[]).step(pair.1.as_mut()).unwrap_err();
        let nine = Receiving::new(&[(1, 1); 9])
            .step(pair.1.as_mut())
            .unwrap_err();
        assert!(none.code == Code::InvalidArgument && nine.code == Code::InvalidArgument);
        let mut sending: Vec<_> = (0..64).map(|n| Sending::new(vec![n; 64], 1)).collect();
        let mut at = 0;
        while sending[at].step(pair.0.as_mut()).unwrap() {
            at += 1;
        }
        assert_eq!(at, 32, "messages in flight that nobody tested");
        until(10, || {
            for one in &mut sending {
                one.step(pair.0.as_mut())?;
            }
            for one in &mut posted {
                one.step(pair.1.as_mut())?;
            }
            Ok(posted.iter().all(|p| p.sizes.is_some()) && sending.iter().all(|s| s.done))
        })
        .unwrap();
        for n in 0..64 {
            assert_eq!(posted[n / 8].message(n % 8), [n as u8; 64]);
        }
    });
}

#[test]
fn requests_are_asked_for_once() {
    within(30, || {
        let mut pair = pair(1);
        let mut receiving = Receiving::new(&[(8, 1)]);
        let mut sending = Sending::new(vec![1; 8], 1);
        until(10, || {
            receiving.step(pair.1.as_mut())?;
            sending.step(pair.0.as_mut())?;
            Ok(receiving.sizes.is_some())
        })
        .unwrap();
        let again = pair.1.test(receiving.request.as_ref().unwrap());
        assert_eq!(again.unwrap_err().code, Code::InvalidArgument);
        // A mistaken question does not break the connection.
        assert_eq!(carry(&mut pair, vec![4; 50]).unwrap(), [4; 50]);
        assert!(pair.1.flush(&[]).unwrap().is_none());
    });
}

#[test]
fn closing_while_something_is_in_flight_is_an_error() {
    within(30, || {
        let mut pair = pair(1);
        let mut receiving = Receiving::new(&[(8, 1)]);
        receiving.step(pair.1.as_mut()).unwrap();
        let mut sending = Sending::new(vec![1; 8], 1);
        until(10, || {
            sending.step(pair.0.as_mut())?;
            Ok(sending.started())
        })
        .unwrap();
        assert_eq!(pair.1.close().unwrap_err().code, Code::InvalidUsage);
        drop(pair.0);
    });
}

#[test]
fn what_was_sent_arrives_although_the_sender_closed() {
    within(60, || {
        for sockets in [1, 4] {
            let (mut sender, mut receiver) = pair(sockets);
            let mut random = fastrand::Rng::with_seed(3);
            // More buffers than messages: the sender closes with credits unread.
            let mut posted: Vec<_> = (0..8).map(|_| Receiving::new(&[(300_000, 1)])).collect();
            for one in &mut posted {
                one.step(receiver.as_mut()).unwrap();
            }
            let data = random_bytes(&mut random, 300_000);
            let mut sending = Sending::new(data.clone(), 1);
            until(10, || {
                sending.step(sender.as_mut())?;
                posted[0].step(receiver.as_mut())?;
                Ok(sending.done)
            })
            .unwrap();
            sender.close().unwrap();
            until(10, || {
                posted[0].step(receiver.as_mut())?;
                Ok(posted[0].sizes.is_some())
            })
            .unwrap();
            assert!(posted[0].message(0) == data);
            let error = until_error(10, || posted[1].step(receiver.as_mut()));
            assert_eq!(error.code, Code::RemoteError, "{error}");
        }
    });
}

#[test]
fn listens_only_on_the_address_of_its_interface() {
    within(30, || {
        let net = net(1);
        let (handle, _listener) = net.listen(0).unwrap();
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let port = format!(":{:04X}", port_of(&handle));
        let listening = table.lines().filter(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[3] == "0A" && words[1].ends_with(&port)
        });
        let addresses: Vec<&str> = listening.collect();
        assert_eq!(addresses.len(), 1);
        assert!(addresses[0].contains("0100007F:"), "{addresses:?}");
    });
}
