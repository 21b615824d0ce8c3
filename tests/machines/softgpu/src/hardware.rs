//! The hardware of all devices, as tasks of streams use it: the machine, memory, and events.

use crate::event::Event;
use crate::fault::Faults;
use crate::memory::Memory;
use crate::table::Table;
use kolo_kernels_host::Machine;

/// The hardware of all devices, as far as a task sees it.
pub struct Hardware {
    pub machine: Machine,
    pub memory: Memory,
    pub events: Table<Event>,
    pub faults: Faults,
    /// Grids may be on the machine.
    pub has_grids: bool,
}
