//! Pools: memory that is allocated and freed in the order of a stream.

use super::{Kind, Memory};
use crate::error::Answer;
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

impl Memory {
    /// Changes who may use what came and comes from a pool.
    ///
    /// # Errors
    /// There is no such pool.
    pub fn allow_pool(&mut self, machine: &mut Machine, pool: u64, access: Access) -> Answer {
        self.pools.get_mut(pool)?.access = access;
        for base in self.of_pool(pool) {
            self.allow(machine, base, access);
        }
        Ok(())
    }

    /// Bytes that are in use.
    pub fn pool_bytes(&self, pool: u64) -> u64 {
        let bases = self.of_pool(pool);
        bases
            .iter()
            .filter_map(|base| self.at(*base))
            .map(|one| one.bytes)
            .sum()
    }

    fn of_pool(&self, pool: u64) -> Vec<u64> {
        let all = self.allocations.values();
        let of = all.filter(|allocation| allocation.kind == Kind::Pooled(pool));
        of.map(|allocation| allocation.base).collect()
    }
}
