//! Messages that are lent: the receiving end reads them from where they lie.

use crate::holdings::holdings;
use crate::machine::{self, Undo, command};
use crate::plugin::{Comm, Net, Request, Result, check, library, until, until_failure};
use crate::traffic::Buffer;
use libloading::Symbol;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

const POISON: u8 = 0xee;
const TAIL: usize = 24;

/// Memory that is pinned for a device.
struct Pinned {
    bytes: Vec<u8>,
    raw: *mut c_void,
}

impl Pinned {
    fn new(device: i32, bytes: Vec<u8>) -> Result<Pinned> {
        type Pin = unsafe extern "C" fn(c_int, *mut c_void, usize, *mut *mut c_void) -> c_int;
        let mut bytes = bytes;
        let mut raw = null_mut();
        // SAFETY: the function has this type, and the bytes live until they are unpinned.
        check(unsafe {
            let pin: Symbol<Pin> = library().get(b"kolo_net_pin\0").unwrap();
            pin(device, bytes.as_mut_ptr().cast(), bytes.len(), &raw mut raw)
        })?;
        Ok(Pinned { bytes, raw })
    }

    fn unpin(&mut self) {
        let raw = std::mem::replace(&mut self.raw, null_mut());
        // SAFETY: the function has this type; pinned above, and given back once.
        check(unsafe {
            let unpin: Symbol<unsafe extern "C" fn(*mut c_void) -> c_int> =
                library().get(b"kolo_net_unpin\0").unwrap();
            unpin(raw)
        })
        .unwrap();
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            self.unpin();
        }
    }
}

fn is_read(comm: &Comm) -> c_int {
    // SAFETY: the function has this type, and the connection is open.
    unsafe {
        let ask: Symbol<unsafe extern "C" fn(*mut c_void) -> c_int> =
            library().get(b"kolo_net_is_read\0").unwrap();
        ask(comm.raw())
    }
}

/// Lends `bytes` bytes from `start` on, with a tail.
fn lend(
    comm: &Comm,
    from: &Pinned,
    (start, bytes): (usize, usize),
    tail: &[u8],
) -> Result<Option<Request>> {
    type IsendAt = unsafe extern "C" fn(
        *mut c_void,
        *const c_void,
        usize,
        *const c_void,
        usize,
        c_int,
        *mut c_void,
        *mut *mut c_void,
    ) -> c_int;
    let mut request = null_mut();
    // SAFETY: the function has this type; the test keeps the memory until the request is done.
    check(unsafe {
        let isend_at: Symbol<IsendAt> = library().get(b"kolo_net_isend_at\0").unwrap();
        let data = from.bytes.as_ptr().wrapping_add(start).cast();
        let (place, out) = (tail.as_ptr().cast(), &raw mut request);
        isend_at(comm.raw(), data, bytes, place, tail.len(), 0, from.raw, out)
    })?;
    Ok((!request.is_null()).then_some(Request(request)))
}

/// Lets the first bytes of a message of `length` bytes go to `start` of pinned memory.
fn divert(
    request: Request,
    to: &mut Pinned,
    (start, bytes): (usize, usize),
    length: usize,
) -> Result<bool> {
    type Divert = unsafe extern "C" fn(
        *mut c_void,
        *mut c_void,
        usize,
        usize,
        *mut c_void,
        *mut c_int,
    ) -> c_int;
    let mut taken = -1;
    // SAFETY: the function has this type; the test keeps the memory until the request is done.
    check(unsafe {
        let divert: Symbol<Divert> = library().get(b"kolo_net_divert\0").unwrap();
        let data = to.bytes.as_mut_ptr().wrapping_add(start).cast();
        divert(request.0, data, bytes, length, to.raw, &raw mut taken)
    })?;
    Ok(taken == 1)
}

