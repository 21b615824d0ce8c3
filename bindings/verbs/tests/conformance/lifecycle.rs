//! Opening and closing: nothing is left, strangers do no harm, misuse has a sentence.

use crate::machine::{self, holdings};
use crate::plugin::{Net, log, until, until_failure};
use crate::traffic::{self, Buffer};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn nothing_is_left_after_closing() {
    if !machine::is_here() {
        return;
    }
    let before = holdings();
    for round in 0..4 {
        let net = Net::start(&[("ib_qps_per_connection", "2")]).unwrap();
        let open = holdings();
        for _ in 0..6 {
            let (sender, receiver) = net.pair(0, 1).unwrap();
            traffic::one(&sender, &receiver, 1000, round).unwrap();
            sender.close().unwrap();
            receiver.close().unwrap();
        }
        assert_eq!(holdings(), open);
    }
    assert_eq!(holdings(), before);
}

#[test]
fn communicators_share_the_network() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let open = holdings();
    net.used_by_another();
    assert_eq!(holdings(), open);
    let (sender, receiver) = net.pair(0, 1).unwrap();
    net.used_by_another();
    traffic::one(&sender, &receiver, 1000, 4).unwrap();
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
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    // The sender leaves in good order: what it sent can be taken, and then no more.
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut source = Buffer::new(&sender, 100, 5).unwrap();
    let mut target = Buffer::new(&receiver, 200, 0).unwrap();
    let base = target.bytes.as_mut_ptr();
    let place = |at| (base.wrapping_add(at), 100, 0, target.memory);
    let first = receiver.irecv(&[place(0)]).unwrap().unwrap();
    let second = receiver.irecv(&[place(100)]).unwrap().unwrap();
    let message = (source.bytes.as_mut_ptr(), 100, 0, source.memory);
    let sent = until(10, || sender.isend(message)).unwrap();
    sender.wait(sent).unwrap();
    sender.deregister(source.memory);
    sender.close().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(receiver.wait(first).unwrap()[0], 100);
    let (failure, _) = until_failure(10, || receiver.test(second));
    assert!(
        failure.code == 6 && failure.text.contains("has closed"),
        "{}",
        failure.text
    );
    assert_eq!(&target.bytes[..100], &source.bytes[..]);
    drop(receiver);
    // The receiver leaves: the sender hears of it.
    let (sender, receiver) = net.pair(0, 1).unwrap();
    receiver.close().unwrap();
    let source = Buffer::new(&sender, 8, 5).unwrap();
    let message = (source.bytes.as_ptr().cast_mut(), 8, 0, source.memory);
    let (failure, _) = until_failure(10, || sender.isend(message));
    assert!(
        failure.code == 6 && failure.text.contains("has closed"),
        "{}",
        failure.text
    );
    // Closing with open requests is misuse.
    let (_sender, receiver) = net.pair(0, 1).unwrap();
    let mut target = Buffer::new(&receiver, 8, 0).unwrap();
    let place = (target.bytes.as_mut_ptr(), 8, 0, target.memory);
    receiver.irecv(&[place]).unwrap().unwrap();
    let failure = receiver.close().unwrap_err();
    assert!(
        failure.code == 5 && failure.text.contains("1 requests open"),
        "{}",
        failure.text
    );
}

