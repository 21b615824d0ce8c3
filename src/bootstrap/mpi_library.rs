//! The program's own MPI as a way to meet, for programs in Rust that link kolo as a crate.
//!
//! Problem: kolo has no MPI, and an `MPI_Comm` means nothing without one: it is a number in one
//! family of MPIs and an address in the other. Idea: `libkolo_mpi.so`, of which an installation has
//! one for each family, is loaded when it is wanted, and makes a table of functions from the
//! communicator ([`super::mpi_abi`]), as it does for programs in C. The family is what the MPI in
//! this process says of itself.

use super::launch::of_process;
use super::mpi_abi::MpiTable;
use super::table::TableBootstrap;
use crate::base::{Code, Error, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The library's file name.
pub const LIBRARY: &str = "libkolo_mpi.so";
/// Names a library to be loaded instead of those that are searched.
pub const VARIABLE: &str = "KOLO_MPI_LIBRARY";
/// At least MPI_MAX_LIBRARY_VERSION_STRING of every MPI.
const VERSION_BYTES: usize = 8192;

/// `kolo_mpi_table` of `libkolo_mpi`.
type MakeTable = unsafe extern "C" fn(
    comm: *const c_void,
    comm_bytes: usize,
    table: *mut MpiTable,
    table_bytes: usize,
) -> c_int;

/// A bootstrap over the communicator `comm`, a handle of MPI by value. Collective over it.
///
/// # Errors
/// No MPI in this process; no library for it; MPI that is not initialised, or is finalised; a
/// handle that is none.
///
/// # Safety
/// `comm` is an `MPI_Comm` of the MPI that this process is linked to: MPI_COMM_NULL (an error), or
/// alive. This thread may call MPI.
pub unsafe fn bootstrap<C: Copy>(comm: C) -> Result<TableBootstrap> {
    let make = load(family()?)?;
    let mut table = MaybeUninit::<MpiTable>::zeroed();
    let (place, bytes) = ((&raw const comm).cast(), size_of::<C>());
    // SAFETY: the handle and the table have these sizes; the caller's promise.
    let code = unsafe { make(place, bytes, table.as_mut_ptr(), size_of::<MpiTable>()) };
    if code != 0 {
        return Err(Error::argument(
            format!("a handle of {bytes} bytes is no MPI_Comm of the MPI in this process"),
            "pass the MPI_Comm itself, by value (with rsmpi: communicator.as_raw())",
        ));
    }
    // SAFETY: zero is a value of every member, and the library has written the rest.
    let table = unsafe { table.assume_init() };
    // SAFETY: the table is whole; its functions belong to its context, and kolo keeps to the
    // threads that MPI allows.
    let made = unsafe { TableBootstrap::from_raw(&table) };
    if made.is_err()
        && let Some(free) = table.free
    {
        // SAFETY: a table that was refused keeps its context, and nothing uses it after this.
        unsafe { free(table.context) };
    }
    made
}

/// `openmpi`, `mpich` with all that share its binary interface, or `abi`: that of MPI 5.
fn family() -> Result<&'static str> {
    type GetVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    let program = Library::this();
    // SAFETY: MPI's function has this type.
    let get = unsafe { program.get::<GetVersion>(b"MPI_Get_library_version\0") };
    let get = get.map_err(|_| {
        Error::usage(
            "there is no MPI in this process",
            "link the program to its MPI as a shared library, or start kolo without MPI \
             (Communicator::init_env)",
        )
    })?;
    if is_standard(*get as *const c_void) {
        return Ok("abi");
    }
    let mut text = vec![0u8; VERSION_BYTES];
    let mut length = 0;
    // SAFETY: the buffer is as long as MPI asks for; it may be called at any time.
    let code = unsafe { get(text.as_mut_ptr().cast(), &mut length) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    match code {
        0 => Ok(family_of(&text.to_string_lossy())),
        code => Err(Error::new(
            Code::SystemError,
            format!("MPI_Get_library_version failed with code {code}"),
            "see what this MPI says of it",
        )),
    }
}

/// Whether a function is of an MPI with the standard interface, whose file name is fixed.
fn is_standard(function: *const c_void) -> bool {
    // SAFETY: dladdr fills `place` where it succeeds; the name is a string of the loader's.
    unsafe {
        let mut place: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(function, &mut place) != 0
            && !place.dli_fname.is_null()
            && CStr::from_ptr(place.dli_fname)
                .to_string_lossy()
                .contains("/libmpi_abi.so")
    }
}

fn family_of(version: &str) -> &'static str {
    match version.contains("Open MPI") {
        true => "openmpi",
        false => "mpich",
    }
}

