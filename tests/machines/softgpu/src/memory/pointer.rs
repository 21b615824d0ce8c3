//! Attributes of an address, as the driver tells them.

use super::ranges::{Allocation, Keeper, Kind, Ranges};
use crate::abi::{Out, POSIX_FD};
use crate::error::{Answer, Code};

// CU_POINTER_ATTRIBUTE_*
const CONTEXT: i32 = 1;
const MEMORY_TYPE: i32 = 2;
const DEVICE_POINTER: i32 = 3;
const HOST_POINTER: i32 = 4;
const SYNC_MEMOPS: i32 = 6;
const BUFFER_ID: i32 = 7;
const IS_MANAGED: i32 = 8;
const DEVICE_ORDINAL: i32 = 9;
const IS_LEGACY_IPC_CAPABLE: i32 = 10;
const RANGE_START: i32 = 11;
const RANGE_SIZE: i32 = 12;
const MAPPED: i32 = 13;
const ALLOWED_HANDLE_TYPES: i32 = 14;
const IS_RDMA_CAPABLE: i32 = 15;
const ACCESS_FLAGS: i32 = 16;
const MEMPOOL_HANDLE: i32 = 17;
const MAPPING_SIZE: i32 = 18;
const MAPPING_START: i32 = 19;
const MEMORY_BLOCK_ID: i32 = 20;

const OF_HOST: u32 = 1;
const OF_DEVICE: u32 = 2;
/// `CU_DEVICE_INVALID`.
const NO_DEVICE: i32 = -2;

/// Writes one attribute of an address.
///
/// # Errors
/// The driver knows nothing of the address, or no such attribute.
pub fn tell(ranges: &Ranges, at: u64, attribute: i32, to: &Out<u8>) -> Answer {
    let found = ranges.find(at).ok_or(Code::INVALID_VALUE)?;
    let number = |value: u32| to.cast::<u32>().set(value);
    let wide = |value: u64| to.cast::<u64>().set(value);
    match attribute {
        CONTEXT => wide(found.context),
        MEMORY_TYPE => number(match found.kind {
            Kind::Pinned(_) | Kind::Registered(_) => OF_HOST,
            _ => OF_DEVICE,
        }),
        DEVICE_POINTER => wide(at),
        HOST_POINTER if found.kind.is_of_host() => wide(at),
        HOST_POINTER => Err(Code::INVALID_VALUE),
        SYNC_MEMOPS => number(0),
        BUFFER_ID | MEMORY_BLOCK_ID => wide(buffer_id(found)),
        IS_MANAGED => number(u32::from(found.kind == Kind::Managed)),
        DEVICE_ORDINAL => to.cast::<i32>().set(found.device as i32),
        IS_LEGACY_IPC_CAPABLE => number(u32::from(found.kind == Kind::Device)),
        RANGE_START | MAPPING_START => wide(found.base),
        RANGE_SIZE | MAPPING_SIZE => wide(found.bytes),
        MAPPED => number(1),
        ALLOWED_HANDLE_TYPES => wide(handle_types(found) as u64),
        IS_RDMA_CAPABLE => number(0),
        ACCESS_FLAGS => number(match (found.access.loads, found.access.stores) {
            (0, 0) => 0,
            (_, 0) => 1,
            _ => 3,
        }),
        MEMPOOL_HANDLE => wide(match found.kind {
            Kind::Pooled(pool) => pool,
            _ => 0,
        }),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// Several at once: where the address has none, what stands for nothing.
///
/// # Errors
/// There is no such attribute.
pub fn tell_or_nothing(ranges: &Ranges, at: u64, attribute: i32, to: &Out<u8>) -> Answer {
    match tell(ranges, at, attribute, to) {
        Ok(()) => Ok(()),
        Err(_) => match attribute {
            DEVICE_ORDINAL => to.cast::<i32>().set(NO_DEVICE),
            MEMORY_TYPE
            | SYNC_MEMOPS
            | IS_MANAGED
            | IS_LEGACY_IPC_CAPABLE
            | MAPPED
            | IS_RDMA_CAPABLE
            | ACCESS_FLAGS => to.cast::<u32>().set(0),
            CONTEXT | DEVICE_POINTER | HOST_POINTER | BUFFER_ID | RANGE_START | RANGE_SIZE
            | ALLOWED_HANDLE_TYPES | MEMPOOL_HANDLE | MAPPING_SIZE | MAPPING_START
            | MEMORY_BLOCK_ID => to.cast::<u64>().set(0),
            _ => Err(Code::INVALID_VALUE),
        },
    }
}

/// Mappings of one physical memory have its number.
fn buffer_id(found: &Allocation) -> u64 {
    match &found.keeper {
        Keeper::Physical(physical) => physical.id,
        _ => found.id,
    }
}

fn handle_types(found: &Allocation) -> i32 {
    match &found.keeper {
        Keeper::Physical(physical) => physical.handle_types & POSIX_FD,
        _ => 0,
    }
}
