//! Virtual memory: addresses are reserved, physical memory is mapped there, devices are let in.

use super::backing::GRANULARITY;
use super::physical::Physical;
use super::ranges::{Allocation, Home, Keeper, Kind, NewRange, Ranges, Trouble};
use crate::error::{Answer, Code};
use kolo_kernels_host::{Access, Machine};
use std::collections::BTreeMap;
use std::sync::Arc;

/// `CU_MEM_ACCESS_FLAGS_PROT_READ` and `_READWRITE`.
const READ: i32 = 1;
const READ_AND_WRITE: i32 = 3;

fn is_whole(number: u64) -> bool {
    number.is_multiple_of(GRANULARITY)
}

/// Stretches of addresses that are reserved for mappings: the length of each, by its beginning.
#[derive(Default)]
pub struct Reservations(BTreeMap<u64, u64>);

/// A stretch of addresses.
#[derive(Clone, Copy)]
pub struct Stretch {
    pub at: u64,
    pub bytes: u64,
}

impl Reservations {
    /// Reserves a stretch: its beginning.
    ///
    /// # Errors
    /// The size is no multiple of the granularity, or there are not so many addresses.
    pub fn reserve(
        &mut self,
        ranges: &mut Ranges,
        bytes: u64,
        alignment: u64,
        wish: u64,
    ) -> Answer<u64> {
        let is_alignment = alignment == 0 || alignment.is_power_of_two();
        if bytes == 0 || !is_whole(bytes) || !is_alignment {
            return Err(Code::INVALID_VALUE);
        }
        let alignment = alignment.max(GRANULARITY);
        let base = ranges
            .space
            .take(bytes, alignment, wish)
            .ok_or(Code::OUT_OF_MEMORY)?;
        self.0.insert(base, bytes);
        Ok(base)
    }

    /// # Errors
    /// It was not reserved so, or something is mapped there.
    pub fn unreserve(&mut self, ranges: &mut Ranges, base: u64, bytes: u64) -> Answer {
        let is_it = self.0.get(&base) == Some(&bytes);
        if !is_it || ranges.within(base, bytes).next().is_some() {
            return Err(Code::INVALID_VALUE);
        }
        self.0.remove(&base);
        ranges.space.give(base);
        Ok(())
    }

    fn is_reserved(&self, at: u64, bytes: u64) -> bool {
        let below = self.0.range(..=at).next_back();
        below.is_some_and(|(base, length)| {
            at.checked_add(bytes)
                .is_some_and(|end| end <= base + length)
        })
    }

    /// Maps physical memory, which nobody may use yet.
    ///
    /// # Errors
    /// The place is not reserved or not free.
    pub fn map(
        &self,
        ranges: &mut Ranges,
        machine: &mut Machine,
        to: Stretch,
        offset: u64,
        physical: Arc<Physical>,
    ) -> Answer {
        let Stretch { at, bytes } = to;
        let fits = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= physical.bytes);
        let is_good = is_whole(at) && is_whole(bytes) && is_whole(offset) && bytes > 0 && fits;
        if !is_good || !self.is_reserved(at, bytes) {
            return Err(Code::INVALID_VALUE);
        }
        let home = Home(physical.backing.at().wrapping_add(offset as usize));
        let new = NewRange {
            name: "mapped memory",
            base: at,
            bytes,
            home,
            kind: Kind::Mapped,
            device: physical.device,
            context: 0,
            access: Access {
                loads: 0,
                stores: 0,
            },
            keeper: Keeper::Physical(physical),
        };
        ranges.enter(machine, new).map_err(|_| Code::INVALID_VALUE)
    }
}

/// The mappings that fill a stretch.
fn mappings(ranges: &Ranges, of: Stretch) -> Answer<Vec<u64>> {
    let Stretch { at, bytes } = of;
    let end = at.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
    let mut next = at;
    let mut bases = Vec::new();
    for mapping in ranges.within(at, bytes) {
        let is_next = mapping.base == next && mapping.kind == Kind::Mapped;
        next = mapping.base + mapping.bytes;
        if !is_next || next > end {
            return Err(Code::INVALID_VALUE);
        }
        bases.push(mapping.base);
    }
    match next == end && bytes > 0 {
        true => Ok(bases),
        false => Err(Code::INVALID_VALUE),
    }
}

/// Takes mappings away.
///
/// # Errors
/// These are no whole mappings, or a kernel stores there.
pub fn unmap(ranges: &mut Ranges, machine: &mut Machine, of: Stretch) -> Result<(), Trouble> {
    for base in mappings(ranges, of)? {
        ranges.leave(machine, base)?;
    }
    Ok(())
}

/// Lets a device use mappings, or takes that from it.
///
/// # Errors
/// These are no whole mappings, or there is no such access.
pub fn set_access(
    ranges: &mut Ranges,
    machine: &mut Machine,
    of: Stretch,
    device: u32,
    flags: i32,
) -> Answer {
    let bit = 1u32 << device;
    let (loads, stores) = match flags {
        0 => (0, 0),
        READ => (bit, 0),
        READ_AND_WRITE => (bit, bit),
        _ => return Err(Code::INVALID_VALUE),
    };
    for base in mappings(ranges, of)? {
        let before = ranges.at(base).ok_or(Code::INVALID_VALUE)?.access;
        let access = Access {
            loads: before.loads & !bit | loads,
            stores: before.stores & !bit | stores,
        };
        ranges.allow(machine, base, access);
    }
    Ok(())
}

/// Returns the access that a device has at an address.
///
/// # Errors
/// Nothing is mapped there.
pub fn get_access(ranges: &Ranges, at: u64, device: u32) -> Answer<u64> {
    let is_mapped = |found: &&Allocation| found.kind == Kind::Mapped;
    let found = ranges
        .find(at)
        .filter(is_mapped)
        .ok_or(Code::INVALID_VALUE)?;
    let may = |devices: u32| devices >> device & 1 == 1;
    Ok(match (may(found.access.loads), may(found.access.stores)) {
        (_, true) => READ_AND_WRITE as u64,
        (true, false) => READ as u64,
        _ => 0,
    })
}
