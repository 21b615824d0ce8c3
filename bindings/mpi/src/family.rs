//! Which MPI this library was built for, and which one the program runs.
//!
//! Problem: the binary interfaces of the families differ: a handle is a number in one and a pointer
//! in the other. A program of one family that was linked with the `libkolo_mpi` of the other would
//! crash at the first call with a handle. Idea: MPI_Get_library_version takes none, and may be
//! called at any time, so it is asked first. The loader gives us the function of the program's MPI,
//! as it would for all others.

use mpi::ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

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

/// MPI_Get_library_version.
type GetVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;

/// The first line of what MPI says about itself.
pub(crate) fn version() -> CString {
    // SAFETY: the function of the program's MPI.
    unsafe { said_by(ffi::PMPI_Get_library_version) }
}

/// The same of the library behind the MPI calls of Fortran; `None` where there is none. It brings
/// a C library of its own, and where both MPIs are loaded the loader may give us the other one's.
fn version_in_fortran() -> Option<CString> {
    // SAFETY: names are strings that end with a zero byte; dladdr fills `place` where it succeeds;
    // the library is loaded already, and what the handle counts is never given back.
    unsafe {
        let call = libc::dlsym(libc::RTLD_DEFAULT, c"mpi_init_".as_ptr());
        let mut place: libc::Dl_info = std::mem::zeroed();
        if call.is_null() || libc::dladdr(call, &mut place) == 0 {
            return None;
        }
        let library = libc::dlopen(place.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        let get = libc::dlsym(library, c"MPI_Get_library_version".as_ptr());
        let get = std::mem::transmute::<*mut c_void, Option<GetVersion>>(get)?;
        Some(said_by(get))
    }
}

/// # Safety
/// `get` is the MPI_Get_library_version of some MPI.
unsafe fn said_by(get: GetVersion) -> CString {
    // SAFETY: the buffer is longer than any MPI asks for; the call is allowed at any time.
    let text = unsafe {
        let mut text = vec![0u8; LONGEST_VERSION];
        let mut length = 0;
        get(text.as_mut_ptr().cast(), &mut length);
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
    refusal(&version())
}

/// The same for a program in Fortran.
pub(crate) fn mismatch_in_fortran() -> Option<CString> {
    mismatch().or_else(|| refusal(&version_in_fortran()?))
}

fn refusal(version: &CStr) -> Option<CString> {
    let (built, version) = (built_for(), version.to_string_lossy());
    let runs = Family::of(&version).filter(|runs| *runs != built)?;
    let name = runs.name().to_string_lossy();
    let text = format!(
        "this libkolo_mpi was built for {}, but the MPI of the program is {version}. Remedy: link \
         the program with the libkolo_mpi of its own MPI (pkg-config --libs kolo-mpi-{name}, or \
         the folder lib/kolo/{name} of the installation), or compile it with the mpicc or mpif90 \
         of {}",
        built.words(),
        built.words()
    );
    Some(CString::new(text).unwrap_or_default())
}
