//! Handles of MPI as numbers: they are integers in one family and pointers in the other.

use std::ffi::c_int;

/// A handle as a number, whatever the MPI family makes it of.
pub trait Word: Copy {
    /// The number.
    fn to_word(self) -> usize;
    /// The handle again.
    fn from_word(word: usize) -> Self;
}

impl Word for c_int {
    fn to_word(self) -> usize {
        self as u32 as usize
    }
    fn from_word(word: usize) -> c_int {
        word as u32 as c_int
    }
}

impl<T> Word for *mut T {
    fn to_word(self) -> usize {
        self.expose_provenance()
    }
    fn from_word(word: usize) -> *mut T {
        std::ptr::with_exposed_provenance_mut(word)
    }
}
