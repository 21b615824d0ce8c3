//! Which MPI this library was built for, and which one the program runs.
//!
//! Problem: the binary interfaces of the families differ: a handle is a number in one and a pointer
//! in the other. A program of one family that was linked with the `libkolo_mpi` of the other would
//! crash at the first call with a handle. Idea: MPI_Get_library_version takes none, and may be
//! called at any time, so it is asked first. The loader gives us the function of the program's MPI,
//! as it would for all others.

use mpi::ffi;
use std::ffi::{CStr, CString, c_int};

unsafe extern "C" {
    static kolo_mpi_is_open_mpi: c_int;
}

/// More than any MPI writes: the limit of one family is below that of the other.
const LONGEST_VERSION: usize = 16 << 10;

/// Two families, by their binary interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
}

impl Family {
    /// That of a library, by what it says of itself; `None` for one that is not known.
    fn of(version: &str) -> Option<Family> {
        let has = |words: &[&str]| words.iter().any(|word| version.contains(word));
        if has(&["Open MPI", "Spectrum MPI"]) {
            return Some(Family::OpenMpi);
        }
        has(&["MPICH", "Intel(R) MPI", "MVAPICH", "ParaStation MPI"]).then_some(Family::Mpich)
    }

    fn words(self) -> &'static str {
        match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH and Intel MPI",
        }
    }

    /// As in the names of folders and packages.
    fn name(self) -> &'static CStr {
        match self {
            Family::OpenMpi => c"openmpi",
            Family::Mpich => c"mpich",
        }
    }
}

fn built_for() -> Family {
    // SAFETY: a constant of the shim.
    match unsafe { kolo_mpi_is_open_mpi } {
        0 => Family::Mpich,
        _ => Family::OpenMpi,
    }
}

/// The family that this library was built for, as in the names of folders.
pub(crate) fn name() -> &'static CStr {
    built_for().name()
}

/// The first line of what MPI says about itself.
pub(crate) fn version() -> CString {
    // SAFETY: the buffer is longer than any MPI asks for; the call is allowed at any time.
    let text = unsafe {
        let mut text = vec![0u8; LONGEST_VERSION];
        let mut length = 0;
        ffi::PMPI_Get_library_version(text.as_mut_ptr().cast(), &mut length);
        text.truncate(length.max(0) as usize);
        text
    };
    let line = text.split(|&byte| matches!(byte, b'\n' | b'\r' | 0)).next();
    let line = line.unwrap_or_default().to_vec();
    let line = line
        .into_iter()
        .map(|byte| if byte == b'\t' { b' ' } else { byte });
    CString::new(line.collect::<Vec<u8>>()).unwrap_or_default()
}

/// A sentence with its remedy, if the program runs another MPI than this library was built for.
pub(crate) fn mismatch() -> Option<CString> {
    let (built, version) = (built_for(), version());
    let version = version.to_string_lossy();
    let runs = Family::of(&version).filter(|runs| *runs != built)?;
    let name = runs.name().to_string_lossy();
    let text = format!(
        "this libkolo_mpi was built for {}, but the MPI of the program is {version}. Remedy: link \
         the program with the libkolo_mpi of its own MPI (pkg-config --libs kolo-mpi-{name}, or \
         the folder lib/kolo/{name} of the installation), or compile it with the mpicc of {}",
        built.words(),
        built.words()
    );
    Some(CString::new(text).unwrap_or_default())
}
