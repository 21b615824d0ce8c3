//! Kernels in a file, and their launch.
//!
//! A driver may load a kernel's code when it is first used, and wait for the device then. So all
//! kernels of a file are loaded at once, when the file is, and they stay: a process loads a file
//! once for a device, however many communicators it makes.

use super::context::Context;
use super::failure::{NOT_FOUND, SUCCESS};
use super::stream::StreamId;
use crate::base::{Error, Result};
use cudarc::driver::sys::{CUfunction, CUmodule};
use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The kernels of a file, loaded for one device.
#[derive(Clone)]
pub struct DeviceKernels(Arc<LoadedKernels>);

struct LoadedKernels {
    context: Arc<Context>,
    file: PathBuf,
    functions: BTreeMap<String, Function>,
}

/// A kernel.
#[derive(Clone)]
pub struct Function {
    context: Arc<Context>,
    name: Arc<str>,
    /// The driver's address of it, which is never followed here.
    raw: usize,
    /// Bytes of the one parameter, where the driver says them.
    parameter: Option<usize>,
}

/// Kernels that this process has loaded.
static LOADED: Mutex<Vec<DeviceKernels>> = Mutex::new(Vec::new());

impl DeviceKernels {
    /// Loads the file for the device, with all of these kernels. The first time, the driver may
    /// wait for the device.
    ///
    /// # Errors
    /// There is no such file; it is for other devices, or lacks one of the kernels.
    pub fn load(context: &Arc<Context>, file: &Path, names: &[String]) -> Result<DeviceKernels> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let device = context.device();
        let is_it = |known: &&DeviceKernels| {
            known.0.context.device() == device
                && known.0.file == file
                && names
                    .iter()
                    .all(|name| known.0.functions.contains_key(name))
        };
        if let Some(known) = loaded.iter().find(is_it) {
            context.driver().refuse_a_fork()?;
            return Ok(known.clone());
        }
        let kernels = DeviceKernels(Arc::new(LoadedKernels {
            context: context.clone(),
            file: file.to_owned(),
            functions: functions(context, file, names)?,
        }));
        loaded.push(kernels.clone());
        Ok(kernels)
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// It was not named when the file was loaded.
    pub fn get(&self, name: &str) -> Result<&Function> {
        self.0.functions.get(name).ok_or_else(|| {
            Error::internal(format!(
                "kernel {name} of {} was not loaded",
                self.0.file.display()
            ))
        })
    }

    /// How many blocks of so many threads the device runs at the same time, of whichever kernel.
    ///
    /// # Errors
    /// The driver's; no kernel runs with so many threads.
    pub fn resident_blocks(&self, threads: u32) -> Result<u32> {
        let context = &self.0.context;
        let _current = context.enter()?;
        let function = context.driver().functions().occupancy;
        let mut least: Option<c_int> = None;
        for kernel in self.0.functions.values() {
            let mut blocks: c_int = 0;
            let raw = kernel.raw as CUfunction;
            // SAFETY: the kernel is loaded; the driver writes one number.
            let code = unsafe { function(&raw mut blocks, raw, threads as c_int, 0) };
            let of = || format!(" of {} with {threads} threads", kernel.name);
            let call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
            context.check(code, call, of)?;
            least = Some(least.map_or(blocks, |least| least.min(blocks)));
        }
        let blocks = least.unwrap_or(0).max(0) as u32;
        if blocks == 0 {
            return Err(Error::internal(format!(
                "device {} runs no block of {threads} threads",
                context.device()
            )));
        }
        Ok(blocks * context.multiprocessors())
    }
}

fn functions(
    context: &Arc<Context>,
    file: &Path,
    names: &[String],
) -> Result<BTreeMap<String, Function>> {
    let mut image = std::fs::read(file).map_err(|error| {
        Error::system(
            format!("kolo's kernels cannot be read from {}", file.display()),
            &error,
            "`make kernels` builds them and `make install` takes them along; KOLO_KERNELS_FILE \
             names the file",
        )
    })?;
    // Where it is text, the driver looks for its end.
    image.push(0);
    let _current = context.enter()?;
    let driver = context.driver().functions();
    let mut module: CUmodule = std::ptr::null_mut();
    // SAFETY: the driver writes one address and copies the image, which is whole: the driver knows
    // its length by itself.
    let code = unsafe { (driver.module_load)(&raw mut module, image.as_ptr().cast()) };
    let of = || format!(" of {}", file.display());
    context.check(code, "cuModuleLoadData", of)?;
    let mut functions = BTreeMap::new();
    for name in names {
        let function = Function::find(context, module, file, name)?;
        functions.insert(name.clone(), function);
    }
    Ok(functions)
}

impl Function {
    fn find(context: &Arc<Context>, module: CUmodule, file: &Path, name: &str) -> Result<Function> {
        let driver = context.driver().functions();
        let text = CString::new(name).map_err(|_| Error::internal("a kernel's name has a 0"))?;
        let mut raw: CUfunction = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with 0, and the driver writes one address.
        let code = unsafe { (driver.module_function)(&raw mut raw, module, text.as_ptr()) };
        if code == NOT_FOUND {
            return Err(Error::usage(
                format!("{} has no kernel {name}", file.display()),
                "the file is of another version of kolo: build it anew (`make kernels`), or take \
                 KOLO_KERNELS_FILE away",
            ));
        }
        let of = || format!(" of {name}");
        context.check(code, "cuModuleGetFunction", of)?;
        if let Some(load) = driver.function_load {
            // SAFETY: the module is loaded.
            context.check(unsafe { load(raw) }, "cuFuncLoad", of)?;
        }
        let parameter = driver.function_parameter.and_then(|ask| {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the module is loaded; the driver writes two numbers.
            let code = unsafe { ask(raw, 0, &raw mut offset, &raw mut bytes) };
            (code == SUCCESS).then_some(bytes)
        });
        Ok(Function {
            context: context.clone(),
            name: name.into(),
            raw: raw as usize,
            parameter,
        })
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a grid behind the work of the stream. The parameter is copied before this returns.
    ///
    /// # Errors
    /// The driver's; a parameter of another length than the kernel has.
    ///
    /// # Safety
    /// `parameter` is what the kernel takes, and what it names stays until the grid has ended.
    pub unsafe fn launch(
        &self,
        blocks: u32,
        threads: u32,
        parameter: &[u8],
        stream: StreamId,
    ) -> Result<()> {
        if self.parameter.is_some_and(|bytes| bytes != parameter.len()) {
            return Err(Error::internal(format!(
                "kernel {} takes {:?} bytes, not {}",
                self.name,
                self.parameter,
                parameter.len()
            )));
        }
        let _current = self.context.enter()?;
        let mut parameters: [*mut c_void; 1] = [parameter.as_ptr().cast_mut().cast()];
        let function = self.context.driver().functions().launch;
        // SAFETY: the kernel is loaded and takes one parameter, from which the driver only reads;
        // the caller's promise.
        let code = unsafe {
            function(
                self.raw as CUfunction,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.raw(),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        let of = || format!(" of {}", self.name);
        self.context.check(code, "cuLaunchKernel", of)
    }
}
