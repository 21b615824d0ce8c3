//! Tests that are run often: devices, some traffic, errors of misuse, nothing left.

use crate::machine::{self, counted, holdings};
use crate::plugin::{Net, log, until, until_failure};
use crate::traffic::{self, Buffer, Shape};

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
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut source = Buffer::new(&sender, 64, 7).unwrap();
    let mut target = Buffer::new(&receiver, 64, 0).unwrap();
    let message = (source.bytes.as_mut_ptr(), 64, 9, source.memory);
    for _ in 0..1000 {
        assert_eq!(sender.isend(message).unwrap(), None);
    }
    let base = target.bytes.as_mut_ptr();
    let place = |tag, at: usize, bytes| (base.wrapping_add(at), bytes, tag, target.memory);
    let other = receiver.irecv(&[place(1, 0, 0)]).unwrap().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(sender.isend(message).unwrap(), None);
    let request = receiver
        .irecv(&[place(8, 0, 0), place(9, 0, 64)])
        .unwrap()
        .unwrap();
    let sent = until(10, || sender.isend(message)).unwrap();
    assert_eq!(sender.wait(sent).unwrap()[0], 64);
    assert_eq!(
        receiver.test(request).unwrap(),
        None,
        "tag 8 is still to come"
    );
    for tag in [8, 1] {
        let empty = (std::ptr::null_mut(), 0, tag, source.memory);
        let sent = until(10, || sender.isend(empty)).unwrap();
        sender.wait(sent).unwrap();
    }
    assert_eq!(receiver.wait(request).unwrap()[..2], [0, 64]);
    assert_eq!(receiver.wait(other).unwrap()[0], 0);
    assert!(receiver.test(other).unwrap_err().text.contains("not open"));
    assert_eq!(target.bytes, source.bytes);
}

#[test]
fn a_message_that_does_not_fit_is_an_error_at_both_ends() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut source = Buffer::new(&sender, 65, 7).unwrap();
    let mut target = Buffer::new(&receiver, 65, 0).unwrap();
    let place = (target.bytes.as_mut_ptr(), 64, 2, target.memory);
    let request = receiver.irecv(&[place]).unwrap().unwrap();
    let message = (source.bytes.as_mut_ptr(), 65, 2, source.memory);
    let (failure, _) = until_failure(10, || sender.isend(message));
    assert_eq!(failure.code, 5);
    for part in ["65 bytes", "tag 2", "64 bytes", "Remedy"] {
        assert!(failure.text.contains(part), "{}", failure.text);
    }
    let (heard, _) = until_failure(10, || receiver.test(request));
    assert_eq!(heard.code, 5);
    assert!(
        heard.text.contains("rxe0 port 1") && heard.text.contains("65 bytes"),
        "{heard:?}"
    );
    // The first error is the last word.
    assert_eq!(sender.isend(message).unwrap_err().text, failure.text);
    assert_eq!(receiver.irecv(&[place]).unwrap_err().text, heard.text);
    assert!(target.bytes.iter().all(|&byte| byte == 0));
}
