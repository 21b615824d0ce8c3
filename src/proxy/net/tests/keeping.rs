//! Tests of what the engine keeps: tokens back until they are flushed, others going while one
//! waits, and the first error.

use super::*;
use crate::base::Result;
use crate::transport::net::{
    Connecting, Handle, Listener, Net, Properties, Receive, Received, RecvComm, Region, Request,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The loopback to memory whose writes must be flushed, which ends when the test says so.
struct Flushing(SocketNet, Arc<AtomicBool>);

impl Net for Flushing {
    fn name(&self) -> &str {
        "flushing"
    }

    fn devices(&self) -> &[Properties] {
        self.0.devices()
    }

    fn listen(&self, device: usize) -> Result<(Handle, Box<dyn Listener>)> {
        let (handle, listener) = self.0.listen(device)?;
        Ok((handle, Box::new(FlushingListener(listener, self.1.clone()))))
    }

    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>> {
        self.0.connect(device, handle)
    }
}

struct FlushingListener(Box<dyn Listener>, Arc<AtomicBool>);

impl Listener for FlushingListener {
    fn accept(&mut self) -> Result<Option<Box<dyn RecvComm>>> {
        let flushing = |end| Box::new(FlushingEnd(end, self.1.clone())) as Box<dyn RecvComm>;
        Ok(self.0.accept()?.map(flushing))
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.0.watch(set)
    }
}

/// Number of the request of a flush.
const FLUSH: u64 = u64::MAX;

struct FlushingEnd(Box<dyn RecvComm>, Arc<AtomicBool>);

impl RecvComm for FlushingEnd {
    unsafe fn register(&mut self, data: *mut u8, bytes: usize) -> Result<Region> {
        // SAFETY: passed on to our caller.
        unsafe { self.0.register(data, bytes) }
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.0.deregister(region)
    }

    unsafe fn irecv(&mut self, buffers: &[Receive]) -> Result<Option<Request>> {
        // SAFETY: passed on to our caller.
        unsafe { self.0.irecv(buffers) }
    }

    fn announce(&mut self) {
        self.0.announce();
    }

    fn test(&mut self, request: &Request) -> Result<Option<Received>> {
        match request.number() {
            FLUSH => Ok(self.1.load(Ordering::SeqCst).then(Received::default)),
            _ => self.0.test(request),
        }
    }

    /// Whatever comes lies at its sender's as long as that is allowed.
    fn test_held(&mut self, _: &Request) -> Result<Option<Received>> {
        Ok(None)
    }

    fn flush(&mut self, _: &[Receive]) -> Result<Option<Request>> {
        Ok(Some(Request::new(FLUSH)))
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.0.watch(set)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

#[test]
fn nothing_is_published_before_it_is_flushed() {
    let flushed = Arc::<AtomicBool>::default();
    let net = Arc::new(Flushing(loopback(), flushed.clone()));
    let (first, second, mut writer, mut reader) = two_over(net, 1);
    live::record(&second);
    first.expect(0, sent(1, 4));
    second.expect(0, received(0, 4));
    assert_eq!(write(&mut writer, 1, 0, 4), 4);
    settle([&first, &second]);
    let got = live::recorded(&second);
    assert_eq!(of(&got, Phase::Received), [1, 2, 3, 4]);
    assert!(of(&got, Phase::Flushed).is_empty() && !reader.ready(0));
    flushed.store(true, Ordering::SeqCst);
    settle([&first, &second]);
    assert_eq!(of(&live::recorded(&second), Phase::Flushed), [1, 2, 3, 4]);
    assert_eq!(read(&mut reader, 1, 0), 4);
}

/// Where its reader says of each token where it goes, a token waits for that; and not any more
/// when the network cannot do as it is told.
#[test]
fn tokens_wait_for_the_wishes_of_their_reader() {
    let net = Arc::new(Flushing(loopback(), Arc::new(AtomicBool::new(true))));
    let (first, second, mut writer, mut reader) = two_over(net, 1);
    for (from, wished) in [(0, true), (4, false)] {
        first.expect(from, sent(1, 4));
        let slots = received(0, 4);
        second.expect(from, CarriedSlots { wished, ..slots });
        assert_eq!(write(&mut writer, 1, from, from + 4), from + 4);
        settle([&first, &second]);
        if wished {
            assert!(!reader.ready(0), "nothing was said");
            second.want(0, 0, 0, std::ptr::null_mut(), 0);
            settle([&first, &second]);
            assert!(reader.ready(0) && !reader.ready(1), "in its slot");
            assert_eq!(read(&mut reader, 1, 0), 1);
            // The network has no `divert`.
            let mut place = [0; SLOT_BYTES];
            second.want(0, 0, 1, place.as_mut_ptr(), SLOT_BYTES);
            settle([&first, &second]);
            assert_eq!((read(&mut reader, 1, 1), place), (4, [0; SLOT_BYTES]));
        } else {
            assert_eq!(read(&mut reader, 1, 4), 8);
        }
        settle([&first, &second]);
    }
}

/// Rank 0 waits for what rank 1 never sends, and what it sends itself goes all the same.
#[test]
fn what_waits_holds_up_nothing_else() {
    let (first, second, mut writer, mut reader) = two(1);
    first.expect(0, received(1, 4));
    first.expect(0, sent(1, 4));
    second.expect(0, received(0, 4));
    assert_eq!(write(&mut writer, 1, 0, 4), 4);
    settle([&first, &second]);
    assert_eq!(read(&mut reader, 1, 0), 4);
    assert!(first.is_busy(), "it still waits");
}

/// The sender gives up in the middle of an op.
#[test]
fn what_fails_is_kept() {
    let (first, second, mut writer, _reader) = two(1);
    first.expect(0, sent(1, 12));
    second.expect(0, received(0, 12));
    assert_eq!(write(&mut writer, 1, 0, 4), 4);
    settle([&first, &second]);
    first.close(true);
    let fails = |_| {
        std::thread::sleep(Duration::from_millis(1));
        second.pass();
        second.failed()
    };
    assert!((0..10_000).any(fails), "the sender has gone");
    let error = second.failure().expect("why");
    assert_eq!(
        (error.rank, error.peer),
        (Some(Rank(1)), Some(Rank(0))),
        "{error}"
    );
    assert_eq!(second.pass(), Pass::Idle, "nothing moves any more");
    assert_eq!(second.failure(), Some(error));
}
