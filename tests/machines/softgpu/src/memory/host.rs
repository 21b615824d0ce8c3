//! Memory of the caller that devices may use: registered.

use super::{Home, Keeper, Kind, Memory, NewRange};
use crate::error::{Answer, Code};
use kolo_kernels_host::{Access, Machine};

/// `CU_MEMHOSTREGISTER_IOMEMORY`: not memory, so nothing that can be here.
const IO_MEMORY: u32 = 4;

impl Memory {
    /// # Errors
    /// A part of it is registered already, or is none of the host's.
    pub fn register(
        &mut self,
        machine: &mut Machine,
        (device, context): (u32, u64),
        (base, bytes): (u64, u64),
        flags: u32,
    ) -> Answer {
        let end = base.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        if base == 0 || bytes == 0 || self.is_of_devices(base) || self.is_of_devices(end - 1) {
            return Err(Code::INVALID_VALUE);
        }
        if flags & IO_MEMORY != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let home = Home(std::ptr::with_exposed_provenance_mut(base as usize));
        self.enter(
            machine,
            NewRange {
                name: "registered memory",
                base,
                bytes,
                home,
                kind: Kind::Registered(flags),
                device,
                context,
                access: Access::ALL,
                keeper: Keeper::Caller,
            },
        )
    }
}
