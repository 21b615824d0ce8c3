//! Each property of a network behind the table, over each provider that needs no adapter.

use crate::common::{self, Setup};
use crate::own_process::alone;
use crate::plugin::{Comm, Place, log, until};
use crate::site::{SHM, TCP};
use crate::traffic::{self, Buffer, Shape};
use std::time::Duration;

/// Random messages of all sizes, there and back.
fn random_messages(setup: &Setup) {
    let net = setup.start().unwrap();
    for (seed, messages, largest) in [(11, 60, 2 << 20), (12, 300, 20_000), (13, 300, 64)] {
        let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
        let shape = Shape {
            seed,
            messages,
            largest,
            group: 8,
            tags: 4,
            full: false,
        };
        traffic::carry(&sender, &receiver, &shape).unwrap();
        sender.close().unwrap();
        receiver.close().unwrap();
    }
}

/// The log names the provider, and the table its device.
fn the_provider_is_named(setup: &Setup, provider: &str, device: &str) {
    log();
    let net = setup.start().unwrap();
    assert_eq!((net.devices(), net.name(0)), (1, device.into()));
    let line = format!("3 NET/ofi: using the libfabric provider {provider}: [0]{device}; meeting");
    let lines = log();
    assert!(lines.iter().any(|it| it.starts_with(&line)), "{lines:?}");
    let facts = net.properties(0).unwrap();
    assert_eq!((facts.max_recvs, facts.ptr_support), (8, 1));
    assert!(facts.max_p2p_bytes >= 1 << 30);
    let missing = net.properties(1).err().unwrap();
    assert!(
        missing.text.contains("no libfabric device 1"),
        "{missing:?}"
    );
}

/// Buffers that were posted on a connection that is closed receive nothing any more, though the
/// sender does not know it yet.
fn memory_of_a_closed_end_is_left_alone(setup: &Setup) {
    let net = setup.start().unwrap();
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
    let mut target = Buffer::new(&receiver, 5000, 9).unwrap();
    let place = (target.bytes.as_mut_ptr(), 5000, 1, target.memory);
    let posted = until(10, || receiver.irecv(&[place])).unwrap();
    let mut source = Buffer::new(&sender, 5000, 7).unwrap();
    let mut message = |tag| (source.bytes.as_mut_ptr(), 5000, tag, source.memory);
    let (other, same) = (message(2), message(1));
    for _ in 0..100 {
        // A message of another tag finds no place, and learns of those that there are.
        assert_eq!(receiver.test(posted).unwrap(), None);
        assert_eq!(sender.isend(other).unwrap(), None);
        std::thread::sleep(Duration::from_millis(1));
    }
    receiver.close().unwrap_err();
    assert!(sender.isend(same).unwrap().is_some(), "it knows a place");
    let (later, _idle) = net.pair(setup.from, setup.to).unwrap();
    for _ in 0..100 {
        // Whoever calls drives the endpoint.
        assert_eq!(later.isend(nothing(&later)).unwrap(), None);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(target.bytes.iter().all(|&byte| byte == 9));
}

/// A message of no bytes.
fn nothing(comm: &Comm) -> Place {
    let memory = comm.register(std::ptr::null_mut(), 0, 1).unwrap();
    (std::ptr::null_mut(), 0, 0, memory)
}

macro_rules! over {
    ($provider:ident, $setup:expr, $whole:literal, $device:literal) => {
        mod $provider {
            use super::*;

            #[test]
            fn is_named() {
                the_provider_is_named(&$setup, $whole, $device);
            }

            #[test]
            fn carries_random_messages() {
                random_messages(&$setup);
            }

            #[test]
            fn leaves_memory_of_a_closed_end_alone() {
                memory_of_a_closed_end_is_left_alone(&$setup);
            }

            over! { $setup; full_groups_of_many_tags, many_connections_at_once,
                one_handle_serves_several_senders, a_sender_waits_for_a_buffer_of_its_tag,
                a_message_that_does_not_fit_is_an_error_at_both_ends,
                closing_tells_the_other_end, misuse_has_a_sentence, a_killed_receiver_is_noticed,
                a_killed_sender_is_noticed_by_an_idle_receiver }

            // They count what the process holds.
            over! { alone $provider, $setup; communicators_share_the_network,
                nothing_is_left_after_closing, strangers_are_dropped_and_others_connect,
                connections_can_be_given_up }
        }
    };
    ($setup:expr; $($name:ident),*) => {
        $(#[test]
        fn $name() {
            common::$name(&$setup);
        })*
    };
    (alone $provider:ident, $setup:expr; $($name:ident),*) => {
        $(#[test]
        fn $name() {
            let body = concat!("over::", stringify!($provider), "::bodies::", stringify!($name));
            alone(body, &[]);
        })*

        mod bodies {
            use super::*;

            $(#[test]
            #[ignore = "the body of another test"]
            fn $name() {
                common::$name(&$setup);
            })*
        }
    };
}

over!(tcp, TCP, "tcp;ofi_rxm", "lo");
over!(shm, SHM, "shm", "shm");
