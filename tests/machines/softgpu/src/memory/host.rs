//! Memory of the host that devices may use: the caller's, registered; pinned; managed.

use super::backing::Backing;
use super::ranges::{Home, Keeper, Kind, NewRange, Owner, Ranges};
use crate::error::{Answer, Code};
use kolo_kernels_host::{Access, Machine};

/// `CU_MEMHOSTREGISTER_IOMEMORY`: not memory, so nothing that can be here.
const IO_MEMORY: u32 = 4;

/// Lets devices use memory of the caller.
///
/// # Errors
/// A part of it is registered already, or is none of the host's.
pub fn register(
    ranges: &mut Ranges,
    machine: &mut Machine,
    owner: Owner,
    base: u64,
    bytes: u64,
    flags: u32,
) -> Answer {
    let end = base.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
    if base == 0 || bytes == 0 || ranges.is_of_devices(base) || ranges.is_of_devices(end - 1) {
        return Err(Code::INVALID_VALUE);
    }
    if flags & IO_MEMORY != 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    let home = Home(std::ptr::with_exposed_provenance_mut(base as usize));
    ranges.enter(
        machine,
        NewRange {
            name: "registered memory",
            base,
            bytes,
            home,
            kind: Kind::Registered(flags),
            device: owner.device,
            context: owner.context,
            access: Access::ALL,
            keeper: Keeper::Caller,
        },
    )
}

/// Memory of the host for devices: managed or pinned.
///
/// # Errors
/// The system has not so much.
pub fn allocate(
    ranges: &mut Ranges,
    machine: &mut Machine,
    owner: Owner,
    bytes: u64,
    kind: Kind,
) -> Answer<u64> {
    if bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let whole = bytes
        .checked_next_multiple_of(4096)
        .ok_or(Code::OUT_OF_MEMORY)?;
    let backing = Backing::private(usize::try_from(whole).map_err(|_| Code::OUT_OF_MEMORY)?)?;
    let home = Home(backing.at());
    let base = home.0.expose_provenance() as u64;
    let name = match kind {
        Kind::Managed => "managed memory",
        _ => "pinned memory",
    };
    ranges.enter(
        machine,
        NewRange {
            name,
            base,
            bytes,
            home,
            kind,
            device: owner.device,
            context: owner.context,
            access: Access::ALL,
            keeper: Keeper::Mapping(backing),
        },
    )?;
    Ok(base)
}
