//! Pools: memory that is allocated and freed in the order of a stream.

use super::ranges::{Kind, Ranges};
use crate::error::Answer;
use crate::table::Table;
use kolo_kernels_host::{Access, Machine};

/// Where `cuMemAllocAsync` takes memory from.
pub struct Pool {
    pub device: u32,
    /// Who may use what comes from it.
    pub access: Access,
    /// Bytes that stay reserved when memory is given back: kept only to be told again.
    pub threshold: u64,
    /// The device's own, which cannot be destroyed.
    pub is_default: bool,
}

impl Pool {
    pub fn new(device: u32, is_default: bool) -> Pool {
        Pool {
            device,
            access: Access::only(device),
            threshold: 0,
            is_default,
        }
    }
}

/// Changes who may use what came and comes from a pool.
///
/// # Errors
/// There is no such pool.
pub fn allow(
    pools: &mut Table<Pool>,
    ranges: &mut Ranges,
    machine: &mut Machine,
    pool: u64,
    access: Access,
) -> Answer {
    pools.get_mut(pool)?.access = access;
    for base in ranges.bases(|it| it.kind == Kind::Pooled(pool)) {
        ranges.allow(machine, base, access);
    }
    Ok(())
}

/// Bytes of a pool that are in use.
pub fn bytes(ranges: &Ranges, pool: u64) -> u64 {
    let of = ranges.all().filter(|it| it.kind == Kind::Pooled(pool));
    of.map(|it| it.bytes).sum()
}