/// Size of a message that is there, and whether it went elsewhere.
fn test_at(request: Request, hold: bool) -> Result<Option<(usize, bool)>> {
    type TestAt =
        unsafe extern "C" fn(*mut c_void, c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    let (mut done, mut size, mut placed) = (-1, -1, -1);
    // SAFETY: the function has this type, and there are places for the numbers.
    check(unsafe {
        let test: Symbol<TestAt> = library().get(b"kolo_net_test_at\0").unwrap();
        let (done, size) = (&raw mut done, &raw mut size);
        test(request.0, c_int::from(hold), done, size, &raw mut placed)
    })?;
    Ok((done == 1).then_some((size as usize, placed == 1)))
}

fn contents(seed: u64, bytes: usize) -> Vec<u8> {
    let mut room = vec![0; bytes];
    fastrand::Rng::with_seed(seed).fill(&mut room);
    room
}

fn regions() -> usize {
    command("rdma resource show mr").lines().count()
}

/// A message on its way: what is posted, what is lent, and its contents.
struct OnItsWay {
    source: Pinned,
    slot: Buffer,
    place: Pinned,
    posted: Request,
    sent: Request,
    tail: Vec<u8>,
}

/// Posts a buffer with room for `bytes` and a tail, and lends a message for it.
fn begin((sender, receiver): (&Comm, &Comm), bytes: usize, seed: u64) -> OnItsWay {
    // At odd addresses, with other bytes around.
    let source = Pinned::new(0, contents(seed, bytes + 7)).unwrap();
    let mut slot = Buffer::new(receiver, bytes + TAIL + 9, POISON).unwrap();
    let place = Pinned::new(1, vec![POISON; bytes + 11]).unwrap();
    let buffer = (
        slot.bytes.as_mut_ptr().wrapping_add(1),
        bytes + TAIL,
        0,
        slot.memory,
    );
    let posted = until(10, || receiver.irecv(&[buffer])).unwrap();
    let tail = contents(seed ^ 0xf00d, TAIL);
    let sent = until(10, || lend(sender, &source, (3, bytes), &tail)).unwrap();
    OnItsWay {
        source,
        slot,
        place,
        posted,
        sent,
        tail,
    }
}

impl OnItsWay {
    /// All of it is where it should be, and nothing else was written, except where the note was.
    fn is_whole(&self, bytes: usize, placed: bool) {
        let expected = &self.source.bytes[3..3 + bytes];
        let (slot, place) = (&self.slot.bytes, &self.place.bytes);
        match placed {
            true => {
                assert!(&place[5..5 + bytes] == expected, "{bytes} bytes elsewhere");
                assert!(slot[65..bytes + 1].iter().all(|&byte| byte == POISON));
            }
            false => {
                assert!(&slot[1..bytes + 1] == expected, "{bytes} bytes");
                assert!(place.iter().all(|&byte| byte == POISON));
            }
        }
        assert_eq!(slot[bytes + 1..bytes + 1 + TAIL], self.tail, "{bytes}");
        let behind = &slot[bytes + 1 + TAIL..];
        assert!(slot[0] == POISON && behind.iter().all(|&byte| byte == POISON));
        let around = place[..5].iter().chain(&place[5 + bytes..]);
        assert!(around.copied().all(|byte| byte == POISON));
    }
}

/// Sizes from the least one to several MiB, into the buffer and elsewhere, by one queue pair, by
/// several, and by shares.
fn carries(sizes: &[usize]) {
    for (queues, split) in [("1", "0"), ("3", "0"), ("4", "1")] {
        let before = (regions(), holdings());
        let settings = [
            ("ib_qps_per_connection", queues),
            ("ib_split_data_on_qps", split),
        ];
        let net = Net::start(&settings).unwrap();
        let (sender, receiver) = net.pair(0, 1).unwrap();
        assert_eq!((is_read(&sender), is_read(&receiver)), (1, 0));
        for (number, &bytes) in sizes.iter().enumerate() {
            for placed in [false, true] {
                let mut one = begin((&sender, &receiver), bytes, number as u64 + 1);
                if placed {
                    let taken = divert(one.posted, &mut one.place, (5, bytes), bytes + TAIL);
                    assert!(taken.unwrap());
                }
                let whole = until(30, || test_at(one.posted, false)).unwrap();
                assert_eq!(whole, (bytes + TAIL, placed));
                assert_eq!(sender.wait(one.sent).unwrap()[0] as usize, bytes + TAIL);
                one.is_whole(bytes, placed);
                receiver.deregister(one.slot.memory);
            }
        }
        sender.close().unwrap();
        receiver.close().unwrap();
        drop(net);
        assert_eq!((regions(), holdings()), before);
    }
}

#[test]
fn every_size_arrives_in_the_buffer_and_elsewhere() {
    if machine::is_here() {
        carries(&[64, 65, 4096, 65_537, 1 << 20, (2 << 20) - 24, 4 << 20]);
    }
}

/// More messages than a ring has places, some lent and some not, several at once.
#[test]
fn lent_messages_and_others_take_turns() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[("ib_qps_per_connection", "2")]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let bytes = 9000;
    for round in 0..20_u64 {
        let seeds = (0..5).map(|number| round * 5 + number + 1);
        let lent: Vec<OnItsWay> = seeds
            .map(|seed| begin((&sender, &receiver), bytes, seed))
            .collect();
        let mut source = Buffer::new(&sender, 100, round as u8).unwrap();
        let mut target = Buffer::new(&receiver, 100, POISON).unwrap();
        let place = (target.bytes.as_mut_ptr(), 100, 0, target.memory);
        let posted = receiver.irecv(&[place]).unwrap().unwrap();
        let message = (source.bytes.as_mut_ptr(), 100, 0, source.memory);
        let sent = until(10, || sender.isend(message)).unwrap();
        // The last one first.
        receiver.wait(posted).unwrap();
        sender.wait(sent).unwrap();
        assert_eq!(target.bytes, source.bytes);
        for one in lent.iter().rev() {
            let whole = until(30, || test_at(one.posted, false)).unwrap();
            assert_eq!(whole, (bytes + TAIL, false));
        }
        for one in &lent {
            sender.wait(one.sent).unwrap();
            one.is_whole(bytes, false);
            receiver.deregister(one.slot.memory);
        }
        sender.deregister(source.memory);
        receiver.deregister(target.memory);
    }
}

