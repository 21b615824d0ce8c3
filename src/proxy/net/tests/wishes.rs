//! Tests of wishes for several tokens: all are passed on, and what is behind the first is brought
//! while that is not here.

use super::*;
use crate::base::Result;
use crate::transport::net::{
    Connecting, Handle, Listener, Net, Properties, Receive, Received, RecvComm, Region, Request,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory of a diverted message, and the buffer that it came to.
struct Diverted {
    request: u64,
    data: *mut u8,
    bytes: usize,
}

/// Knowledge of a network that puts messages where they are wanted, and keeps the first one back.
#[derive(Default)]
struct Bringing {
    is_open: AtomicBool,
    /// Requests that were posted, and their buffers.
    posted: Mutex<Vec<(u64, *mut u8)>>,
    diverted: Mutex<Vec<Diverted>>,
    brought: Mutex<Vec<u64>>,
}

// SAFETY: the buffers belong to the engine, and the test's memory lives longer than that.
unsafe impl Send for Bringing {}
// SAFETY: as above.
unsafe impl Sync for Bringing {}

struct BringingNet(SocketNet, Arc<Bringing>);

impl Net for BringingNet {
    fn name(&self) -> &str {
        "bringing"
    }

    fn devices(&self) -> &[Properties] {
        self.0.devices()
    }

    fn listen(&self, device: usize) -> Result<(Handle, Box<dyn Listener>)> {
        let (handle, listener) = self.0.listen(device)?;
        Ok((handle, Box::new(BringingListener(listener, self.1.clone()))))
    }

    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>> {
        self.0.connect(device, handle)
    }
}

struct BringingListener(Box<dyn Listener>, Arc<Bringing>);

impl Listener for BringingListener {
    fn accept(&mut self) -> Result<Option<Box<dyn RecvComm>>> {
        let bringing = |end| Box::new(BringingEnd(end, self.1.clone())) as Box<dyn RecvComm>;
        Ok(self.0.accept()?.map(bringing))
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.0.watch(set)
    }
}

struct BringingEnd(Box<dyn RecvComm>, Arc<Bringing>);

impl RecvComm for BringingEnd {
    unsafe fn register(&mut self, data: *mut u8, bytes: usize) -> Result<Region> {
        // SAFETY: passed on to our caller.
        unsafe { self.0.register(data, bytes) }
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.0.deregister(region)
    }

    unsafe fn irecv(&mut self, buffers: &[Receive]) -> Result<Option<Request>> {
        // SAFETY: passed on to our caller.
        let request = unsafe { self.0.irecv(buffers)? };
        let posted = request.iter().map(|it| (it.number(), buffers[0].data));
        self.1.posted.lock().unwrap().extend(posted);
        Ok(request)
    }

    unsafe fn divert(
        &mut self,
        request: &Request,
        data: *mut u8,
        bytes: usize,
        _length: usize,
    ) -> bool {
        let request = request.number();
        self.1.diverted.lock().unwrap().push(Diverted {
            request,
            data,
            bytes,
        });
        true
    }

    fn announce(&mut self) {
        self.0.announce();
    }

    fn test(&mut self, request: &Request) -> Result<Option<Received>> {
        let number = request.number();
        let posted = self.1.posted.lock().unwrap();
        // Before the tokens comes the word of who sends them.
        let is_first = posted.get(1).is_some_and(|it| it.0 == number);
        if is_first && !self.1.is_open.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let Some(received) = self.0.test(request)? else {
            return Ok(None);
        };
        let diverted = self.1.diverted.lock().unwrap();
        let Some(to) = diverted.iter().find(|it| it.request == number) else {
            return Ok(Some(received));
        };
        let (_, buffer) = posted.iter().find(|it| it.0 == number).expect("posted");
        // SAFETY: the message is in the buffer, and its place is the engine's.
        unsafe { std::ptr::copy_nonoverlapping(buffer.cast_const(), to.data, to.bytes) };
        Ok(Some(received.diverted(true)))
    }

    /// Whatever comes lies at its sender's as long as that is allowed.
    fn test_held(&mut self, _: &Request) -> Result<Option<Received>> {
        Ok(None)
    }

    fn bring(&mut self, request: &Request) -> Result<()> {
        self.1.brought.lock().unwrap().push(request.number());
        Ok(())
    }

    fn flush(&mut self, _: &[Receive]) -> Result<Option<Request>> {
        Ok(None)
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.0.watch(set)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

/// Tokens of whole slots, each filled with its number and more.
fn write_full(writer: &mut PairSender, tokens: std::ops::Range<u64>) {
    for token in tokens {
        assert!(writer.ready(1));
        let place = writer.place(SLOT_BYTES);
        // SAFETY: ready: the place is the writer's.
        (0..SLOT_BYTES).for_each(|at| unsafe { *place.add(at) = content(token, at) });
        writer.publish(1, SLOT_BYTES, token ^ 0xabcd);
    }
}

#[test]
fn later_tokens_are_brought_before_the_first_is_here() {
    let bringing = Arc::<Bringing>::default();
    let net = Arc::new(BringingNet(loopback(), bringing.clone()));
    let (first, second, mut writer, mut reader) = two_over(net, 1);
    let mut places = vec![[0xee_u8; SLOT_BYTES]; 10];
    first.expect(0, sent(1, 10));
    let slots = received(0, 10);
    let wished = true;
    second.expect(0, CarriedSlots { wished, ..slots });
    write_full(&mut writer, 0..8);
    // Of the fifth token nothing is said, so nothing is asked of those behind it either.
    for token in (0..8).filter(|&token| token != 4) {
        let place = places[token as usize].as_mut_ptr();
        second.want(0, 0, token, place, SLOT_BYTES);
    }
    settle([&first, &second]);
    assert!(!reader.ready(0), "the first is kept back");
    let numbers = |of: &[Diverted]| of.iter().map(|it| it.request).collect::<Vec<_>>();
    let posted: Vec<u64> = {
        let posted = bringing.posted.lock().unwrap();
        posted[1..].iter().map(|it| it.0).collect()
    };
    assert_eq!(numbers(&bringing.diverted.lock().unwrap()), posted[..4]);
    let mut brought = bringing.brought.lock().unwrap().clone();
    brought.sort_unstable();
    brought.dedup();
    assert_eq!(brought, posted[1..4]);
    bringing.is_open.store(true, Ordering::SeqCst);
    settle([&first, &second]);
    assert!(reader.ready(3) && !reader.ready(4), "the fifth is held");
    second.want(0, 0, 4, places[4].as_mut_ptr(), SLOT_BYTES);
    settle([&first, &second]);
    for token in 0..10 {
        if token >= 8 {
            second.want(0, 0, token, places[token as usize].as_mut_ptr(), SLOT_BYTES);
            write_full(&mut writer, token..token + 1);
            settle([&first, &second]);
        }
        assert!(reader.ready(0), "token {token}");
        assert_eq!(reader.arrival(0).signature, token ^ 0xabcd);
        let place = &places[token as usize];
        assert_eq!(reader.elsewhere(0), Some(place.as_ptr().cast_mut()));
        assert!(
            (0..)
                .zip(place)
                .all(|(at, &byte)| byte == content(token, at))
        );
        reader.release(1);
    }
    assert_eq!(live::copied(&second), 0);
    first.close(false);
    second.close(false);
}
