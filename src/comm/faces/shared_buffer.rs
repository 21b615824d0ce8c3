//! Memory of `koloMemAlloc` with an owner: a slice that peers of the node can map, and that is
//! freed when its owner goes.

use crate::base::{Error, Result, fork};
use crate::dtype::Element;
use crate::transport::memory;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A buffer that the other ranks of the node can read where it lies: calls on large ones run with
/// fewer copies. It derefs to a slice, which every call takes.
///
/// ```
/// use kolo::{CommConfig, Communicator, RedOp, SharedBuffer};
///
/// # fn main() -> kolo::Result<()> {
/// let comm = Communicator::init_env(&CommConfig::default())?;
/// let mut field = SharedBuffer::<f64>::zeroed(1 << 20)?;
/// field.fill(1.0);
/// comm.all_reduce_in_place(&mut field, RedOp::SUM)?;
/// assert_eq!(field[7], f64::from(comm.nranks()));
/// comm.destroy()
/// # }
/// ```
///
/// It cannot go while a call of a scope uses it:
///
/// ```compile_fail,E0505
/// # use kolo::{CommConfig, Communicator, RedOp, SharedBuffer};
/// # let comm = Communicator::init_all(1, &CommConfig::default()).unwrap().remove(0);
/// let mut field = SharedBuffer::<f64>::zeroed(1000).unwrap();
/// comm.scope(|scope| {
///     scope.all_reduce_in_place(&mut field, RedOp::SUM)?;
///     drop(field); // the call may not have ended: this does not compile
///     scope.barrier()
/// }).unwrap();
/// ```
///
/// A child of fork() does not inherit the memory, and must not touch it.
pub struct SharedBuffer<T: Element> {
    /// Dangling where there are no elements.
    start: NonNull<T>,
    count: usize,
}

// SAFETY: it owns its memory as a `Vec` does; elements may go to other threads.
unsafe impl<T: Element> Send for SharedBuffer<T> {}
// SAFETY: a shared reference only reads elements, which threads may share.
unsafe impl<T: Element> Sync for SharedBuffer<T> {}

impl<T: Element> SharedBuffer<T> {
    /// A buffer of `count` elements, all bits of which are zero; it begins at a page.
    ///
    /// # Errors
    /// `InvalidArgument` for a size beyond the address space, `SystemError` without memory.
    pub fn zeroed(count: usize) -> Result<SharedBuffer<T>> {
        SharedBuffer::mapped(count).map_err(|error| error.during("SharedBuffer::zeroed"))
    }

    fn mapped(count: usize) -> Result<SharedBuffer<T>> {
        if count == 0 {
            let start = NonNull::dangling();
            return Ok(SharedBuffer { start, count });
        }
        let bytes = count.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::argument(
                format!(
                    "{count} elements of {} bytes do not fit into the address space",
                    size_of::<T>()
                ),
                "check the count (is it a negative number that was cast?)",
            )
        })?;
        let start = NonNull::new(memory::allocate(bytes)?.cast());
        let start = start.ok_or_else(|| Error::internal("memory at address 0"))?;
        Ok(SharedBuffer { start, count })
    }
}

impl<T: Element> Deref for SharedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: it owns so many elements, at a page and so aligned; every bit pattern is a value
        // of an element. Peers write here only during calls, which borrow it mutably.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Element> DerefMut for SharedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: Element> Drop for SharedBuffer<T> {
    fn drop(&mut self) {
        // A child of fork() does not have the memory: something else may lie there.
        if self.count == 0 || fork::in_child_of_user() {
            return;
        }
        let freed = memory::free(self.start.as_ptr().cast());
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Code;
    use crate::dtype::Complex;

    #[test]
    fn memory_is_zero_is_kolos_own_and_goes_with_its_owner() {
        let mut buffer = SharedBuffer::<f64>::zeroed(10_001).unwrap();
        assert!(buffer.len() == 10_001 && buffer.iter().all(|one| one.to_bits() == 0));
        buffer[10_000] = 2.5;
        let (start, bytes) = (buffer.as_ptr().cast::<u8>(), size_of_val(&*buffer));
        let found = memory::allocated(start, bytes).expect("peers can map it");
        let moved = std::thread::spawn(move || (buffer[10_000], buffer));
        let (last, buffer) = moved.join().unwrap();
        assert!(last.to_bits() == 2.5_f64.to_bits() && memory::is_live(found.number));
        drop(buffer);
        assert!(!memory::is_live(found.number));
    }

    #[test]
    fn no_elements_need_no_memory_and_too_many_are_an_error() {
        let mut none = SharedBuffer::<u8>::zeroed(0).unwrap();
        assert!(none.is_empty() && none.iter_mut().next().is_none());
        assert_eq!(format!("{none:?}"), "[]");
        for count in [usize::MAX, usize::MAX / 16, isize::MAX as usize / 16] {
            let error = SharedBuffer::<Complex<f64>>::zeroed(count).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument, "{count}: {error}");
            assert!(error.what.contains("do not fit"), "{error}");
        }
        // The system has no such file, or no such mapping.
        let error = SharedBuffer::<u8>::zeroed(1 << 60).unwrap_err();
        let begin = "kolo: SharedBuffer::zeroed: 1152921504606846976 bytes of memory that peers";
        let of_group =
            "kolo: SharedBuffer::zeroed: memory that peers can map needs 11529215046068469";
        let said = error.to_string();
        assert!(
            said.starts_with(begin) || said.starts_with(of_group),
            "{said}"
        );
    }
}
