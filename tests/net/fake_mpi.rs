//! An MPI of one process: as many ranks as wanted, messages that wait for each other, and faults.

use kolo::transport::net::mpi::MpiNet;
use kolo::transport::net::mpi::abi::*;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// Messages up to this size are taken at once, as a real MPI does.
const EAGER: usize = 100;

struct Message {
    id: usize,
    from: c_int,
    to: c_int,
    tag: c_int,
    data: Place,
    bytes: usize,
}

impl Message {
    fn path(&self) -> (c_int, c_int, c_int) {
        (self.from, self.to, self.tag)
    }
}

enum Place {
    Copied(Vec<u8>),
    Callers(*mut u8),
}

// SAFETY: the pointers are used under the lock, while kolo keeps the memory.
unsafe impl Send for Message {}

/// State that all ranks share.
pub struct World {
    sends: Vec<Message>,
    receives: Vec<Message>,
    /// Received bytes of what is done and was not tested.
    done: HashMap<usize, usize>,
    next: usize,
    random: fastrand::Rng,
}

/// One rank.
pub struct Rank {
    world: Arc<Mutex<World>>,
    rank: c_int,
    nranks: c_int,
    level: c_int,
    most_tag: c_int,
    most_bytes: usize,
    main: ThreadId,
    /// Every call fails from now on.
    pub broken: AtomicBool,
    pub finalised: AtomicBool,
    /// Duplicates that were opened and not closed.
    pub open: AtomicUsize,
}

/// How the ranks are made.
pub struct Fake {
    /// Seed by which it is drawn what arrives when.
    pub seed: u64,
    pub level: c_int,
    pub most_tag: c_int,
    pub most_bytes: usize,
}

impl Default for Fake {
    fn default() -> Fake {
        Fake {
            seed: 9,
            level: 3,
            most_tag: 32_767,
            most_bytes: 1 << 30,
        }
    }
}

impl Fake {
    /// The ranks of a new world; this thread is the one that called MPI_Init.
    pub fn ranks(self, nranks: c_int) -> Vec<&'static Rank> {
        let world = Arc::new(Mutex::new(World {
            sends: Vec::new(),
            receives: Vec::new(),
            done: HashMap::new(),
            next: 1,
            random: fastrand::Rng::with_seed(self.seed),
        }));
        let rank = |rank| -> &'static Rank {
            Box::leak(Box::new(Rank {
                world: world.clone(),
                rank,
                nranks,
                level: self.level,
                most_tag: self.most_tag,
                most_bytes: self.most_bytes,
                main: std::thread::current().id(),
                broken: AtomicBool::new(false),
                finalised: AtomicBool::new(false),
                open: AtomicUsize::new(0),
            }))
        };
        (0..nranks).map(rank).collect()
    }
}

impl Rank {
    pub fn net(&'static self) -> MpiNet {
        // SAFETY: the table is whole, and the rank is never freed.
        unsafe { MpiNet::new(&TABLE, (&raw const *self).cast_mut().cast()) }.unwrap()
    }

    /// Messages and receives that nobody has ended.
    pub fn left(&self) -> usize {
        let world = self.world.lock().unwrap();
        world.sends.len() + world.receives.len() + world.done.len()
    }

    fn check(&self) -> c_int {
        assert_eq!(self.state(), MAY_CALL, "MPI was called where it must not");
        match self.broken.load(Ordering::SeqCst) {
            true => 77,
            false => 0,
        }
    }

    fn state(&self) -> c_int {
        let here = std::thread::current().id() == self.main;
        match (self.finalised.load(Ordering::SeqCst), self.level) {
            (true, _) => FINALISED,
            (false, 0 | 1) if !here => WRONG_THREAD,
            _ => MAY_CALL,
        }
    }
}

