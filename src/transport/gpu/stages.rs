//! The memory between devices and the network, on this node: plain memory of the host that the
//! driver knows.
//!
//! **Problem.** A connection is made when the device or the network first needs it. Making memory
//! known to the driver may wait for devices, and so for kernels that wait for this rank.
//!
//! **Idea.** The connections that most communicators have come from one *slab*, which the driver is
//! told of when the communicator is made. Only those beyond it are made known later.

use super::places::DevicePlaces;
use crate::base::{Code, Error, Result};
use crate::cuda::{HostMapping, exchange_capture_mode_relaxed};
use crate::transport::room;
use crate::wire::gpu::DeviceHalves;
use crate::wire::stage::{StageMemory, StageSource};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Connections of the slab: both ways on each of 8 channels.
const SLAB_STAGES: usize = 16;
/// Name of this memory in errors.
const WHAT: &str = "memory between GPUs and the network";

/// The stages of one rank: at one of the two ends of each is the rank itself.
pub struct Stages {
    places: DevicePlaces,
    /// Bytes from one slot to the next, and how many of them are payload.
    slot_bytes: (usize, usize),
    /// Mappings that the driver knows: the slab, and regions beyond it. They are dropped before the
    /// memory.
    known: OnceLock<Arc<HostMapping>>,
    late: Mutex<HashMap<Name, Arc<HostMapping>>>,
    slab: Arc<HostRegion>,
    made: Mutex<HashMap<Name, MadeStage>>,
}

/// A stage with the region that it has to itself, if it is none of the slab.
#[derive(Clone)]
struct MadeStage {
    stage: Arc<StageMemory>,
    own: Option<Arc<HostRegion>>,
}

/// Writer, reader, channel.
type Name = (u32, u32, u16);

/// Anonymous memory of the host, which children do not inherit.
struct HostRegion {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: only the address is kept, which any thread may unmap, once.
unsafe impl Send for HostRegion {}
// SAFETY: as above; nothing is read or written through it here.
unsafe impl Sync for HostRegion {}

impl HostRegion {
    fn new(bytes: usize) -> Result<Arc<HostRegion>> {
        room::check_memory(WHAT, bytes)?;
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            let cause = std::io::Error::last_os_error();
            return Err(Error::new(
                Code::SystemError,
                format!("no {WHAT}: {bytes} bytes: {cause}"),
                "give the job more memory, or use fewer channels (KOLO_MAX_NCHANNELS) or smaller \
                 slots (KOLO_BUFFSIZE)",
            ));
        }
        // SAFETY: the range is the mapping made above. A refusal means that children inherit it.
        unsafe { libc::madvise(start, bytes, libc::MADV_DONTFORK) };
        Ok(Arc::new(HostRegion {
            start: start.cast(),
            bytes,
        }))
    }
}

impl Drop for HostRegion {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody uses it any more. A failure leaves it there.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Has the driver know a region.
fn know(region: &HostRegion) -> Result<Arc<HostMapping>> {
    // The program may be capturing a graph, of which this is no part.
    let _relaxed = exchange_capture_mode_relaxed()?;
    // SAFETY: whoever keeps the mapping keeps the memory longer.
    unsafe { HostMapping::of(region.start, region.bytes) }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stages {
    /// None yet. From one slot to the next are `slot_bytes.0` bytes, of which `.1` are for payload
    /// and the others for the network.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(places: DevicePlaces, slot_bytes: (usize, usize)) -> Result<Stages> {
        Ok(Stages {
            places,
            slot_bytes,
            known: OnceLock::new(),
            late: Mutex::default(),
            slab: HostRegion::new(SLAB_STAGES * StageMemory::bytes(slot_bytes.0))?,
            made: Mutex::default(),
        })
    }

    /// Has the driver know the slab, when the communicator is made. May wait for devices.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn prepare(&self) -> Result<()> {
        if self.known.get().is_none() {
            let _ = self.known.set(know(&self.slab)?);
        }
        Ok(())
    }

