//! Tests that messages handed to the network still arrive when their sender leaves at once.

use super::*;
use crate::base::Result;
use crate::transport::net::{
    Connecting, Handle, Listener, Net, Properties, Region, Request, SendComm,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Facts that the test and the sending ends of its network tell each other.
#[derive(Default)]
pub(super) struct Known {
    /// The receiver has taken all that was sent.
    pub taken: AtomicBool,
    /// How often an end was asked whether it is settled.
    pub asked: AtomicU32,
    /// An end was closed before it was settled.
    hasty: AtomicBool,
    /// All connections of the sender are closed.
    closed: AtomicBool,
    /// Bytes of each piece of memory that was registered.
    registered: Mutex<Vec<usize>>,
}

/// The loopback, as slow as its receiver: a sending end is settled when everything was taken.
pub(super) struct Slow(pub SocketNet, pub Arc<Known>);

impl Net for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn devices(&self) -> &[Properties] {
        self.0.devices()
    }

    fn listen(&self, device: usize) -> Result<(Handle, Box<dyn Listener>)> {
        self.0.listen(device)
    }

    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>> {
        let connecting = self.0.connect(device, handle)?;
        Ok(Box::new(SlowConnecting(connecting, self.1.clone())))
    }
}

struct SlowConnecting(Box<dyn Connecting>, Arc<Known>);

impl Connecting for SlowConnecting {
    fn poll(&mut self) -> Result<Option<Box<dyn SendComm>>> {
        let slow = |end| Box::new(SlowEnd(end, self.1.clone())) as Box<dyn SendComm>;
        Ok(self.0.poll()?.map(slow))
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.0.watch(set)
    }
}

struct SlowEnd(Box<dyn SendComm>, Arc<Known>);

impl SendComm for SlowEnd {
    unsafe fn register(&mut self, data: *const u8, bytes: usize) -> Result<Region> {
        self.1.registered.lock().unwrap().push(bytes);
        // SAFETY: passed on to our caller.
        unsafe { self.0.register(data, bytes) }
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.0.deregister(region)
    }

    unsafe fn isend(
        &mut self,
        data: *const u8,
        bytes: usize,
        tag: u32,
        region: Region,
    ) -> Result<Option<Request>> {
        // SAFETY: passed on to our caller.
        unsafe { self.0.isend(data, bytes, tag, region) }
    }

    fn test(&mut self, request: &Request) -> Result<Option<usize>> {
        self.0.test(request)
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.0.watch(set)
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn is_settled(&mut self) -> bool {
        self.1.asked.fetch_add(1, Ordering::SeqCst);
        self.1.taken.load(Ordering::SeqCst) && self.0.is_settled()
    }

    /// The time that a network waits here is bounded, and this one's is over.
    fn close(self: Box<Self>) -> Result<()> {
        if !self.1.taken.load(Ordering::SeqCst) {
            self.1.hasty.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Lets a sender go whose test has failed.
struct LetGo<'a>(&'a Known);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.taken.store(true, Ordering::SeqCst);
    }
}

/// Slots and lines of all protocols are one piece, which is registered when its connection is made;
/// the greeting is another, smaller one.
#[test]
fn slots_are_registered_once_for_all_calls() {
    let known = Arc::<Known>::default();
    known.taken.store(true, Ordering::SeqCst);
    let net = Arc::new(Slow(loopback(), known.clone()));
    let (first, second, mut writer, mut reader) = two_over(net, 1);
    let (mut written, mut taken) = (0, 0);
    for launch in 0..4 {
        first.expect(launch, sent(1, 8));
        second.expect(launch, received(0, 8));
        let end = 8 * (launch + 1);
        written = write(&mut writer, 1, written, end);
        settle([&first, &second]);
        taken = read(&mut reader, 1, taken);
        assert_eq!((written, taken), (end, end));
        let registered = known.registered.lock().unwrap();
        let large = registered.iter().filter(|&&bytes| bytes > SLOT_BYTES);
        assert_eq!(large.count(), 1, "launch {launch}: {registered:?}");
        assert!(registered.len() <= 2, "launch {launch}: {registered:?}");
    }
}

#[test]
fn a_sender_that_leaves_at_once_waits_for_its_receiver() {
    const TOKENS: u64 = 8;
    let known = Arc::<Known>::default();
    let net = Arc::new(Slow(loopback(), known.clone()));
    let (first, second, mut writer, mut reader) = two_over(net, 1);
    first.expect(0, sent(1, TOKENS));
    second.expect(0, received(0, TOKENS));
    // The connection is made, and the receiver has posted its slots.
    settle([&first, &second]);
    assert_eq!(write(&mut writer, 1, 0, TOKENS), TOKENS);
    while first.is_busy() {
        first.pass();
        assert!(!first.failed(), "{:?}", first.failure());
    }
    std::thread::scope(|scope| {
        let _guard = LetGo(&known);
        let leaving = scope.spawn(|| {
            first.close(false);
            known.closed.store(true, Ordering::SeqCst);
        });
        // It has looked more than once, and its receiver has not moved.
        while known.asked.load(Ordering::SeqCst) < 3 && !leaving.is_finished() {
            std::thread::yield_now();
        }
        assert!(!known.closed.load(Ordering::SeqCst), "nothing was taken");
        let mut taken = 0;
        while taken < TOKENS {
            second.pass();
            assert!(!second.failed(), "{:?}", second.failure());
            taken = read(&mut reader, 1, taken);
        }
        assert!(!known.closed.load(Ordering::SeqCst), "not known as taken");
        known.taken.store(true, Ordering::SeqCst);
        leaving.join().unwrap();
    });
    assert!(known.closed.load(Ordering::SeqCst));
    assert!(!known.hasty.load(Ordering::SeqCst), "closed when settled");
    settle([&first, &second]);
    assert!(!second.is_busy() && !second.failed());
    second.close(false);
}

/// Who gives up waits for nobody: a communicator that has stopped may have dead peers.
#[test]
fn a_sender_that_gives_up_does_not_wait() {
    let known = Arc::<Known>::default();
    let net = Arc::new(Slow(loopback(), known.clone()));
    let (first, second, mut writer, _reader) = two_over(net, 1);
    first.expect(0, sent(1, 1));
    second.expect(0, received(0, 1));
    settle([&first, &second]);
    assert_eq!(write(&mut writer, 1, 0, 1), 1);
    first.pass();
    first.close(true);
    assert_eq!(known.asked.load(Ordering::SeqCst), 0);
}
