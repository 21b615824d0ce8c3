//! Memory of devices, and memory of the host that devices may use.
//!
//! Addresses of devices lie in one stretch that is reserved and that the CPU cannot use: a program
//! that reads through a device's address faults at once, as it would with a GPU. The bytes lie
//! elsewhere. Only memory of the host (pinned, registered, managed) lies where its address says.
//!
//! [`ranges`] has what kernels know of all that. Each kind of memory is an object beside it, which
//! is given the ranges that it changes; here are the calls that need several of them.

pub mod arenas;
pub mod backing;
pub mod bytes;
pub mod gaps;
pub mod host;
pub mod ipc;
pub mod peers;
pub mod physical;
pub mod pointer;
pub mod pool;
pub mod ranges;
pub mod virtual_memory;

use crate::error::{Answer, Code};
use crate::progress::Failed;
use crate::table::Table;
use arenas::{ALIGNMENT, Arenas};
pub use backing::GRANULARITY;
use ipc::Opened;
use kolo_kernels_host::Machine;
use peers::Peers;
use physical::{OfDevice, Physicals};
use pool::Pool;
use ranges::{Keeper, NewRange};
pub use ranges::{Kind, Owner, Ranges, Trouble};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use virtual_memory::Reservations;

/// All memory.
pub struct Memory {
    pub ranges: Ranges,
    pub arenas: Arenas,
    pub peers: Peers,
    pub pools: Table<Pool>,
    pub physicals: Physicals,
    pub reservations: Reservations,
    pub opened: Opened,
}

impl Memory {
    /// # Errors
    /// There are not enough addresses.
    pub fn new(devices: usize, total: u64) -> Answer<Memory> {
        Ok(Memory {
            ranges: Ranges::new()?,
            arenas: Arenas::new(devices, total),
            peers: Peers::default(),
            pools: Table::new(Code::INVALID_VALUE),
            physicals: Physicals::new(),
            reservations: Reservations::default(),
            opened: Opened::default(),
        })
    }

    /// Memory of a device: its address.
    ///
    /// # Errors
    /// The device has not so much.
    pub fn allocate(
        &mut self,
        machine: &mut Machine,
        owner: Owner,
        bytes: u64,
        kind: Kind,
    ) -> Answer<u64> {
        let Owner { device, context } = owner;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let whole = bytes
            .checked_next_multiple_of(ALIGNMENT)
            .ok_or(Code::OUT_OF_MEMORY)?;
        let (home, part) = self.arenas.take(device, whole)?;
        let Some(base) = self.ranges.space.take(whole, ALIGNMENT, 0) else {
            self.arenas.give(device, &part);
            return Err(Code::OUT_OF_MEMORY);
        };
        let (name, access) = match kind {
            Kind::Pooled(pool) => ("memory of a pool", self.pools.get(pool)?.access),
            _ => ("memory", self.peers.access(device)),
        };
        self.ranges.enter(
            machine,
            NewRange {
                name,
                base,
                bytes,
                home,
                kind,
                device,
                context,
                access,
                keeper: Keeper::Arena(part),
            },
        )?;
        Ok(base)
    }

    /// Gives an allocation back that begins at `base`, if it is of a kind that `is_good` takes.
    ///
    /// # Errors
    /// There is none, or a kernel stores to it.
    pub fn free(
        &mut self,
        machine: &mut Machine,
        base: u64,
        is_good: fn(Kind) -> bool,
    ) -> Result<(), Trouble> {
        let known = self.ranges.at(base).filter(|known| is_good(known.kind));
        known.ok_or(Code::INVALID_VALUE)?;
        let gone = self.ranges.leave(machine, base)?;
        if !gone.kind.is_of_host() {
            self.ranges.space.give(base);
        }
        if let Keeper::Arena(part) = &gone.keeper {
            self.arenas.give(gone.device, part);
        }
        Ok(())
    }

    /// Frees everything that was allocated in a context.
    ///
    /// # Errors
    /// A kernel stores to some of it.
    pub fn drop_context(&mut self, machine: &mut Machine, context: u64) -> Result<(), Failed> {
        let is_of = |context: u64, of: u64| of == context && context != 0;
        for base in self.ranges.bases(|it| is_of(context, it.context)) {
            match self.free(machine, base, |_| true) {
                Err(Trouble::Failure(failure)) => return Err(failure.into()),
                Ok(()) | Err(Trouble::Code(_)) => {}
            }
        }
        self.opened.forget(context);
        Ok(())
    }

    /// Physical memory of a device: a handle.
    ///
    /// # Errors
    /// The size is no multiple of the granularity, or the device has not so much.
    pub fn create(&mut self, of: OfDevice, bytes: u64, handle_types: i32) -> Answer<u64> {
        let (id, used) = (self.ranges.new_id(), &self.arenas.used[of.device as usize]);
        let total = self.arenas.total;
        self.physicals
            .create(of, id, used, total, bytes, handle_types)
    }

    /// A handle of what is mapped at an address.
    ///
    /// # Errors
    /// Nothing is.
    pub fn retain(&mut self, at: u64) -> Answer<u64> {
        let found = self.ranges.find(at).ok_or(Code::INVALID_VALUE)?;
        let Keeper::Physical(physical) = &found.keeper else {
            return Err(Code::INVALID_VALUE);
        };
        self.physicals.retain(Arc::clone(physical))
    }

    /// Physical memory of a descriptor, which stays the caller's.
    ///
    /// # Errors
    /// The file is no such memory, or of a device that this process does not see.
    pub fn import(
        &mut self,
        file: BorrowedFd,
        device_of: impl Fn(u32) -> Option<u32>,
    ) -> Answer<u64> {
        let id = self.ranges.new_id();
        self.physicals.import(id, file, device_of)
    }

    /// Closes memory of another process, as often as it was opened.
    ///
    /// # Errors
    /// It is none, or a kernel stores to it.
    pub fn close(&mut self, machine: &mut Machine, base: u64) -> Result<(), Trouble> {
        if self.opened.close(base)? {
            self.free(machine, base, |kind| kind == Kind::Imported)?;
            self.opened.remove(base);
        }
        Ok(())
    }
}