    /// The number of a plan's channel among those of the stages.
    ///
    /// # Errors
    /// There is no such channel.
    pub fn number(&self, channel: u16) -> Result<u16> {
        self.places.number(channel).map(|number| number as u16)
    }

    /// Where the device of this process finds a connection.
    ///
    /// # Errors
    /// No memory; the driver refuses.
    pub(super) fn halves(&self, writer: u32, reader: u32, channel: u16) -> Result<DeviceHalves> {
        let name = (writer, reader, self.number(channel)?);
        let MadeStage { stage, own } = self.made(name)?;
        let known = match own {
            None => self.known.get().cloned(),
            Some(region) => {
                let mut late = hold(&self.late);
                let known = match late.get(&name) {
                    Some(known) => Arc::clone(known),
                    None => know(&region)?,
                };
                late.insert(name, Arc::clone(&known));
                Some(known)
            }
        };
        let known = known.ok_or_else(|| Error::internal("a slab that was not prepared"))?;
        Ok(stage.halves(known.address_of(stage.start())?))
    }

    fn made(&self, name: Name) -> Result<MadeStage> {
        let mut made = hold(&self.made);
        if let Some(known) = made.get(&name) {
            return Ok(known.clone());
        }
        let bytes = StageMemory::bytes(self.slot_bytes.0);
        let own = match made.len() < SLAB_STAGES {
            true => None,
            false => Some(HostRegion::new(bytes)?),
        };
        let (region, offset) = match &own {
            None => (&self.slab, made.len() * bytes),
            Some(region) => (region, 0),
        };
        let keep = Box::new(Arc::clone(region));
        // SAFETY: a part of the slab that nobody else has, or a region of its own: zeros, from a
        // page on, kept by what is handed over.
        let stage = unsafe { StageMemory::new(region.start.add(offset), self.slot_bytes, keep) };
        let stage = Arc::new(stage);
        made.insert(
            name,
            MadeStage {
                stage: Arc::clone(&stage),
                own: own.clone(),
            },
        );
        Ok(MadeStage { stage, own })
    }
}

impl StageSource for Stages {
    fn channels(&self) -> usize {
        self.places.all_channels() as usize
    }

    fn slot_bytes(&self) -> usize {
        self.slot_bytes.0
    }

    fn stage(&self, writer: u32, reader: u32, channel: u16) -> Result<Arc<StageMemory>> {
        self.made((writer, reader, channel)).map(|made| made.stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_who_ask_get_the_same_and_others_do_not() {
        let places = DevicePlaces {
            nranks: 4,
            channels: 2,
            slot_bytes: [4096, 4096, 4096],
        };
        let stages = Stages::new(places, (8192, 4096)).expect("memory");
        assert_eq!((stages.channels(), stages.slot_bytes()), (8, 8192));
        let start = |writer, reader, channel| {
            let stage = stages.stage(writer, reader, channel);
            stage.expect("memory").start() as usize
        };
        let one = start(0, 1, 5);
        assert_eq!(start(0, 1, 5), one);
        let all = [one, start(1, 0, 5), start(0, 1, 4), start(0, 2, 5)];
        let bytes = StageMemory::bytes(8192);
        for (at, one) in all.iter().enumerate() {
            let others = all.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, other) in others {
                assert!(one.abs_diff(*other) >= bytes, "{one:#x} {other:#x}");
            }
        }
        // Beyond the slab each has memory of its own.
        let more: Vec<usize> = (0..8)
            .flat_map(|channel| [1, 2, 3].map(|reader| start(0, reader, channel)))
            .collect();
        for (at, one) in more.iter().enumerate() {
            let others = more.iter().enumerate().filter(|(other, _)| *other != at);
            assert!(
                others
                    .clone()
                    .all(|(_, other)| one.abs_diff(*other) >= bytes)
            );
            assert!(one.is_multiple_of(4096));
        }
        assert!(stages.number(2).is_err(), "two channels");
        assert_eq!(stages.number(1 << 12).expect("of messages"), 6);
    }
}