/// The files that may be the library of a family, for this process.
pub fn files(family: &str) -> Vec<PathBuf> {
    let (named, program) = (of_process(VARIABLE), std::env::current_exe().ok());
    let is_named = named.is_some();
    let mut places = places(named, program.as_deref(), family);
    places.retain(|place| is_named || !is_left_to_linker(place));
    places
}

/// The files that may be the library of a family where no variable names one.
pub fn own_files(family: &str) -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let mut places = places(None, program.as_deref(), family);
    places.retain(|place| !is_left_to_linker(place));
    places
}

/// A name without a folder.
fn is_left_to_linker(place: &Path) -> bool {
    place.parent() == Some(Path::new(""))
}

/// Where the library may be: named, beside the installed program, in the build tree, or wherever
/// the dynamic linker looks.
fn places(named: Option<String>, program: Option<&Path>, family: &str) -> Vec<PathBuf> {
    if let Some(path) = named {
        return vec![PathBuf::from(path)];
    }
    let beside = program.and_then(Path::parent).into_iter().flat_map(|bin| {
        [
            format!("../lib/kolo/{family}"),
            format!("mpi/{family}"),
            // An example lies one folder deeper than the build's libraries.
            format!("../mpi/{family}"),
        ]
        .map(|place| bin.join(place).join(LIBRARY))
    });
    beside.chain([PathBuf::from(LIBRARY)]).collect()
}

/// The function of the first library that is there.
fn load(family: &str) -> Result<MakeTable> {
    let program = std::env::current_exe().ok();
    let places = places(of_process(VARIABLE), program.as_deref(), family);
    let is_file = |place: &&PathBuf| is_left_to_linker(place) || place.is_file();
    let mut said = String::new();
    for place in places.iter().filter(is_file) {
        // SAFETY: the library is kolo's own; loading it runs nothing of MPI.
        let library = unsafe { Library::open(Some(place), RTLD_NOW | RTLD_LOCAL) };
        let found = library.and_then(|library| {
            // SAFETY: the exported function has this type.
            let make = unsafe { library.get::<MakeTable>(b"kolo_mpi_table\0") }.map(|make| *make);
            // What it gave away is used until the process ends.
            std::mem::forget(library);
            make
        });
        match found {
            Ok(make) => return Ok(make),
            Err(error) => said = format!(" ({error})"),
        }
    }
    let tried: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    Err(Error::usage(
        format!(
            "the {LIBRARY} for {family} is not found: {}{said}",
            tried.join(", ")
        ),
        format!(
            "install kolo for this MPI (make install FAMILIES={family}) and name its library in \
             {VARIABLE}, for example PREFIX/lib/kolo/{family}/{LIBRARY}"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_before_all_places() {
        let program = Some(Path::new("/opt/app/bin/model"));
        assert_eq!(
            places(Some("/x/l.so".into()), program, "mpich"),
            [Path::new("/x/l.so")]
        );
        assert_eq!(
            places(None, program, "mpich"),
            [
                Path::new("/opt/app/bin/../lib/kolo/mpich/libkolo_mpi.so"),
                Path::new("/opt/app/bin/mpi/mpich/libkolo_mpi.so"),
                Path::new("/opt/app/bin/../mpi/mpich/libkolo_mpi.so"),
                Path::new("libkolo_mpi.so"),
            ]
        );
    }

    #[test]
    fn families_say_who_they_are() {
        assert_eq!(family_of("Open MPI v4.1.4, package: Debian"), "openmpi");
        assert_eq!(family_of("MPICH Version:\t4.0.2\n"), "mpich");
        assert_eq!(family_of("Intel(R) MPI Library 2021.9"), "mpich");
    }

    #[test]
    fn a_process_without_mpi_is_told_so() {
        // SAFETY: nothing is looked at where there is no MPI.
        let error = unsafe { bootstrap(0_i32) }.err().unwrap();
        assert!(error.what.contains("no MPI in this process"), "{error}");
        assert!(error.remedy.contains("init_env"), "{error}");
    }
}
