//! Which MPI this library was built for, and what the MPI of the program says of itself. That both
//! are of one family has been seen to before this library was loaded (`front/family.c`).

use mpi::ffi;
use std::ffi::{CStr, CString, c_int};

unsafe extern "C" {
    static kolo_mpi_family: c_int;
}

/// More than any MPI writes: the limit of one family is below that of the other.
const LONGEST_VERSION: usize = 16 << 10;

/// The family that this library was built for, as in the names of folders and packages.
pub(crate) fn name() -> &'static CStr {
    // SAFETY: a constant of the shim.
    match unsafe { kolo_mpi_family } {
        0 => c"mpich",
        1 => c"openmpi",
        _ => c"abi",
    }
}

/// The first line of what MPI says about itself.
pub(crate) fn version() -> CString {
    let mut text = vec![0u8; LONGEST_VERSION];
    let mut length = 0;
    // SAFETY: the buffer is longer than any MPI asks for; the call is allowed at any time.
    unsafe { ffi::PMPI_Get_library_version(text.as_mut_ptr().cast(), &mut length) };
    text.truncate(length.max(0) as usize);
    let line = text.split(|&byte| matches!(byte, b'\n' | b'\r' | 0)).next();
    let mut line = line.unwrap_or_default().to_vec();
    for byte in line.iter_mut().filter(|byte| **byte == b'\t') {
        *byte = b' ';
    }
    CString::new(line).unwrap_or_default()
}
