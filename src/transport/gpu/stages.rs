//! The memory between devices and the network, on this node: of the host, made when the device or
//! the network first needs it, and made known to the driver when the device does.

use super::places::DevicePlaces;
use crate::base::{Error, Result};
use crate::cuda::{HostMapping, exchange_capture_mode_relaxed};
use crate::transport::memory;
use crate::wire::gpu::DeviceHalves;
use crate::wire::stage::{StageMemory, StageSource};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The stages of one rank: at one of the two ends of each is the rank itself.
pub struct Stages {
    places: DevicePlaces,
    slot_bytes: usize,
    made: Mutex<HashMap<Name, Arc<StageMemory>>>,
    mapped: Mutex<HashMap<Name, MappedStage>>,
}

/// Writer, reader, channel.
type Name = (u32, u32, u16);

/// A stage that the driver knows. The registration goes before the memory.
struct MappedStage {
    mapping: Arc<HostMapping>,
    stage: Arc<StageMemory>,
}

/// Memory that is given back.
struct Allocated(*mut u8);

// SAFETY: only the address is kept, which any thread may free, once.
unsafe impl Send for Allocated {}
// SAFETY: as above; nothing is read or written through it.
unsafe impl Sync for Allocated {}

impl Drop for Allocated {
    fn drop(&mut self) {
        // The process may have freed all such memory already; then nothing is left to do.
        let _ = memory::free(self.0);
    }
}

impl Stages {
    /// None yet. From one slot to the next are `slot_bytes`, with what the network needs behind the
    /// payload.
    pub fn new(places: DevicePlaces, slot_bytes: usize) -> Stages {
        Stages {
            places,
            slot_bytes,
            made: Mutex::default(),
            mapped: Mutex::default(),
        }
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
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match mapped.get(&name) {
            Some(known) => known,
            None => {
                let stage = self.stage(name.0, name.1, name.2)?;
                // The program may be capturing a graph, of which this is no part.
                let _relaxed = exchange_capture_mode_relaxed()?;
                let bytes = StageMemory::bytes(self.slot_bytes);
                // SAFETY: the mapping goes before the memory, here and where both are dropped.
                let mapping = unsafe { HostMapping::of(stage.start(), bytes)? };
                mapped.entry(name).or_insert(MappedStage { mapping, stage })
            }
        };
        let start = known.stage.start();
        Ok(known.stage.halves(known.mapping.address_of(start)?))
    }
}

impl StageSource for Stages {
    fn channels(&self) -> usize {
        self.places.all_channels() as usize
    }

    fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    fn stage(&self, writer: u32, reader: u32, channel: u16) -> Result<Arc<StageMemory>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stage) = made.get(&(writer, reader, channel)) {
            return Ok(Arc::clone(stage));
        }
        let start = memory::allocate(StageMemory::bytes(self.slot_bytes))?;
        if !(start as usize).is_multiple_of(4096) {
            return Err(Error::internal("allocated memory begins within a page"));
        }
        let keep = Box::new(Allocated(start));
        // SAFETY: new and zeroed memory of that size, kept by what is handed over.
        let stage = unsafe { StageMemory::new(start, self.slot_bytes, keep) };
        let stage = Arc::new(stage);
        made.insert((writer, reader, channel), Arc::clone(&stage));
        Ok(stage)
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
        let stages = Stages::new(places, 8192);
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
        assert!(stages.number(2).is_err(), "two channels");
        assert_eq!(stages.number(1 << 12).expect("of messages"), 6);
    }
}
