//! Registered memory of a device: whole pages, shared by all who use them, released by the last.
//!
//! Registering pins pages and costs many microseconds; several connections register the same
//! buffers. So a device keeps what is registered in a list sorted by address, and a range that lies
//! inside a registered one is only counted. Ranges are rounded to pages, because pages are what is
//! pinned.

use kolo::base::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// First address of pages, and the one behind the last.
type Pages = (usize, usize);

/// Whole pages around a range; `None` where it does not fit into the address space.
fn pages(address: usize, bytes: usize, page: usize) -> Option<Pages> {
    let start = address & !(page - 1);
    let end = address.checked_add(bytes)?.checked_add(page - 1)? & !(page - 1);
    Some((start, end))
}

/// Registered pages.
struct Entry<R> {
    start: usize,
    end: usize,
    users: usize,
    region: Arc<R>,
}

/// Registrations of a device.
pub struct Cache<R> {
    entries: Mutex<Vec<Entry<R>>>,
}

impl<R> Default for Cache<R> {
    fn default() -> Cache<R> {
        Cache {
            entries: Mutex::default(),
        }
    }
}

/// Memory that one connection may use; dropped, it is given back.
pub struct Registered<R> {
    /// Nothing for an empty range, which needs no key and may have any address.
    region: Option<Arc<R>>,
    /// First address and the one behind the last that was asked for.
    pub start: usize,
    /// See above.
    pub end: usize,
    /// Memory of a device: what arrives there needs a flush.
    pub of_device: bool,
    /// Cache and pages, for entries of one.
    cached: Option<(Arc<Cache<R>>, Pages)>,
}

impl<R> Registered<R> {
    /// Memory that is not in the cache, because its address alone does not name it.
    pub fn alone(region: R, start: usize, bytes: usize, of_device: bool) -> Registered<R> {
        Registered {
            region: Some(Arc::new(region)),
            start,
            end: start.saturating_add(bytes),
            of_device,
            cached: None,
        }
    }

    /// The network's own part; none for an empty range.
    pub fn region(&self) -> Option<&R> {
        self.region.as_deref()
    }

    /// Whether a range lies inside.
    pub fn covers(&self, address: usize, bytes: usize) -> bool {
        let end = address.checked_add(bytes);
        address >= self.start && end.is_some_and(|end| end <= self.end)
    }
}

impl<R> Cache<R> {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry<R>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a range, or counts one more user of pages that are registered. `make` registers
    /// pages, by their first address and their size.
    pub fn register(
        self: &Arc<Cache<R>>,
        address: usize,
        bytes: usize,
        of_device: bool,
        make: impl FnOnce(usize, usize) -> Result<R>,
    ) -> Result<Registered<R>> {
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
        let registered = |entry: &Entry<R>| Registered {
            region: Some(entry.region.clone()),
            start: address,
            end: address + bytes,
            of_device,
            cached: Some((self.clone(), (entry.start, entry.end))),
        };
        let mut entries = self.entries();
        if let Some(entry) = entries
            .iter_mut()
            .find(|e| e.start <= start && end <= e.end)
        {
            entry.users += 1;
            return Ok(registered(entry));
        }
        let entry = Entry {
            start,
            end,
            users: 1,
            region: Arc::new(make(start, end - start)?),
        };
        let result = registered(&entry);
        let place = entries.partition_point(|e| (e.start, e.end) < (start, end));
        entries.insert(place, entry);
        Ok(result)
    }

    /// Gives pages back; the last user unpins them.
    fn release(&self, key: Pages) {
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

impl<R> Drop for Registered<R> {
    fn drop(&mut self) {
        // The region goes with its last user, after the list has forgotten it.
        if let Some((cache, pages)) = self.cached.take() {
            cache.release(pages);
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
    fn pages_are_shared_and_go_with_their_last_user() {
        let cache = Arc::new(Cache::default());
        let made = std::cell::RefCell::new(Vec::new());
        let register = |address, bytes| {
            let make = |start, bytes| {
                made.borrow_mut().push((start, bytes));
                Ok(())
            };
            cache.register(address, bytes, false, make).unwrap()
        };
        let page = page_size();
        let (all, part) = (register(page, 2 * page), register(page + 10, page));
        drop(all);
        let again = register(2 * page, 1);
        assert_eq!(*made.borrow(), [(page, 2 * page)]);
        assert!(part.covers(page + 10, page) && !part.covers(page + 9, 2));
        drop((part, again));
        drop(register(page, 1));
        assert_eq!(made.borrow().len(), 2);
        assert!(register(1, 0).region().is_none());
    }

    #[test]
    fn ranges_grow_to_whole_pages() {
        assert_eq!(pages(0x1000, 1, 4096), Some((0x1000, 0x2000)));
        assert_eq!(pages(0x1fff, 2, 4096), Some((0x1000, 0x3000)));
        assert_eq!(pages(0x1000, 0x1000, 4096), Some((0x1000, 0x2000)));
        assert_eq!(pages(usize::MAX - 10, 100, 4096), None);
        assert_eq!(pages(usize::MAX - 10, 1, 4096), None);
    }
}