impl World {
    fn id(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Brings messages and receives together, now and then: those with the same tag in their
    /// order, others in any order.
    fn progress(&mut self) {
        if self.random.bool() {
            return;
        }
        let mut late = Vec::new();
        let mut at = 0;
        while at < self.receives.len() {
            let path = self.receives[at].path();
            if late.contains(&path) || self.random.bool() {
                late.push(path);
                at += 1;
                continue;
            }
            let Some(found) = self.sends.iter().position(|send| send.path() == path) else {
                at += 1;
                continue;
            };
            let (receive, send) = (self.receives.remove(at), self.sends.remove(found));
            assert!(send.bytes <= receive.bytes, "a message was truncated");
            let Place::Callers(to) = receive.data else {
                panic!("a receive without memory");
            };
            copy(&send, to);
            self.done.insert(receive.id, send.bytes);
            if let Place::Callers(_) = send.data {
                self.done.insert(send.id, 0);
            }
        }
    }
}

fn copy(message: &Message, to: *mut u8) {
    // SAFETY: both buffers hold as many bytes, by the promises of whoever gave them.
    unsafe {
        match &message.data {
            Place::Copied(data) => std::ptr::copy(data.as_ptr(), to, message.bytes),
            Place::Callers(data) => std::ptr::copy(*data, to, message.bytes),
        }
    }
}

/// # Safety
/// `net` is a `Rank` of [`Fake::ranks`].
unsafe fn rank<'a>(net: *mut c_void) -> &'a Rank {
    // SAFETY: the caller's promise; ranks are never freed.
    unsafe { &*net.cast::<Rank>() }
}

unsafe extern "C" fn open(context: *mut c_void, info: *mut MpiNetInfo) -> c_int {
    // SAFETY: kolo hands back the context, and a place to write.
    unsafe {
        let rank = rank(context);
        rank.open.fetch_add(1, Ordering::SeqCst);
        *info = MpiNetInfo {
            net: context,
            rank: rank.rank,
            nranks: rank.nranks,
            thread_level: rank.level,
            most_tag: rank.most_tag,
            most_bytes: rank.most_bytes,
        };
    }
    0
}

unsafe extern "C" fn may_call(net: *mut c_void) -> c_int {
    // SAFETY: kolo hands back what `open` gave.
    unsafe { rank(net) }.state()
}

unsafe extern "C" fn isend(
    net: *mut c_void,
    data: *const c_void,
    bytes: usize,
    to: c_int,
    tag: c_int,
    request: *mut MpiRequest,
) -> c_int {
    // SAFETY: as in `may_call`.
    let here = unsafe { rank(net) };
    assert!(bytes <= here.most_bytes && (0..=here.most_tag).contains(&tag));
    assert!((0..here.nranks).contains(&to));
    let mut world = here.world.lock().unwrap();
    let id = world.id();
    let data = match bytes <= EAGER {
        // SAFETY: kolo hands over so many bytes.
        true => Place::Copied(unsafe { std::slice::from_raw_parts(data.cast(), bytes) }.to_vec()),
        false => Place::Callers(data.cast_mut().cast()),
    };
    if let Place::Copied(_) = data {
        world.done.insert(id, 0);
    }
    world.sends.push(Message {
        id,
        from: here.rank,
        to,
        tag,
        data,
        bytes,
    });
    // SAFETY: a place to write.
    unsafe { *request = id };
    here.check()
}

unsafe extern "C" fn irecv(
    net: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    from: c_int,
    tag: c_int,
    request: *mut MpiRequest,
) -> c_int {
    // SAFETY: as in `may_call`.
    let here = unsafe { rank(net) };
    assert!(bytes <= here.most_bytes && (1..=here.most_tag).contains(&tag));
    let mut world = here.world.lock().unwrap();
    let id = world.id();
    world.receives.push(Message {
        id,
        from,
        to: here.rank,
        tag,
        data: Place::Callers(data.cast()),
        bytes,
    });
    // SAFETY: a place to write.
    unsafe { *request = id };
    here.check()
}

unsafe extern "C" fn test(
    net: *mut c_void,
    request: *mut MpiRequest,
    done: *mut c_int,
    received: *mut usize,
) -> c_int {
    // SAFETY: as in `may_call`, and places to write.
    unsafe {
        let here = rank(net);
        let mut world = here.world.lock().unwrap();
        assert_ne!(*request, NO_REQUEST, "a request that is done was tested");
        world.progress();
        if let Some(bytes) = world.done.remove(&*request) {
            (*done, *received, *request) = (1, bytes, NO_REQUEST);
        }
        here.check()
    }
}

unsafe extern "C" fn cancel(net: *mut c_void, request: *mut MpiRequest) -> c_int {
    // SAFETY: as in `test`.
    unsafe {
        let here = rank(net);
        let mut world = here.world.lock().unwrap();
        let id = *request;
        if let Some(at) = world.receives.iter().position(|r| r.id == id) {
            world.receives.remove(at);
            world.done.insert(id, CANCELLED);
        }
        here.check()
    }
}

unsafe extern "C" fn poll(
    net: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    tag: c_int,
    from: *mut c_int,
) -> c_int {
    // SAFETY: as in `test`.
    unsafe {
        let here = rank(net);
        let mut world = here.world.lock().unwrap();
        world.progress();
        *from = -1;
        let mut sends = world.sends.iter();
        if let Some(at) = sends.position(|s| s.to == here.rank && s.tag == tag) {
            let message = world.sends.remove(at);
            assert_eq!(message.bytes, bytes);
            copy(&message, data.cast());
            *from = message.from;
        }
        here.check()
    }
}

unsafe extern "C" fn error_text(_: c_int, text: *mut c_char, bytes: usize) {
    let words = b"the fake is broken\0";
    assert!(bytes >= words.len());
    // SAFETY: room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), text.cast(), words.len()) };
}

unsafe extern "C" fn close(net: *mut c_void) -> c_int {
    // SAFETY: as in `may_call`.
    let here = unsafe { rank(net) };
    here.open.fetch_sub(1, Ordering::SeqCst);
    here.check()
}

pub static TABLE: MpiNetTable = MpiNetTable {
    size: size_of::<MpiNetTable>(),
    version: NET_VERSION,
    open: Some(open),
    may_call: Some(may_call),
    isend: Some(isend),
    irecv: Some(irecv),
    test: Some(test),
    cancel: Some(cancel),
    poll: Some(poll),
    error_text: Some(error_text),
    close: Some(close),
};
