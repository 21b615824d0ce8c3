//! Messages arrive whole, in their buffers, whatever their size, order and number: what every
//! network must do, over sockets, and the numbers of sockets.

use super::generic;
use super::skip::skip;
use super::support::*;
use crate::within::within;
use kolo::base::interfaces::Family;
use kolo::transport::net::socket::{SocketNet, SocketOptions};
use kolo::transport::net::{AT_ONCE, Net};

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
                    })
                    .unwrap();
                    let mut pair = pair_on(&net, 0);
                    generic::storm(&net, &mut pair, &mut random, 24);
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
            None => skip("ipv6", "this machine has no address besides the loopback's"),
        }
        for net in nets {
            generic::both_directions(&net);
        }
    });
}

#[test]
fn many_connections() {
    within(60, || generic::many_connections(&net(1), 30));
}

#[test]
fn a_message_waits_for_its_buffer() {
    within(30, || generic::a_message_waits_for_its_buffer(&net(1)));
}

#[test]
fn buffers_of_one_tag_are_filled_in_the_order_of_posting() {
    within(30, || {
        generic::buffers_of_one_tag_are_filled_in_the_order_of_posting(&net(4));
    });
}

/// Else both ends send first and read later, and what they sent has left the cache by then.
#[test]
fn a_call_hands_over_a_bounded_number_of_bytes() {
    // The end of one piece may come before, and header and tail on top.
    const MOST: u64 = 2 * AT_ONCE as u64 + 128;
    for seed in seeds(&[5, 6]) {
        within(60, move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut pair = pair(1);
            for length in [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 << 20] {
                let mut receiving = Receiving::new(&[(length, 7)]);
                while !receiving.step(pair.1.as_mut()).unwrap() {}
                let mut sending = Sending::new(random_bytes(&mut random, length), 7);
                let before = [pair.0.carried(), pair.1.carried()];
                until(30, || {
                    let carried = pair.0.carried();
                    sending.step(pair.0.as_mut())?;
                    let went = pair.0.carried() - carried;
                    assert!(
                        went <= MOST,
                        "seed {seed}: {went} of {length} bytes in a call"
                    );
                    receiving.step(pair.1.as_mut())?;
                    Ok(receiving.sizes.is_some() && sending.done)
                })
                .unwrap();
                assert!(
                    receiving.message(0) == sending.data,
                    "seed {seed}, {length} bytes"
                );
                let sent = pair.0.carried() - before[0];
                assert!(sent > length as u64 && sent < length as u64 + 4096);
                assert_eq!(pair.1.carried() - before[1], length as u64, "payload");
            }
        });
    }
}

#[test]
fn a_message_that_does_not_fit_is_an_error_at_both_ends() {
    within(30, || {
        let words = ["1001 bytes", "1000 bytes", "tag 9", "interface lo"];
        generic::a_message_that_does_not_fit_is_an_error_at_both_ends(&net(2), &words);
    });
}

#[test]
fn too_many_buffers_and_messages_must_wait() {
    within(30, || {
        let (posted, in_flight) = generic::too_many_buffers_and_messages_must_wait(&net(1));
        assert_eq!(posted, 64);
        assert_eq!(in_flight, 32, "messages in flight that nobody tested");
    });
}

#[test]
fn requests_are_asked_for_once() {
    within(30, || generic::requests_are_asked_for_once(&net(1)));
}

#[test]
fn closing_while_something_is_in_flight_is_an_error() {
    within(30, || {
        generic::closing_while_something_is_in_flight_is_an_error(&net(1));
    });
}

#[test]
fn what_was_sent_arrives_although_the_sender_closed() {
    within(60, || {
        for sockets in [1, 4] {
            generic::what_was_sent_arrives_although_the_sender_closed(&net(sockets));
        }
    });
}

#[test]
fn a_receiver_that_closed_is_an_error_at_the_sender() {
    within(30, || {
        generic::a_receiver_that_closed_is_an_error_at_the_sender(&net(2));
    });
}

#[test]
fn wrong_numbers_are_arguments() {
    within(30, || generic::wrong_numbers_are_arguments(&net(1)));
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
