//! Tests that hold of every network behind the table; each program says over which devices.

use crate::holdings::holdings;
use crate::peer::Peer;
use crate::plugin::{Comm, Net, Result, until, until_failure};
use crate::traffic::{self, Buffer, Shape};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Devices of a test, and the settings to start with.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Settings that name the devices.
    pub settings: &'static [(&'static str, &'static str)],
    /// Settings of one test.
    pub more: &'static [(&'static str, &'static str)],
    /// The device that sends.
    pub from: i32,
    /// The device that receives.
    pub to: i32,
    /// Part of the sending device's name in errors.
    pub named: &'static str,
}

impl Setup {
    /// Setup with settings of one test.
    #[allow(dead_code)] // Not every network needs it.
    pub const fn with(mut self, more: &'static [(&'static str, &'static str)]) -> Setup {
        self.more = more;
        self
    }

    /// Starts the network.
    pub fn start(&self) -> Result<Net> {
        Net::start(&[self.settings, self.more].concat())
    }

    /// The devices in turn.
    fn device(&self, index: i32) -> i32 {
        if index & 1 == 0 { self.from } else { self.to }
    }
}

pub fn a_sender_waits_for_a_buffer_of_its_tag(setup: &Setup) {
    let net = setup.start().unwrap();
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
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
    let sent = until(10, || {
        // Networks move on while somebody calls them, at each end.
        receiver.test(request)?;
        sender.isend(message)
    })
    .unwrap();
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

pub fn a_message_that_does_not_fit_is_an_error_at_both_ends(setup: &Setup) {
    let net = setup.start().unwrap();
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
    let mut source = Buffer::new(&sender, 65, 7).unwrap();
    let mut target = Buffer::new(&receiver, 65, 0).unwrap();
    let place = (target.bytes.as_mut_ptr(), 64, 2, target.memory);
    let request = receiver.irecv(&[place]).unwrap().unwrap();
    let message = (source.bytes.as_mut_ptr(), 65, 2, source.memory);
    let (failure, _) = until_failure(10, || {
        // Networks move on while somebody calls them, at each end.
        receiver.test(request)?;
        sender.isend(message)
    });
    assert_eq!(failure.code, 5);
    for part in ["65 bytes", "tag 2", "64 bytes", "Remedy"] {
        assert!(failure.text.contains(part), "{}", failure.text);
    }
    let (heard, _) = until_failure(10, || receiver.test(request));
    assert_eq!(heard.code, 5);
    assert!(
        heard.text.contains(setup.named) && heard.text.contains("65 bytes"),
        "{heard:?}"
    );
    // The first error is the last word.
    assert_eq!(sender.isend(message).unwrap_err().text, failure.text);
    assert_eq!(receiver.irecv(&[place]).unwrap_err().text, heard.text);
    assert!(target.bytes.iter().all(|&byte| byte == 0));
}

pub fn full_groups_of_many_tags(setup: &Setup) {
    let net = setup.start().unwrap();
    let (sender, receiver) = net.pair(setup.to, setup.from).unwrap();
    for seed in [21, 22, 23] {
        let shape = Shape {
            seed,
            messages: 600,
            largest: 2000,
            group: 8,
            tags: 50,
            full: false,
        };
        traffic::carry(&sender, &receiver, &shape).unwrap();
    }
}

pub fn many_connections_at_once(setup: &Setup) {
    let net = setup.start().unwrap();
    // Several senders share a handle, as the ranks of a node do.
    let pairs: Vec<_> = (0..64)
        .map(|index| {
            net.pair(setup.device(index), setup.device(index + 1))
                .unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for (part, pairs) in pairs.chunks(16).enumerate() {
            let pairs: Vec<_> = pairs.iter().map(Borrowed).collect();
            scope.spawn(move || {
                for (index, Borrowed((sender, receiver))) in pairs.into_iter().enumerate() {
                    let shape = Shape {
                        seed: (part * 100 + index) as u64,
                        messages: 20,
                        largest: 4000,
                        group: 4,
                        tags: 3,
                        full: false,
                    };
                    traffic::carry(sender, receiver, &shape).unwrap();
                }
            });
        }
    });
}

pub fn one_handle_serves_several_senders(setup: &Setup) {
    let net = setup.start().unwrap();
    let (handle, listener) = net.listen(setup.to).unwrap();
    let mut copies: Vec<_> = (0..5).map(|_| (handle.clone(), None)).collect();
    let mut receivers = Vec::new();
    until(30, || {
        for (index, (copy, sender)) in copies.iter_mut().enumerate() {
            if sender.is_none() {
                *sender = net.connect(setup.device(index as i32), copy)?;
            }
        }
        receivers.extend(listener.accept()?);
        let all = copies.iter().all(|(_, sender)| sender.is_some()) && receivers.len() == 5;
        Ok(all.then_some(()))
    })
    .unwrap();
    // Each sender says who it is; every receiver hears one of them.
    let mut sources = Vec::new();
    for (index, (_, sender)) in copies.iter().enumerate() {
        let sender = sender.as_ref().unwrap();
        sources.push((sender, Buffer::new(sender, 4, index as u8).unwrap(), None));
    }
    let mut heard = Vec::new();
    for receiver in &receivers {
        let mut target = Buffer::new(receiver, 4, 99).unwrap();
        let place = (target.bytes.as_mut_ptr(), 4, 0, target.memory);
        let request = receiver.irecv(&[place]).unwrap().unwrap();
        until(30, || {
            for (sender, source, sent) in &mut sources {
                if sent.is_none() {
                    *sent = sender.isend((source.bytes.as_mut_ptr(), 4, 0, source.memory))?;
                }
            }
            receiver.test(request)
        })
        .unwrap();
        heard.push(target.bytes[0]);
    }
    heard.sort_unstable();
    assert_eq!(heard, [0, 1, 2, 3, 4]);
    for (sender, _, sent) in sources {
        sender.wait(sent.unwrap()).unwrap();
    }
}

pub fn communicators_share_the_network(setup: &Setup) {
    let net = setup.start().unwrap();
    let open = holdings();
    net.used_by_another();
    assert_eq!(holdings(), open);
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
    net.used_by_another();
    traffic::one(&sender, &receiver, 1000, 4).unwrap();
}

pub fn closing_tells_the_other_end(setup: &Setup) {
    let net = setup.start().unwrap();
    // The sender leaves in good order: what it sent can be taken, and then no more.
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
    let mut source = Buffer::new(&sender, 100, 5).unwrap();
    let mut target = Buffer::new(&receiver, 200, 0).unwrap();
    let base = target.bytes.as_mut_ptr();
    let place = |at| (base.wrapping_add(at), 100, 0, target.memory);
    let first = receiver.irecv(&[place(0)]).unwrap().unwrap();
    let second = receiver.irecv(&[place(100)]).unwrap().unwrap();
    let message = (source.bytes.as_mut_ptr(), 100, 0, source.memory);
    let sent = until(10, || {
        receiver.test(second)?;
        sender.isend(message)
    })
    .unwrap();
    sender.wait(sent).unwrap();
    sender.deregister(source.memory);
    sender.close().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(receiver.wait(first).unwrap()[0], 100);
    let (failure, took) = until_failure(10, || receiver.test(second));
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(
        failure.code == 6 && failure.text.contains("has closed"),
        "{}",
        failure.text
    );
    assert_eq!(&target.bytes[..100], &source.bytes[..]);
    drop(receiver);
    // The receiver leaves: the sender hears of it.
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
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
    let (_sender, receiver) = net.pair(setup.from, setup.to).unwrap();
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

pub fn strangers_are_dropped_and_others_connect(setup: &Setup) {
    let net = setup.start().unwrap();
    opened(setup, &net);
    let before = holdings();
    let (handle, listener) = net.listen(setup.to).unwrap();
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
        net.connect(setup.from, &mut wrong)
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
            sender = net.connect(setup.from, &mut good)?;
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

pub fn connections_can_be_given_up(setup: &Setup) {
    let net = setup.start().unwrap();
    opened(setup, &net);
    let before = holdings();
    let (handle, listener) = net.listen(setup.to).unwrap();
    let mut copy = handle.clone();
    assert!(net.connect(setup.from, &mut copy).unwrap().is_none());
    assert_ne!(copy.0, handle.0, "the copy knows its connection");
    copy.abandon();
    assert_eq!(copy.0, handle.0);
    assert!(listener.accept().unwrap().is_none());
    drop(listener);
    assert_eq!(holdings(), before);
    // Nobody listens any more.
    let (failure, _) = until_failure(30, || net.connect(setup.from, &mut copy));
    assert!(
        failure.code == 6 && failure.text.contains("listens"),
        "{}",
        failure.text
    );
    let mut nonsense = handle;
    nonsense.0[0] = 0;
    let failure = net.connect(setup.from, &mut nonsense).err().unwrap();
    assert!(
        failure.code == 4 && failure.text.contains("KOLO_NET"),
        "{}",
        failure.text
    );
    // A connection that nobody finishes does not keep the devices open.
    let (mut handle, _listener) = net.listen(setup.to).unwrap();
    assert!(net.connect(setup.from, &mut handle).unwrap().is_none());
}

pub fn misuse_has_a_sentence(setup: &Setup) {
    let net = setup.start().unwrap();
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
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

pub fn a_killed_receiver_is_noticed(setup: &Setup) {
    let net = setup.start().unwrap();
    let (mut peer, sender) = Peer::receiver(setup, &net);
    let mut source = Buffer::new(&sender, 4000, 5).unwrap();
    let message = (source.bytes.as_mut_ptr(), 4000, 0, source.memory);
    for _ in 0..20 {
        let sent = until(20, || sender.isend(message)).unwrap();
        sender.wait(sent).unwrap();
    }
    peer.kill();
    let (failure, took) = until_failure(20, || match sender.isend(message)? {
        Some(sent) => sender.wait(sent).map(Some),
        None => Ok(None),
    });
    println!("    after {took:?}: {}", failure.text);
    assert_eq!(failure.code, 6, "{failure:?}");
    let process = format!("process {}", peer.id());
    assert!(
        failure.text.contains(&process),
        "{process}: {}",
        failure.text
    );
}

pub fn a_killed_sender_is_noticed_by_an_idle_receiver(setup: &Setup) {
    let net = setup.start().unwrap();
    let (handle, listener) = net.listen(setup.to).unwrap();
    let mut peer = Peer::sender(setup, &handle);
    let receiver = until(30, || listener.accept()).unwrap();
    let mut target = Buffer::new(&receiver, 4000, 0).unwrap();
    let place = (target.bytes.as_mut_ptr(), 4000, 0, target.memory);
    for _ in 0..20 {
        let posted = until(20, || receiver.irecv(&[place])).unwrap();
        assert_eq!(receiver.wait(posted).unwrap()[0], 4000);
        assert!(target.bytes.iter().all(|&byte| byte == 5));
    }
    // From here on it sends nothing; what is posted would wait for ever.
    let posted = receiver.irecv(&[place]).unwrap().unwrap();
    assert_eq!(receiver.test(posted).unwrap(), None);
    peer.kill();
    let (failure, took) = until_failure(20, || receiver.test(posted));
    println!("    after {took:?}: {}", failure.text);
    assert!(
        failure.code == 6 && failure.text.contains("ended"),
        "{}",
        failure.text
    );
}

/// Opens what the first connection of a device opens, and what its first message does.
fn opened(setup: &Setup, net: &Net) {
    let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
    traffic::one(&sender, &receiver, 1000, 77).unwrap();
}

pub fn nothing_is_left_after_closing(setup: &Setup) {
    let before = holdings();
    for round in 0..4 {
        let net = setup.start().unwrap();
        opened(setup, &net);
        let open = holdings();
        for _ in 0..6 {
            let (sender, receiver) = net.pair(setup.from, setup.to).unwrap();
            traffic::one(&sender, &receiver, 1000, round).unwrap();
            sender.close().unwrap();
            receiver.close().unwrap();
        }
        assert_eq!(holdings(), open);
    }
    assert_eq!(holdings(), before);
}

/// Connections of which this thread is the only user for now.
struct Borrowed<'a>(&'a (Comm, Comm));

// SAFETY: each pair is given to one thread, and the table allows any.
unsafe impl Send for Borrowed<'_> {}
