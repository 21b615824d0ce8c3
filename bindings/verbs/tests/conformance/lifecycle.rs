//! Opening and closing: nothing is left, strangers do no harm, misuse has a sentence.

use crate::common;
use crate::machine::{self};
use crate::plugin::{Net, log, until};
use crate::site::DEVICES;
use crate::traffic::{self, Buffer};
use std::time::Duration;

#[test]
fn nothing_is_left_after_closing() {
    if machine::is_here() {
        common::nothing_is_left_after_closing(&DEVICES.with(&[("ib_qps_per_connection", "2")]));
    }
}

#[test]
fn communicators_share_the_network() {
    if machine::is_here() {
        common::communicators_share_the_network(&DEVICES);
    }
}

#[test]
fn a_fork_does_no_harm() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut source = Buffer::new(&sender, 100_000, 5).unwrap();
    let mut target = Buffer::new(&receiver, 100_000, 0).unwrap();
    // SAFETY: the child only sleeps, until it is killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: as above.
            unsafe { libc::pause() };
        }
    }
    // Writing moves a page of one of the two processes: it must not be this one's.
    source.bytes.fill(9);
    target.bytes.fill(1);
    let place = (target.bytes.as_mut_ptr(), 100_000, 0, target.memory);
    let posted = receiver.irecv(&[place]).unwrap().unwrap();
    let message = (source.bytes.as_mut_ptr(), 100_000, 0, source.memory);
    let sent = until(10, || sender.isend(message)).unwrap();
    receiver.wait(posted).unwrap();
    sender.wait(sent).unwrap();
    // SAFETY: the child is this process's own.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert!(target.bytes.iter().all(|&byte| byte == 9));
}

#[test]
fn registrations_are_shared_and_counted() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, other) = net.pair(0, 0).unwrap();
    let regions = || {
        let text = machine::command("rdma resource show mr");
        text.lines().filter(|line| line.contains("rxe0")).count()
    };
    let before = regions();
    let mut bytes = vec![0_u8; 64 << 10];
    let data = bytes.as_mut_ptr();
    let all = sender.register(data, bytes.len(), 1).unwrap();
    let parts: Vec<_> = (0..50)
        .map(|n| other.register(data.wrapping_add(n * 100), 1000, 1).unwrap())
        .collect();
    assert_eq!(regions(), before + 1);
    sender.deregister(all);
    assert_eq!(regions(), before + 1, "the parts still need it");
    parts.into_iter().for_each(|part| other.deregister(part));
    assert_eq!(regions(), before);
    assert!(other.forget(all).contains("no registration"));
    // What is left is given back with the connection.
    for n in 0..3 {
        other.register(data.wrapping_add(n * 8192), 1, 1).unwrap();
    }
    assert_eq!(regions(), before + 3);
    other.close().unwrap();
    assert_eq!(
        regions(),
        before - 2,
        "slots and sizes of that end are gone too"
    );
    // Nothing is registered for nothing, wherever it is; what is not mapped cannot be.
    let nothing = sender
        .register(std::ptr::without_provenance_mut(1), 0, 1)
        .unwrap();
    sender.deregister(nothing);
    let failure = sender
        .register(std::ptr::without_provenance_mut(4096), 4096, 1)
        .unwrap_err();
    assert!(
        failure.code == 2 && failure.text.contains("that is mapped"),
        "{}",
        failure.text
    );
}

#[test]
fn closing_tells_the_other_end() {
    if machine::is_here() {
        common::closing_tells_the_other_end(&DEVICES);
    }
}

#[test]
fn strangers_are_dropped_and_others_connect() {
    if machine::is_here() {
        common::strangers_are_dropped_and_others_connect(&DEVICES);
    }
}

#[test]
fn connections_can_be_given_up() {
    if machine::is_here() {
        common::connections_can_be_given_up(&DEVICES);
    }
}

#[test]
fn misuse_has_a_sentence() {
    if machine::is_here() {
        common::misuse_has_a_sentence(&DEVICES);
    }
}

#[test]
fn a_bad_device_is_a_warning_and_the_others_go_on() {
    if !machine::is_here() {
        return;
    }
    let link = machine::Undo::after(&["ip link set s1 down"], &["ip link set s1 up"]);
    std::thread::sleep(Duration::from_millis(300));
    log();
    let net = Net::start(&[]).unwrap();
    assert_eq!((net.devices(), net.name(0)), (1, "rxe0".into()));
    assert!(
        log()
            .iter()
            .any(|line| line.contains("rxe1 port 1 is not active"))
    );
    drop((net, link));
    let hide = "mount --bind /dev/null /dev/infiniband/uverbs1";
    let _back = machine::Undo::after(&[hide], &["umount /dev/infiniband/uverbs1"]);
    let net = Net::start(&[]).unwrap();
    assert_eq!((net.devices(), net.name(0)), (1, "rxe0".into()));
    let lines = log();
    let warned = lines
        .iter()
        .any(|line| line.starts_with("2 NET/verbs: rxe1 cannot be used"));
    assert!(warned, "{lines:?}");
    let (sender, receiver) = net.pair(0, 0).unwrap();
    traffic::one(&sender, &receiver, 1000, 1).unwrap();
}
