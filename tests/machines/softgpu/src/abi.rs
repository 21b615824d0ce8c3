//! Values that cross from C: pointers that must be looked at before they are used, and the
//! structures of `cuda.h` that are read or written here.
//!
//! Numbers of enumerations cross as integers, because a caller may bring any.

use crate::error::{Answer, Code};
use std::ffi::{CStr, c_char, c_void};

/// Where a result goes.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place that the caller named in a list.
    pub fn at(place: *mut T) -> Out<T> {
        Out(place)
    }

    /// # Errors
    /// There is no place for it.
    pub fn set(&self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        self.set_if_asked(value);
        Ok(())
    }

    pub fn set_if_asked(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, and who calls the driver owes it a place for the result.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// No place.
    pub fn none() -> Out<T> {
        Out(std::ptr::null_mut())
    }

    /// The place of a later element of a list.
    pub fn behind(&self, index: usize) -> Out<T> {
        Out(self.0.wrapping_add(index))
    }

    /// Whether the caller wants it.
    pub fn is_asked(&self) -> bool {
        !self.0.is_null()
    }

    /// The place of a result of another type: attributes have many.
    pub fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T: Copy> Out<T> {
    /// Value that lies there now: some places bring one, too.
    ///
    /// # Errors
    /// There is no place.
    pub fn get(&self) -> Answer<T> {
        In(self.0.cast_const()).get()
    }
}

impl Out<c_char> {
    /// A text, cut to `most` bytes with the zero that ends it.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn set_text(&self, text: &str, most: i32) -> Answer {
        if self.0.is_null() || most < 1 {
            return Err(Code::INVALID_VALUE);
        }
        let length = text.len().min(most as usize - 1);
        // SAFETY: it is not null, and who calls the driver says that `most` bytes are there.
        unsafe {
            self.0
                .copy_from_nonoverlapping(text.as_ptr().cast(), length);
            self.0.add(length).write(0);
        }
        Ok(())
    }
}

/// Where an argument lies.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// # Errors
    /// There is none.
    pub fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and who calls the driver owes it what the pointer's type says.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// `count` of them.
    ///
    /// # Errors
    /// There are none, though some are promised.
    pub fn list(self, count: usize) -> Answer<Vec<T>> {
        if count > 0 && self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and who calls the driver says how many there are.
        Ok((0..count)
            .map(|at| unsafe { self.0.add(at).read_unaligned() })
            .collect())
    }

    /// The one at an index.
    ///
    /// # Errors
    /// There are none.
    pub fn at(self, index: usize) -> Answer<T> {
        In(self.0.wrapping_add(index)).get()
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl In<c_char> {
    /// # Errors
    /// There is no text, or it is not UTF-8.
    pub fn text(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and who calls the driver owes it a text that ends with a zero.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str()
            .map(str::to_owned)
            .map_err(|_| Code::INVALID_VALUE)
    }
}

/// `CUuuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Uuid(pub [u8; 16]);

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Location {
    pub kind: i32,
    pub id: i32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const ON_DEVICE: i32 = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub const PINNED: i32 = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub const POSIX_FD: i32 = 1;

/// `CUmemAllocationProp`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct AllocationProp {
    pub kind: i32,
    pub handle_types: i32,
    pub location: Location,
    pub win32: *const c_void,
    pub flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct AccessDesc {
    pub location: Location,
    pub flags: i32,
}

/// `CUmemPoolProps`, without what later versions put into the reserved part.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PoolProps {
    pub kind: i32,
    pub handle_types: i32,
    pub location: Location,
    pub win32: *const c_void,
    pub most_bytes: usize,
    pub reserved: [u8; 56],
}

/// `CUlaunchConfig`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub stream: u64,
    pub attributes: *const c_void,
    pub attribute_count: u32,
}
