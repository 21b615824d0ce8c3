//! The driver's library: found, opened and started once in a process.
//!
//! `libcuda.so.1` comes with the driver of a machine, never with kolo. `KOLO_CUDA_LIBRARY` names
//! another one, such as the software GPU. A child of `fork` cannot use the devices that its parent
//! used, so it is refused here.

use super::failure::{self, NO_DEVICE, SUCCESS};
use super::functions::DriverFunctions;
use crate::base::{Code, Error, Result, fork, privilege};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{OsStr, OsString, c_int};
use std::sync::OnceLock;

/// The driver's file name.
const LIBRARY: &str = "libcuda.so.1";
/// Names a library to be loaded in its place.
pub const LIBRARY_VARIABLE: &str = "KOLO_CUDA_LIBRARY";
/// The least driver: CUDA 11.4.
const LEAST_VERSION: i32 = 11_040;

/// The driver of this process.
pub struct Driver {
    functions: DriverFunctions,
    version: i32,
    /// How many forks lie before the process that started it.
    generation: u32,
}

/// Why a process has no driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverFault {
    /// There is no library.
    Missing,
    /// It knows no device that this process may use.
    NoDevice,
    /// It is too old, or fails.
    Failing,
}

/// Result of the first call.
type StartedDriver = std::result::Result<Driver, (DriverFault, Error)>;

impl Driver {
    /// The driver, which the first call loads and starts.
    ///
    /// # Errors
    /// No driver, one that is too old, no device that this process may use; the same in every call.
    /// A process that was forked from one that used CUDA.
    pub fn get() -> Result<&'static Driver> {
        let driver = Driver::loaded().as_ref();
        let driver = driver.map_err(|(_, error)| error.clone())?;
        driver.refuse_a_fork()?;
        Ok(driver)
    }

    /// Whether the driver's library is open in this process, by whomever: where it is not, nobody
    /// has used a device. Opens nothing.
    pub fn is_open() -> bool {
        const RTLD_NOLOAD: c_int = 4;
        // SAFETY: loads nothing and runs nothing: one that is there is counted, and let go.
        unsafe { Library::open(Some(library()), RTLD_NOW | RTLD_NOLOAD) }.is_ok()
    }

    /// Why [`Driver::get`] gives none; nothing where it does.
    pub fn fault() -> Option<DriverFault> {
        let fault = Driver::loaded().as_ref().err();
        fault.map(|(fault, _)| *fault)
    }

    fn loaded() -> &'static StartedDriver {
        static LOADED: OnceLock<StartedDriver> = OnceLock::new();
        LOADED.get_or_init(|| Driver::load(&library()))
    }

    fn load(name: &OsStr) -> StartedDriver {
        let failing = |error: Error| (DriverFault::Failing, error);
        let shown = name.to_string_lossy();
        // SAFETY: a driver's library sets up nothing but itself.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| {
            let what = format!("no CUDA driver: {shown} cannot be loaded: {error}");
            let remedy = "run on a node with a GPU, or try `kolo softgpu`";
            let error = Error::new(Code::UnhandledCudaError, what, remedy);
            (DriverFault::Missing, error)
        })?;
        // SAFETY: these names are CUDA's, and so are the types.
        let functions = unsafe { DriverFunctions::of(&library) };
        let old = |why: String| {
            failing(Error::new(
                Code::UnhandledCudaError,
                format!("the CUDA driver {shown} {why}"),
                "install a driver with CUDA 11.4 or newer (version 470)",
            ))
        };
        let mut functions = functions.map_err(|symbol| old(format!("has no {symbol}")))?;
        // The library has threads and handlers of its own.
        std::mem::forget(library);
        let mut version = 0;
        // SAFETY: the driver writes one number; this needs no start.
        let code = unsafe { (functions.driver_version)(&raw mut version) };
        if code != SUCCESS {
            let error = failure::failed(&functions, code, "cuDriverGetVersion", "");
            return Err(failing(error));
        }
        if version < LEAST_VERSION {
            return Err(old(format!("is that of CUDA {}", dotted(version))));
        }
        functions.keep_to(version);
        // SAFETY: takes no pointer.
        let code = unsafe { (functions.init)(0) };
        if code != SUCCESS {
            let fault = match code {
                NO_DEVICE => DriverFault::NoDevice,
                _ => DriverFault::Failing,
            };
            return Err((fault, failure::failed(&functions, code, "cuInit", "")));
        }
        let generation = fork::generation();
        Ok(Driver {
            functions,
            version,
            generation,
        })
    }

    /// CUDA's version that the driver has: 12040 is 12.4.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// How many devices this process sees.
    ///
    /// # Errors
    /// The driver's.
    pub fn devices(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the driver writes one number.
        let code = unsafe { (self.functions.device_count)(&raw mut count) };
        self.check(code, "cuDeviceGetCount", String::new)?;
        Ok(count.max(0) as u32)
    }

    /// The functions, for the other files of this room.
    pub(super) fn functions(&self) -> &DriverFunctions {
        &self.functions
    }

    /// An error where this process was forked from that which started the driver.
    pub(super) fn refuse_a_fork(&self) -> Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        Err(Error::usage(
            "this process was forked from one that used CUDA, and its devices stayed there",
            "fork before the first use of CUDA, or start a new program (Python: \
             multiprocessing.set_start_method('spawn'))",
        ))
    }

    /// Whether this process started the driver: nothing of the driver's is released elsewhere.
    pub(super) fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// An error unless the result is success. `of` says what the call was about.
    #[inline]
    pub(super) fn check(&self, code: c_int, call: &str, of: impl FnOnce() -> String) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(failure::failed(&self.functions, code, call, &of()))
    }
}

/// `12.4` of 12040.
pub fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The library to load. A program with more rights than its user takes none that the user names.
fn library() -> OsString {
    let named = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty());
    let named = named.filter(|_| !privilege::is_raised());
    named.unwrap_or_else(|| LIBRARY.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_of(library: &str) -> String {
        let (fault, error) = Driver::load(library.as_ref()).err().expect("no driver");
        let is_missing = fault == DriverFault::Missing;
        assert_eq!(is_missing, library.contains("nobody"), "{fault:?}");
        assert_eq!(error.code, Code::UnhandledCudaError);
        error.to_string()
    }

    #[test]
    fn no_driver_is_one_sentence() {
        let error = failure_of("libcuda-of-nobody.so.1");
        assert!(
            error.starts_with("kolo: no CUDA driver: libcuda-of-nobody.so.1 cannot be loaded: "),
            "{error}"
        );
        assert!(error.ends_with("or try `kolo softgpu`"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn a_library_without_the_functions_names_the_least_driver() {
        let error = failure_of("libc.so.6");
        assert_eq!(
            error,
            "kolo: the CUDA driver libc.so.6 has no cuInit. Remedy: install a driver with CUDA \
             11.4 or newer (version 470)"
        );
    }

    #[test]
    fn versions_are_written_with_a_dot() {
        assert_eq!(dotted(11_040), "11.4");
        assert_eq!(dotted(13_000), "13.0");
    }
}
