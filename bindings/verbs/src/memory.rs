//! Registered memory of a device: whole pages, shared by all who use them, released by the last.
//!
//! Registering pins pages and costs many microseconds; several connections register the same
//! buffers. So a device keeps what is registered in a list sorted by address, and a range that lies
//! inside a registered one is only counted. Ranges are rounded to pages, because pages are what is
//! pinned.

use crate::verbs::{Domain, LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, Region};
use kolo::base::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whole pages around a range; `None` where it does not fit into the address space.
fn pages(address: usize, bytes: usize, page: usize) -> Option<(usize, usize)> {
    let start = address & !(page - 1);
    let end = address.checked_add(bytes)?.checked_add(page - 1)? & !(page - 1);
    Some((start, end))
}

/// Registered pages.
struct Entry {
    start: usize,
    end: usize,
    users: usize,
    region: Arc<Region>,
}

/// Registrations of a device.
#[derive(Default)]
pub struct Cache {
    entries: Mutex<Vec<Entry>>,
}

/// Memory that one connection may use: who drops it gives it back with [`Cache::release`].
pub struct Registered {
    /// Nothing for an empty range, which needs no key and may have any address.
    region: Option<Arc<Region>>,
    /// First address and the one behind the last that was asked for.
    pub start: usize,
    pub end: usize,
    /// Memory of a device: what arrives there needs a flush.
    pub of_device: bool,
    /// First page, for entries of the cache.
    cached: Option<(usize, usize)>,
}

impl Registered {
    /// Memory that is not in the cache, because its address alone does not name it.
    pub fn alone(region: Region, start: usize, bytes: usize) -> Registered {
        Registered {
            region: Some(Arc::new(region)),
            start,
            end: start.saturating_add(bytes),
            of_device: true,
            cached: None,
        }
    }

    /// The key for this end's adapter.
    pub fn local_key(&self) -> u32 {
        self.region.as_ref().map_or(0, |region| region.local_key())
    }

    /// The key for the peer's adapter.
    pub fn remote_key(&self) -> u32 {
        self.region.as_ref().map_or(0, |region| region.remote_key())
    }

    /// Whether a range lies inside.
    pub fn covers(&self, address: usize, bytes: usize) -> bool {
        let end = address.checked_add(bytes);
        address >= self.start && end.is_some_and(|end| end <= self.end)
    }
}

impl Cache {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a range, or counts one more user of pages that are registered.
    ///
    /// # Safety
    /// The memory stays mapped until [`Cache::release`].
    pub unsafe fn register(
        &self,
        domain: &Arc<Domain>,
        address: usize,
        bytes: usize,
        of_device: bool,
    ) -> Result<Registered> {
        if bytes == 0 {
            return Ok(Registered {
                region: None,
                start: address,
                end: address,
                of_device,
                cached: None,
            });
        }
        let (start, end) = pages(address, bytes, page_size()).ok_or_else(|| {
            kolo::base::Error::argument(
                format!("{bytes} bytes at {address:#x} leave the address space"),
                "register the range that was allocated",
            )
        })?;
        let registered = |entry: &Entry| Registered {
            region: Some(entry.region.clone()),
            start: address,
            end: address + bytes,
            of_device,
            cached: Some((entry.start, entry.end)),
        };
        let mut entries = self.entries();
        if let Some(entry) = entries
            .iter_mut()
            .find(|e| e.start <= start && end <= e.end)
        {
            entry.users += 1;
            return Ok(registered(entry));
        }
        let access = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
        // SAFETY: the caller's promise; whole pages are mapped where a part of them is.
        let region = unsafe { Region::new(domain, start, end - start, access) }?;
        let entry = Entry {
            start,
            end,
            users: 1,
            region: Arc::new(region),
        };
        let result = registered(&entry);
        let place = entries.partition_point(|e| (e.start, e.end) < (start, end));
        entries.insert(place, entry);
        Ok(result)
    }

    /// Gives a registration back; the last user of its pages unpins them.
    pub fn release(&self, registered: Registered) {
        let Some(key) = registered.cached else {
            return;
        };
        let mut entries = self.entries();
        let Ok(place) = entries.binary_search_by_key(&key, |e| (e.start, e.end)) else {
            return;
        };
        entries[place].users -= 1;
        if entries[place].users == 0 {
            entries.remove(place);
        }
    }
}

fn page_size() -> usize {
    // SAFETY: asks the system for a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_to_whole_pages() {
        assert_eq!(pages(0x1000, 1, 4096), Some((0x1000, 0x2000)));
        assert_eq!(pages(0x1fff, 2, 4096), Some((0x1000, 0x3000)));
        assert_eq!(pages(0x1000, 0x1000, 4096), Some((0x1000, 0x2000)));
        assert_eq!(pages(usize::MAX - 10, 100, 4096), None);
        assert_eq!(pages(usize::MAX - 10, 1, 4096), None);
    }
}
