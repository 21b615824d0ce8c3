//! Which MPI this library was built for, and which one the program runs.
//!
//! Problem: the binary interfaces of the families differ: a handle is a number in one and a pointer
//! in the other. A program of one family that was linked with the `libkolo_mpi` of the other would
//! crash at the first call with a handle. Idea: MPI_Get_library_version takes none, and may be
//! called at any time, so it is asked first. The loader gives us the function of the program's MPI,
//! as it would for all others. An MPI that also has the standard interface of MPI 5 says the same
//! in both; the file tells them apart, whose name the standard fixes.

use mpi::ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

unsafe extern "C" {
    static kolo_mpi_family: c_int;
}

/// How the file of an MPI with the standard interface begins.
const STANDARD: &str = "libmpi_abi.so";

/// More than any MPI writes: the limit of one family is below that of the other.
const LONGEST_VERSION: usize = 16 << 10;

/// Families, by their binary interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
    /// The standard interface of MPI 5, whoever made the library.
    Abi,
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
            Family::Abi => "MPIs with MPI 5's standard binary interface (libmpi_abi.so.1)",
        }
    }

    fn compilers(self) -> &'static str {
        match self {
            Family::OpenMpi => "the mpicc or mpif90 of Open MPI",
            Family::Mpich => "the mpicc or mpif90 of MPICH and Intel MPI",
            Family::Abi => "mpicc_abi",
        }
    }

    /// As in the names of folders and packages.
    fn name(self) -> &'static CStr {
        match self {
            Family::OpenMpi => c"openmpi",
            Family::Mpich => c"mpich",
            Family::Abi => c"abi",
        }
    }
}

fn built_for() -> Family {
    // SAFETY: a constant of the shim.
    match unsafe { kolo_mpi_family } {
        0 => Family::Mpich,
        1 => Family::OpenMpi,
        _ => Family::Abi,
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

/// The family of the program's MPI, which says this of itself; `None` for one that is not known.
fn running(version: &str) -> Option<Family> {
    let call = ffi::PMPI_Get_library_version as GetVersion as *const c_void;
    // SAFETY: dladdr fills `place` where it succeeds; the name is a string of the loader's.
    let standard = unsafe {
        let mut place: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(call, &mut place) != 0
            && !place.dli_fname.is_null()
            && is_standard(&CStr::from_ptr(place.dli_fname).to_string_lossy())
    };
    match standard {
        true => Some(Family::Abi),
        false => Family::of(version),
    }
}

/// Whether a library of MPI, by its path, has the standard interface.
fn is_standard(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with(STANDARD))
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
    let version = version();
    refusal(running(&version.to_string_lossy())?, &version)
}

/// The same for a program in Fortran.
pub(crate) fn mismatch_in_fortran() -> Option<CString> {
    mismatch().or_else(|| {
        let version = version_in_fortran()?;
        refusal(Family::of(&version.to_string_lossy())?, &version)
    })
}

fn refusal(runs: Family, version: &CStr) -> Option<CString> {
    let (built, version) = (built_for(), version.to_string_lossy());
    if runs == built {
        return None;
    }
    let name = runs.name().to_string_lossy();
    let text = format!(
        "this libkolo_mpi was built for {}, but the MPI of the program is {version}. Remedy: link \
         the program with the libkolo_mpi of its own MPI (pkg-config --libs kolo-mpi-{name}, or \
         the folder lib/kolo/{name} of the installation), or compile it with {}",
        built.words(),
        built.compilers()
    );
    Some(CString::new(text).unwrap_or_default())
}
