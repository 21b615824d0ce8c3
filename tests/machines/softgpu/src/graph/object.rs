//! User objects: something of the caller that graphs hold, and that is destroyed when nobody does.

use crate::error::{Answer, Code};
use crate::host_thread::{self, HostCall};
use crate::table::Table;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often something is held, and what destroys it.
struct Shared {
    count: AtomicU64,
    destroy: extern "C" fn(*mut c_void),
    data: u64,
}

impl Shared {
    fn give(&self, count: u64) {
        if self.count.fetch_sub(count, Ordering::AcqRel) == count {
            // Whoever destroys it may not call the driver: as a function of the host.
            host_thread::call(HostCall::Function(self.destroy, self.data));
        }
    }
}

/// An object that a graph or an instance holds.
pub struct Held {
    shared: Arc<Shared>,
    count: u64,
}

impl Held {
    /// Once, whatever the other one holds.
    pub fn again(&self) -> Held {
        self.shared.count.fetch_add(1, Ordering::AcqRel);
        Held {
            shared: Arc::clone(&self.shared),
            count: 1,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.count > 0 {
            self.shared.give(self.count);
        }
    }
}

/// The objects that callers have handles of.
pub struct Objects(Table<Arc<Shared>>);

impl Objects {
    pub fn new() -> Objects {
        Objects(Table::new(Code::INVALID_VALUE))
    }

    pub fn create(
        &mut self,
        destroy: extern "C" fn(*mut c_void),
        data: u64,
        count: u32,
    ) -> Answer<u64> {
        if count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // What is destroyed has no handle any more.
        self.0
            .retain(|shared| shared.count.load(Ordering::Acquire) > 0);
        Ok(self.0.add(Arc::new(Shared {
            count: AtomicU64::new(count.into()),
            destroy,
            data,
        })))
    }

    fn get(&self, object: u64, count: u32) -> Answer<&Arc<Shared>> {
        let shared = self.0.get(object)?;
        match shared.count.load(Ordering::Acquire) > 0 && count > 0 {
            true => Ok(shared),
            false => Err(Code::INVALID_VALUE),
        }
    }

    /// # Errors
    /// There is no such object.
    pub fn retain(&self, object: u64, count: u32) -> Answer {
        let shared = self.get(object, count)?;
        shared.count.fetch_add(count.into(), Ordering::AcqRel);
        Ok(())
    }

    /// # Errors
    /// There is no such object, or it is not held so often.
    pub fn release(&self, object: u64, count: u32) -> Answer {
        let shared = self.get(object, count)?;
        if shared.count.load(Ordering::Acquire) < count.into() {
            return Err(Code::INVALID_VALUE);
        }
        shared.give(count.into());
        Ok(())
    }

    /// For a graph: new references, or (`moves`) the caller's own.
    ///
    /// # Errors
    /// There is no such object.
    pub fn hold(&self, object: u64, count: u32, moves: bool) -> Answer<Held> {
        if !moves {
            self.retain(object, count)?;
        }
        let shared = Arc::clone(self.get(object, count)?);
        Ok(Held {
            shared,
            count: count.into(),
        })
    }

    /// Takes references from what a graph holds.
    ///
    /// # Errors
    /// It holds not so many.
    pub fn give_back(&self, held: &mut Vec<Held>, object: u64, count: u32) -> Answer {
        let shared = self.get(object, count)?;
        let is_it = |held: &Held| Arc::ptr_eq(&held.shared, shared);
        let all: u64 = held
            .iter()
            .filter(|held| is_it(held))
            .map(|held| held.count)
            .sum();
        let mut left = u64::from(count);
        if all < left {
            return Err(Code::INVALID_VALUE);
        }
        for held in held.iter_mut().filter(|held| is_it(held)) {
            let part = held.count.min(left);
            held.count -= part;
            left -= part;
        }
        shared.give(count.into());
        held.retain(|held| held.count > 0);
        Ok(())
    }
}
