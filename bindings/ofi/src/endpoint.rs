//! The endpoint of a device: what all connections of the process over it share.
//!
//! libfabric's objects are used by one thread at a time, under one lock. Whoever waits drives the
//! provider and takes what has ended, for all connections: providers move data only while somebody
//! calls them. A thread that finds another one at it leaves it to that one.

use crate::inbox::Inbox;
use crate::libfabric::{Facts, Failure, Mapped, Port, Span, Way};
use crate::notice::Notice;
use crate::operation::{self, Operations};
use crate::tags::{self, Numbers};
use kolo::base::clock::now;
use kolo::base::{Code, Error, Result};
use kolo_plugin::memory::{self, Cache};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Most times that what has ended is taken at once.
const BATCHES: usize = 8;

/// How long operations that were cancelled may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Memory that one connection may use.
pub type Registered = memory::Registered<Region>;

/// Where a message goes.
#[derive(Clone, Copy)]
pub struct Target {
    /// The number of the peer's endpoint on this one.
    pub address: u64,
    /// The tag of a place that the peer has posted.
    pub tag: u64,
}

/// An open endpoint.
pub struct Endpoint {
    port: Mutex<Port>,
    inbox: Mutex<Inbox>,
    /// For people: provider and device.
    pub text: String,
    /// The name by which others reach it.
    pub name: Vec<u8>,
    /// Numbers of the ends of its connections.
    pub numbers: Numbers,
    cache: Arc<Cache<Region>>,
    peers: Mutex<HashMap<Vec<u8>, u64>>,
    /// It was shut, and nothing works over it any more.
    broken: AtomicBool,
}

/// Registered memory.
pub struct Region {
    mapped: Mapped,
    endpoint: Arc<Endpoint>,
}

impl Region {
    /// Returns what operations name.
    pub fn description(&self) -> *mut c_void {
        self.mapped.description
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.endpoint.port().unmap(&self.mapped);
    }
}

