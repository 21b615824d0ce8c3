//! Memory of the program that stays where it is, and who hears when it does not any more.
//!
//! **Problem.** An adapter that reads and writes the program's memory has its pages pinned. If
//! they go, or others take their place, it goes on with the old ones.
//!
//! **Idea.** What the program has from `koloMemAlloc`, or has registered, stays until it says
//! otherwise, and it says so to kolo. Whoever has pinned some of it *hears* before that happens,
//! and lets go.

use super::fork;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// Knows which memory of the program stays where it is.
pub trait LastingMemory: Send + Sync {
    /// The registered buffer, or the allocation, that holds all of `bytes` bytes from `data`.
    fn around(&self, data: *const u8, bytes: usize) -> Option<Range<usize>>;
}

/// Who has pinned some of it.
pub trait PinHolder: Send + Sync {
    /// These addresses may get other pages, or none, as soon as this returns.
    fn let_go(&self, range: &Range<usize>);
}

static HOLDERS: Mutex<Vec<Weak<dyn PinHolder>>> = Mutex::new(Vec::new());

fn holders() -> MutexGuard<'static, Vec<Weak<dyn PinHolder>>> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells `holder` from now on.
pub fn tell(holder: Weak<dyn PinHolder>) {
    let mut holders = holders();
    holders.retain(|holder| holder.strong_count() > 0);
    holders.push(holder);
}

/// Tells all holders that memory is about to change.
pub fn changes(range: &Range<usize>) {
    // A child's adapters are its parent's.
    if range.is_empty() || fork::in_child_of_user() {
        return;
    }
    let all: Vec<_> = holders().iter().filter_map(Weak::upgrade).collect();
    for holder in all {
        holder.let_go(range);
    }
}

/// Pages of a range that change while this lives: holders are told before and after, as whoever
/// pins them meanwhile may get the old ones.
pub struct Changing(Range<usize>);

impl Changing {
    /// Tells all holders.
    pub fn begin(range: &Range<usize>) -> Changing {
        changes(range);
        Changing(range.clone())
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        changes(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{memory, registered};
    use std::sync::Arc;

    #[derive(Default)]
    struct Scribe(Mutex<Vec<Range<usize>>>);

    impl PinHolder for Scribe {
        fn let_go(&self, range: &Range<usize>) {
            self.0.lock().unwrap().push(range.clone());
        }
    }

    #[test]
    fn those_who_are_still_there_hear() {
        let (stays, goes) = (Arc::<Scribe>::default(), Arc::<Scribe>::default());
        for holder in [&stays, &goes] {
            let holder: Arc<dyn PinHolder> = holder.clone();
            tell(Arc::downgrade(&holder));
        }
        drop(goes);
        // Addresses that no other test of this process uses.
        let range = 8..16;
        changes(&range);
        changes(&(8..8));
        let heard = stays.0.lock().unwrap();
        let mine: Vec<_> = heard.iter().filter(|heard| heard.end <= 16).collect();
        assert_eq!(mine, [&range]);
    }

    /// Whoever has pinned memory hears before it is freed, taken back, moved or moved back.
    #[test]
    fn all_that_changes_pages_is_told() {
        let scribe = Arc::<Scribe>::default();
        let holder: Arc<dyn PinHolder> = scribe.clone();
        tell(Arc::downgrade(&holder));
        let page = memory::page_bytes();
        let hears = |range: Range<usize>, what: &str| {
            let mut heard = scribe.0.lock().unwrap();
            let found = heard.iter().filter(|one| **one == range).count();
            heard.clear();
            // Before pages change and after it, but for those that nobody has any more.
            let times = if what == "freed" { 1 } else { 2 };
            assert_eq!(found, times, "{what}");
        };
        let allocated = memory::allocate(4 * page).unwrap();
        let start = allocated.addr();
        // SAFETY: only this test knows of the memory.
        unsafe { memory::take_back(allocated.wrapping_add(page), page) }.unwrap();
        hears(start + page..start + 2 * page, "taken back");
        memory::free(allocated).unwrap();
        hears(start..start + 4 * page, "freed");
        let heap = vec![0_u8; 8 * page];
        let first = heap.as_ptr().addr().next_multiple_of(page);
        let end = (heap.as_ptr().addr() + heap.len()) & !(page - 1);
        let number = registered::register(heap.as_ptr(), heap.len()).unwrap();
        hears(first..end, "moved");
        assert!(registered::deregister(number).unwrap());
        hears(first..end, "moved back");
    }
}
