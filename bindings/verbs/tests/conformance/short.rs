//! Tests that are run often: devices, some traffic, errors of misuse, nothing left.

use crate::common;
use crate::holdings::holdings;
use crate::machine::{self, counted};
use crate::plugin::{Net, log, until};
use crate::site::DEVICES;
use crate::traffic::{self, Shape};

#[test]
fn devices_are_listed() {
    if !machine::is_here() {
        return;
    }
    log();
    let net = Net::start(&[]).unwrap();
    assert_eq!(
        (net.devices(), net.name(0), net.name(1)),
        (2, "rxe0".into(), "rxe1".into())
    );
    let (first, second) = (net.properties(0).unwrap(), net.properties(1).unwrap());
    assert!(first.guid != 0 && first.guid != second.guid);
    assert_eq!(
        (first.port, first.max_recvs, first.ptr_support & 1),
        (1, 8, 1)
    );
    assert!(first.speed >= 1000 && first.max_comms >= 1000 && first.pci_path.is_null());
    assert!(
        net.properties(2)
            .err()
            .unwrap()
            .text
            .contains("no RDMA device 2")
    );
    let lines = log();
    let using = "3 NET/verbs: using [0]rxe0:1/RoCE [1]rxe1:1/RoCE; meeting on lo:";
    assert!(
        lines.iter().any(|line| line.starts_with(using)),
        "{lines:?}"
    );
    drop(net);
    let net = Net::start(&[("ib_hca", "^rxe0:1")]).unwrap();
    assert_eq!((net.devices(), net.name(0)), (1, "rxe1".into()));
    assert!(
        log()
            .iter()
            .any(|line| line.contains("rxe0 port 1 is not in KOLO_IB_HCA"))
    );
    drop(net);
    let failure = Net::start(&[("ib_hca", "=mlx5_0")]).err().unwrap();
    assert!(
        failure.text.contains("rxe1 is not in KOLO_IB_HCA"),
        "{}",
        failure.text
    );
}

/// The threads of this process that hear of a device's events.
fn event_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread may end meanwhile.
        let name = std::fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        let name = name.trim().to_string();
        name.starts_with("kolo-rxe").then_some(name)
    };
    let mut names: Vec<String> = tasks.filter_map(name).collect();
    names.sort_unstable();
    names
}

#[test]
fn each_open_device_has_a_thread_for_its_events() {
    if !machine::is_here() {
        return;
    }
    // A thread names itself when it begins, and one that has ended is listed for a moment more.
    let come_to = |expected: &[&str]| {
        until(10, || Ok((event_threads() == expected).then_some(()))).unwrap();
    };
    come_to(&[]);
    let net = Net::start(&[]).unwrap();
    come_to(&["kolo-rxe0", "kolo-rxe1"]);
    log();
    let hears = |what: &str| {
        let line = format!("2 NET/verbs: rxe0 port 1: {what}");
        until(60, || Ok(log().contains(&line).then_some(()))).unwrap();
    };
    let link = machine::Undo::after(&["ip link set s0 down"], &["ip link set s0 up"]);
    hears("port error");
    drop(link);
    hears("port active");
    drop(net);
    come_to(&[]);
    let net = Net::start(&[("ib_hca", "rxe1")]).unwrap();
    come_to(&["kolo-rxe1"]);
    drop(net);
    come_to(&[]);
}

#[test]
fn messages_by_one_and_by_several_queue_pairs() {
    if !machine::is_here() {
        return;
    }
    let before = holdings();
    for (queues, split) in [("1", "0"), ("3", "0"), ("4", "1")] {
        let settings = [
            ("ib_qps_per_connection", queues),
            ("ib_split_data_on_qps", split),
        ];
        let net = Net::start(&settings).unwrap();
        let (sender, receiver) = net.pair(0, 1).unwrap();
        let shape = Shape {
            seed: 5,
            messages: 120,
            largest: 30_000,
            group: 8,
            tags: 4,
            full: false,
        };
        let bytes = || traffic::carry(&sender, &receiver, &shape).unwrap();
        let expected = counted(0, bytes);
        counted(expected, || assert_eq!(bytes(), expected));
        sender.close().unwrap();
        receiver.close().unwrap();
    }
    assert_eq!(holdings(), before);
}

#[test]
fn large_messages_have_their_size_in_a_record() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(1, 0).unwrap();
    for bytes in [(2 << 20) - 2, (2 << 20) - 1, 2 << 20, (9 << 20) + 5] {
        traffic::one(&sender, &receiver, bytes, bytes as u8 | 1).unwrap();
    }
}

#[test]
fn a_sender_waits_for_a_buffer_of_its_tag() {
    if machine::is_here() {
        common::a_sender_waits_for_a_buffer_of_its_tag(&DEVICES);
    }
}

#[test]
fn a_message_that_does_not_fit_is_an_error_at_both_ends() {
    if machine::is_here() {
        common::a_message_that_does_not_fit_is_an_error_at_both_ends(&DEVICES);
    }
}