impl Endpoint {
    /// Opens one.
    pub fn open(way: &Way, facts: &Facts) -> Result<Endpoint> {
        let text = format!("{} on {}", facts.provider, facts.domain);
        let failed = |step: &str, failure: &Failure| {
            Error::new(
                Code::SystemError,
                format!(
                    "the libfabric provider {text} does not open {step}: {}",
                    failure.text
                ),
                "see `fi_info -v` and what the provider needs (docs/net-ofi.md), or choose another \
                 one with KOLO_OFI_PROVIDER",
            )
        };
        let port = Port::open(way).map_err(|(step, failure)| failed(&step, &failure))?;
        let name = port.name();
        let name = name.map_err(|failure| failed("the name of its endpoint", &failure))?;
        let mut inbox = Inbox::new();
        let (at, bytes) = inbox.memory();
        // SAFETY: the places live as long as the endpoint, and are unmapped before.
        let mapped = unsafe { port.map(at, bytes) };
        let mapped = mapped.map_err(|failure| failed("memory for notices", &failure))?;
        inbox.mapped = Some(mapped);
        let endpoint = Endpoint {
            port: Mutex::new(port),
            inbox: Mutex::new(inbox),
            name,
            numbers: Numbers::default(),
            cache: Arc::default(),
            peers: Mutex::default(),
            broken: AtomicBool::new(false),
            text: text.clone(),
        };
        let posted = endpoint.post_places(&mut endpoint.inbox());
        posted.map_err(|failure| failed("receives of notices", &failure))?;
        Ok(endpoint)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts every place for a notice that is free; those that the provider does not take yet
    /// come later.
    fn post_places(&self, inbox: &mut Inbox) -> std::result::Result<(), Failure> {
        for place in 0..inbox.arriving.count() {
            if inbox.arriving.is_idle(place) {
                let span = inbox.span(place);
                // SAFETY: the places live as long as the endpoint.
                let begun = unsafe { self.receive(&inbox.arriving, place, span, tags::NOTICES) };
                if !begun? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Begins to keep notices for the end with this number.
    pub fn enter(&self, end: u32) {
        self.inbox().enter(end);
    }

    /// Keeps none for it any more.
    pub fn leave(&self, end: u32) {
        self.inbox().leave(end);
    }

    /// The notice of a request for the end with this number, once; `None`: not yet.
    pub fn notice(&self, end: u32, sequence: u64) -> Option<Notice> {
        self.inbox().take(end, sequence)
    }

    fn port(&self) -> MutexGuard<'_, Port> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing works over it any more.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    fn check(&self) -> std::result::Result<(), Failure> {
        if !self.is_broken() {
            return Ok(());
        }
        Err(Failure {
            number: libc::ENOTCONN,
            text: "the endpoint was closed, because a connection that failed could not take its \
                   memory back otherwise"
                .into(),
        })
    }

    /// The number of another endpoint, by its name. It stays as long as this endpoint.
    pub fn peer(&self, name: &[u8]) -> Result<u64> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = peers.get(name) {
            return Ok(*address);
        }
        let address = self.port().insert(name).map_err(|failure| {
            Error::new(
                Code::RemoteError,
                format!(
                    "{} does not take the address of the other end: {}",
                    self.text, failure.text
                ),
                "let all ranks use one provider (KOLO_OFI_PROVIDER) and one version of libfabric",
            )
        })?;
        peers.insert(name.to_vec(), address);
        Ok(address)
    }

    /// Registers memory.
    ///
    /// # Safety
    /// The memory stays mapped until the registration is dropped.
    pub unsafe fn register(self: &Arc<Endpoint>, data: usize, bytes: usize) -> Result<Registered> {
        self.cache.register(data, bytes, false, |start, bytes| {
            // SAFETY: the caller's promise; whole pages are mapped where a part of them is.
            let mapped = unsafe { self.port().map(start, bytes) };
            let mapped = mapped.map_err(|failure| {
                Error::new(
                    Code::SystemError,
                    format!(
                        "{} does not register {bytes} bytes at {start:#x}: {}",
                        self.text, failure.text
                    ),
                    "register memory that is mapped and may be written, and raise the limit of \
                     locked memory (`ulimit -l unlimited`)",
                )
            })?;
            Ok(Region {
                mapped,
                endpoint: self.clone(),
            })
        })
    }

    /// Starts to send; false: not yet.
    ///
    /// # Safety
    /// The memory stays until the operation has ended.
    pub unsafe fn send(
        &self,
        operations: &Operations,
        index: usize,
        span: Span,
        to: Target,
    ) -> std::result::Result<bool, Failure> {
        let port = self.port();
        self.check()?;
        operations.begin(index);
        // SAFETY: the caller's promise; operations stay where they are.
        let begun = unsafe { port.send(span, to.address, to.tag, operations.context(index)) };
        if !matches!(begun, Ok(true)) {
            operations.forget(index);
        }
        begun
    }

    /// Starts to receive; false: not yet.
    ///
    /// # Safety
    /// The memory stays until the operation has ended.
    pub unsafe fn receive(
        &self,
        operations: &Operations,
        index: usize,
        span: Span,
        tag: u64,
    ) -> std::result::Result<bool, Failure> {
        let port = self.port();
        self.check()?;
        operations.begin(index);
        // SAFETY: the caller's promise; operations stay where they are.
        let begun = unsafe { port.receive(span, tag, operations.context(index)) };
        if !matches!(begun, Ok(true)) {
            operations.forget(index);
        }
        begun
    }

    /// Drives the provider and takes what has ended, unless another thread is at it.
    pub fn poll(&self) -> std::result::Result<(), Failure> {
        let port = match self.port.try_lock() {
            Ok(port) => port,
            Err(TryLockError::Poisoned(port)) => port.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        self.check()?;
        let mut any = false;
        for _ in 0..BATCHES {
            // SAFETY: contexts are those of operations that are under way.
            if !port.poll(|done| unsafe { operation::end(done) })? {
                break;
            }
            any = true;
        }
        drop(port);
        if any {
            let mut inbox = self.inbox();
            inbox.sort();
            self.post_places(&mut inbox)?;
        }
        Ok(())
    }

    /// Ends what is under way: nobody touches its memory afterwards. Where the provider does not
    /// end it in time, the endpoint is shut, for all of its connections.
    pub fn settle(&self, all: &[&Operations]) {
        let flying = || all.iter().flat_map(|one| one.flying()).collect::<Vec<_>>();
        let begun = now();
        if flying().is_empty() || self.is_broken() {
            return;
        }
        flying()
            .into_iter()
            .for_each(|context| self.port().cancel(context));
        while !flying().is_empty() {
            let failed = self.poll().is_err();
            if failed || begun.past(PATIENCE) {
                let port = self.port();
                if !self.broken.swap(true, Ordering::AcqRel) {
                    port.shut();
                }
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let inbox = self.inbox.get_mut().unwrap_or_else(PoisonError::into_inner);
        let port = self.port.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Nothing touches the places or their operations once the endpoint is shut.
        port.shut();
        (0..inbox.arriving.count()).for_each(|place| inbox.arriving.forget(place));
        if let Some(mapped) = inbox.mapped.take() {
            port.unmap(&mapped);
        }
    }
}