#[test]
fn a_message_that_is_not_lent_stays_in_its_buffer() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut source = Buffer::new(&sender, 5000, 7).unwrap();
    let mut target = Buffer::new(&receiver, 5000, POISON).unwrap();
    let mut place = Pinned::new(1, vec![POISON; 5000]).unwrap();
    let buffer = (target.bytes.as_mut_ptr(), 5000, 0, target.memory);
    let posted = receiver.irecv(&[buffer]).unwrap().unwrap();
    assert!(divert(posted, &mut place, (0, 4976), 5000).unwrap());
    let message = (source.bytes.as_mut_ptr(), 5000, 0, source.memory);
    let sent = until(10, || sender.isend(message)).unwrap();
    assert_eq!(until(30, || test_at(posted, true)).unwrap(), (5000, false));
    sender.wait(sent).unwrap();
    assert_eq!(target.bytes, source.bytes);
    assert!(place.bytes.iter().all(|&byte| byte == POISON));
    // One that is lent, but has another length.
    let mut one = begin((&sender, &receiver), 5000, 3);
    assert!(divert(one.posted, &mut one.place, (5, 4999), 5000 + TAIL).unwrap());
    let whole = until(30, || test_at(one.posted, false)).unwrap();
    assert_eq!(whole, (5000 + TAIL, false));
    one.is_whole(5000, false);
    // It is done when it was read, and its receiver may be gone by then.
    receiver.close().unwrap();
    sender.wait(one.sent).unwrap();
}

#[test]
fn misuse_has_a_sentence() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, _receiver) = net.pair(0, 1).unwrap();
    let source = Pinned::new(0, vec![1; 5000]).unwrap();
    let other = Pinned::new(1, vec![1; 5000]).unwrap();
    let wrong = [
        lend(&sender, &source, (0, 5001), &[]),
        lend(&sender, &other, (0, 5000), &[]),
        lend(&sender, &source, (0, 63), &[]),
        lend(&sender, &source, (0, 5000), &[0; 33]),
    ];
    for (failure, part) in wrong
        .into_iter()
        .zip(["lent", "another device", "63", "33"])
    {
        let failure = failure.unwrap_err();
        assert!(
            failure.code == 4 && failure.text.contains(part),
            "{failure:?}"
        );
    }
    let failure = Pinned::new(2, vec![0; 10]).err().unwrap();
    assert!(failure.text.contains("no RDMA device 2"), "{failure:?}");
    let sent = lend(&sender, &source, (0, 5000), &[]).unwrap();
    assert_eq!(sent, None, "nothing is posted");
}

mod short {
    use super::*;

    #[test]
    fn lent_messages_arrive() {
        if machine::is_here() {
            carries(&[64, 70_001, 1 << 20]);
        }
    }

    /// Until the receiver may read it, it is where it was, and the sender is not done.
    #[test]
    fn a_message_waits_until_it_is_said_where_it_goes() {
        if !machine::is_here() {
            return;
        }
        let net = Net::start(&[]).unwrap();
        let (sender, receiver) = net.pair(0, 1).unwrap();
        let bytes = 100_000;
        let mut one = begin((&sender, &receiver), bytes, 1);
        for _ in 0..200 {
            assert_eq!(test_at(one.posted, true).unwrap(), None);
            assert_eq!(sender.test(one.sent).unwrap(), None);
            std::thread::sleep(Duration::from_micros(500));
        }
        assert_eq!(
            one.slot.bytes[65..],
            vec![POISON; one.slot.bytes.len() - 65]
        );
        assert!(divert(one.posted, &mut one.place, (5, bytes), bytes + TAIL).unwrap());
        let whole = until(30, || test_at(one.posted, false)).unwrap();
        assert_eq!(whole, (bytes + TAIL, true));
        sender.wait(one.sent).unwrap();
        one.is_whole(bytes, true);
    }
}

/// Who only waits for a word, or for where a message goes, sees all the same what has completed of
/// others: a peer that is late is not a link that is silent.
#[test]
fn a_link_outlives_a_peer_that_is_late() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[("net_link_timeout", "1")]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let bytes = 20_000;
    let first = begin((&sender, &receiver), bytes, 1);
    // Its note has completed, and the adapter is asked for nothing more of it.
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..10 {
        assert_eq!(sender.test(first.sent).unwrap(), None);
        assert_eq!(test_at(first.posted, true).unwrap(), None);
    }
    let second = begin((&sender, &receiver), bytes, 2);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(sender.test(first.sent).unwrap(), None);
        assert_eq!(test_at(first.posted, true).unwrap(), None);
        std::thread::sleep(Duration::from_millis(1));
    }
    for one in [&first, &second] {
        let whole = until(30, || test_at(one.posted, false)).unwrap();
        assert_eq!(whole, (bytes + TAIL, false));
        sender.wait(one.sent).unwrap();
        one.is_whole(bytes, false);
    }
}

#[path = "lent/faults.rs"]
mod faults;
