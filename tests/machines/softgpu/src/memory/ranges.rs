//! Ranges of addresses that hold memory, of devices and of the host: what kernels know.

use super::backing::{Backing, GRANULARITY, Taken};
use super::gaps::Gaps;
use super::physical::Physical;
use crate::error::{Answer, Code};
use kolo_kernels_host::{Access, Machine, Range};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kind of memory that an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of `cuMemAlloc`.
    Device,
    /// Of a pool, by its handle.
    Pooled(u64),
    Managed,
    /// Of `cuMemHostAlloc`, with its flags.
    Pinned(u32),
    /// Of the caller, with the flags of its registration.
    Registered(u32),
    /// Mapped into a reserved stretch.
    Mapped,
    /// Another process' `cuMemAlloc`.
    Imported,
}

impl Kind {
    /// Whether the CPU can use it.
    pub fn is_of_host(self) -> bool {
        matches!(self, Kind::Pinned(_) | Kind::Registered(_) | Kind::Managed)
    }
}

/// Where the bytes of a range lie.
#[derive(Clone, Copy)]
pub struct Home(pub *mut u8);

// SAFETY: an address of memory that the whole process has mapped.
unsafe impl Send for Home {}

/// Keeper of the bytes of an allocation.
pub enum Keeper {
    /// Part of its device's memory.
    Arena(Part),
    /// A mapping of its own.
    Mapping(#[expect(dead_code, reason = "it is only kept")] Backing),
    /// Physical memory.
    Physical(Arc<Physical>),
    /// The caller.
    Caller,
}

/// A part of a device's memory, from an offset on.
pub struct Part {
    pub offset: u64,
    pub _taken: Taken,
}

/// A range that kernels know.
pub struct Allocation {
    pub base: u64,
    pub bytes: u64,
    pub kind: Kind,
    /// The device that has it, or that the context of its call has.
    pub device: u32,
    pub context: u64,
    /// Different for each allocation of the process.
    pub id: u64,
    pub range: Range,
    pub home: Home,
    pub access: Access,
    pub keeper: Keeper,
}

/// The device and the context of a call.
#[derive(Clone, Copy)]
pub struct Owner {
    pub device: u32,
    pub context: u64,
}

/// All allocations, and the addresses of devices.
pub struct Ranges {
    /// The addresses of devices, which are never used.
    _reserved: Backing,
    pub space: Gaps,
    allocations: BTreeMap<u64, Allocation>,
    next_id: u64,
}

const MOST_ADDRESSES: usize = 1 << 38;
const LEAST_ADDRESSES: usize = 1 << 32;

impl Ranges {
    /// # Errors
    /// There are not enough addresses.
    pub fn new() -> Answer<Ranges> {
        let mut bytes = MOST_ADDRESSES;
        let reserved = loop {
            match Backing::reserve(bytes) {
                Err(code) if bytes == LEAST_ADDRESSES => return Err(code),
                Err(_) => bytes /= 2,
                Ok(reserved) => break reserved,
            }
        };
        let low = (reserved.at().addr() as u64).next_multiple_of(GRANULARITY);
        Ok(Ranges {
            space: Gaps::new(low, bytes as u64 - GRANULARITY),
            _reserved: reserved,
            allocations: BTreeMap::new(),
            next_id: 1,
        })
    }

    /// All allocations.
    pub fn all(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.values()
    }

    /// The first addresses of those that `is_it` takes.
    pub fn bases(&self, is_it: impl Fn(&Allocation) -> bool) -> Vec<u64> {
        let of = self.all().filter(|allocation| is_it(allocation));
        of.map(|allocation| allocation.base).collect()
    }

    /// The allocation that an address is of.
    pub fn find(&self, at: u64) -> Option<&Allocation> {
        let (_, below) = self.allocations.range(..=at).next_back()?;
        (at - below.base < below.bytes).then_some(below)
    }

    /// The allocation that begins at an address.
    pub fn at(&self, base: u64) -> Option<&Allocation> {
        self.allocations.get(&base)
    }

    /// Whether an address is one of devices, used or not.
    pub fn is_of_devices(&self, at: u64) -> bool {
        self.space.contains(at)
    }

    /// Allocations that begin in a stretch.
    pub fn within(&self, at: u64, bytes: u64) -> impl Iterator<Item = &Allocation> {
        self.allocations
            .range(at..at + bytes)
            .map(|(_, allocation)| allocation)
    }

    pub fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Makes kernels know memory. None of it is known yet where this succeeds.
    ///
    /// # Errors
    /// The machine knows a part of it already.
    pub fn enter(&mut self, machine: &mut Machine, new: NewRange) -> Answer {
        let id = self.new_id();
        let name = format!("{} {id}, device {}", new.name, new.device);
        // SAFETY: the keeper (or, for registered memory, the caller) keeps the bytes until `leave`
        // has taken the range away; who else uses them does so at its own risk, as on a device.
        let range = unsafe {
            machine.register(&name, new.base, new.home.0, new.bytes as usize, new.access)
        };
        let allocation = Allocation {
            base: new.base,
            bytes: new.bytes,
            kind: new.kind,
            device: new.device,
            context: new.context,
            id,
            range: range.ok_or(Code::HOST_MEMORY_ALREADY_REGISTERED)?,
            home: new.home,
            access: new.access,
            keeper: new.keeper,
        };
        self.allocations.insert(new.base, allocation);
        Ok(())
    }

    /// Makes kernels forget the allocation at `base`. A late access finds nothing there.
    ///
    /// # Errors
    /// A store to it is under way: what the program did is wrong.
    pub fn leave(&mut self, machine: &mut Machine, base: u64) -> Result<Allocation, Trouble> {
        let known = self.allocations.get(&base).ok_or(Code::INVALID_VALUE)?;
        machine.unregister(known.range).map_err(Trouble::Failure)?;
        let allocation = self.allocations.remove(&base);
        allocation.ok_or(Trouble::Code(Code::INVALID_VALUE))
    }

    pub fn allow(&mut self, machine: &mut Machine, base: u64, access: Access) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.access = access;
            machine.allow(allocation.range, access);
        }
    }
}

/// Arguments of [`Ranges::enter`].
pub struct NewRange {
    pub name: &'static str,
    pub base: u64,
    pub bytes: u64,
    pub home: Home,
    pub kind: Kind,
    pub device: u32,
    pub context: u64,
    pub access: Access,
    pub keeper: Keeper,
}

/// A call that cannot be, or a mistake that ends the work of all devices.
#[derive(Debug)]
pub enum Trouble {
    Code(Code),
    Failure(kolo_kernels_host::Failure),
}

impl From<Code> for Trouble {
    fn from(code: Code) -> Trouble {
        Trouble::Code(code)
    }
}