#[test]
fn strangers_are_dropped_and_others_connect() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let before = holdings();
    let (handle, listener) = net.listen(1).unwrap();
    let port = u16::from_be_bytes([handle.0[5], handle.0[6]]);
    let knock = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut strangers = Vec::new();
    for round in 0..200_usize {
        let mut stranger = knock();
        match round % 4 {
            0 => drop(stranger.write_all(b"GET / HTTP/1.1\r\n\r\n")),
            1 => drop(stranger.write_all(&[0xff; 2000])),
            2 => continue,
            _ => {}
        }
        strangers.push(stranger);
        assert!(listener.accept().unwrap().is_none());
    }
    // A greeting with the wrong secret is a stranger's too.
    let mut wrong = handle.clone();
    wrong.0[30] ^= 1;
    let sum = crc32c::crc32c(&wrong.0[..43]).to_be_bytes();
    wrong.0[43..47].copy_from_slice(&sum);
    let (failure, _) = until_failure(30, || {
        assert!(listener.accept()?.is_none());
        net.connect(0, &mut wrong)
    });
    assert!(
        failure.code == 6 && failure.text.contains("127.0.0.1"),
        "{}",
        failure.text
    );
    let mut good = handle.clone();
    let (mut sender, mut receiver) = (None, None);
    until(30, || {
        if sender.is_none() {
            sender = net.connect(0, &mut good)?;
        }
        receiver = receiver.take().or(listener.accept()?);
        Ok((sender.is_some() && receiver.is_some()).then_some(()))
    })
    .unwrap();
    traffic::one(
        sender.as_ref().unwrap(),
        receiver.as_ref().unwrap(),
        5000,
        3,
    )
    .unwrap();
    drop((sender, receiver, listener));
    // All of them were let go.
    for mut stranger in strangers {
        let mut rest = [0; 16];
        assert!(stranger.read(&mut rest).map_or(true, |count| count == 0));
    }
    assert_eq!(holdings(), before);
}

#[test]
fn connections_can_be_given_up() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let before = holdings();
    let (handle, listener) = net.listen(1).unwrap();
    let mut copy = handle.clone();
    assert!(net.connect(0, &mut copy).unwrap().is_none());
    assert_ne!(copy.0, handle.0, "the copy knows its connection");
    copy.abandon();
    assert_eq!(copy.0, handle.0);
    assert!(listener.accept().unwrap().is_none());
    drop(listener);
    assert_eq!(holdings(), before);
    // Nobody listens any more.
    let (failure, _) = until_failure(30, || net.connect(0, &mut copy));
    assert!(
        failure.code == 6 && failure.text.contains("listens"),
        "{}",
        failure.text
    );
    let mut nonsense = handle;
    nonsense.0[0] = 0;
    let failure = net.connect(0, &mut nonsense).err().unwrap();
    assert!(
        failure.code == 4 && failure.text.contains("KOLO_NET"),
        "{}",
        failure.text
    );
    // A connection that nobody finishes does not keep the devices open.
    let (mut handle, _listener) = net.listen(1).unwrap();
    assert!(net.connect(0, &mut handle).unwrap().is_none());
}

#[test]
fn misuse_has_a_sentence() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let source = Buffer::new(&sender, 100, 5).unwrap();
    let data = source.bytes.as_ptr().cast_mut();
    let outside = (data.wrapping_add(1), 100, 0, source.memory);
    let failure = sender.isend(outside).unwrap_err();
    assert!(
        failure.code == 4 && failure.text.contains("registered"),
        "{}",
        failure.text
    );
    let failure = receiver.isend((data, 1, 0, source.memory)).unwrap_err();
    assert!(
        failure.code == 4 && failure.text.contains("sends"),
        "{}",
        failure.text
    );
    let failure = sender.irecv(&[(data, 1, 0, source.memory)]).unwrap_err();
    assert!(
        failure.code == 4 && failure.text.contains("receives"),
        "{}",
        failure.text
    );
    let target = Buffer::new(&receiver, 100, 5).unwrap();
    let place = (target.bytes.as_ptr().cast_mut(), 10, 0, target.memory);
    assert_eq!(receiver.irecv(&[]).unwrap_err().code, 4);
    assert_eq!(receiver.irecv(&[place; 9]).unwrap_err().code, 4);
    assert_eq!(sender.register(data, 10, 3).unwrap_err().code, 4);
    // The connection is none the worse for it.
    traffic::one(&sender, &receiver, 1000, 1).unwrap();
    // The ring is bounded: more receives have to wait.
    let posted: Vec<_> = (0..40)
        .map_while(|_| receiver.irecv(&[place]).unwrap())
        .collect();
    assert_eq!(posted.len(), 32);
    drop((sender, receiver));
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
