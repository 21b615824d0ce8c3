//! Modules, libraries and functions: kolo's kernels by their names.

use crate::error::{Answer, Code};
use crate::table::Table;
use kolo_kernels_host::{Kernel, kernels, litmus, probe};

/// How an image begins that a software GPU can load.
const FIRST_LINE: &str = "kolo software GPU kernels\n";

/// The image that stands for a fatbin: it names the layout of what host and kernels share, so that
/// an image of another release is refused.
pub fn image() -> Vec<u8> {
    format!("{FIRST_LINE}{:016x}\n\0", probe::layout_hash()).into_bytes()
}

/// A function of a module in a context, or a kernel of a library (without context).
#[derive(Clone, Copy)]
pub struct Function {
    pub module: u64,
    pub context: u64,
    pub device: u32,
    /// Where the table of kernels has it.
    pub index: usize,
}

/// Modules that are loaded.
pub struct Modules {
    kernels: Vec<(&'static str, Kernel)>,
    /// The context of each module.
    loaded: Table<u64>,
    pub libraries: Table<()>,
    functions: Table<Function>,
    /// Kernels of libraries: the library, and where the table has them.
    library_kernels: Table<(u64, usize)>,
}

impl Modules {
    pub fn new() -> Modules {
        Modules {
            kernels: kernels().chain(litmus()).collect(),
            loaded: Table::new(Code::INVALID_HANDLE),
            libraries: Table::new(Code::INVALID_HANDLE),
            functions: Table::new(Code::INVALID_HANDLE),
            library_kernels: Table::new(Code::INVALID_HANDLE),
        }
    }

    pub fn load(&mut self, context: u64) -> u64 {
        self.loaded.add(context)
    }

    /// # Errors
    /// There is no such module.
    pub fn unload(&mut self, module: u64) -> Answer {
        self.loaded.remove(module)?;
        self.functions.retain(|function| function.module != module);
        Ok(())
    }

    pub fn drop_context(&mut self, context: u64) {
        self.loaded.retain(|of| *of != context);
        self.functions
            .retain(|function| function.context != context);
    }

    fn index(&self, name: &str) -> Answer<usize> {
        let found = self.kernels.iter().position(|kernel| kernel.0 == name);
        found.ok_or(Code::NOT_FOUND)
    }

    /// The function of a module; the same handle each time.
    ///
    /// # Errors
    /// There is no such module, or no such kernel.
    pub fn function(&mut self, module: u64, device: u32, name: &str) -> Answer<u64> {
        let context = *self.loaded.get(module)?;
        let index = self.index(name)?;
        let function = Function {
            module,
            context,
            device,
            index,
        };
        Ok(self.known_function(function))
    }

    fn known_function(&mut self, function: Function) -> u64 {
        let is_it = |other: &Function| {
            (other.module, other.context, other.index)
                == (function.module, function.context, function.index)
        };
        let known = self.functions.iter().find(|(_, other)| is_it(other));
        let known = known.map(|(handle, _)| handle);
        known.unwrap_or_else(|| self.functions.add(function))
    }

    pub fn context_of(&self, module: u64) -> Answer<u64> {
        self.loaded.get(module).copied()
    }

    /// A kernel of a library.
    ///
    /// # Errors
    /// There is no such library, or no such kernel.
    pub fn library_kernel(&mut self, library: u64, name: &str) -> Answer<u64> {
        self.libraries.get(library)?;
        let key = (library, self.index(name)?);
        let known = self
            .library_kernels
            .iter()
            .find(|(_, kernel)| **kernel == key);
        let known = known.map(|(handle, _)| handle);
        Ok(known.unwrap_or_else(|| self.library_kernels.add(key)))
    }

    /// # Errors
    /// There is no such library.
    pub fn unload_library(&mut self, library: u64) -> Answer {
        self.libraries.remove(library)?;
        self.library_kernels.retain(|kernel| kernel.0 != library);
        self.functions.retain(|function| function.module != library);
        Ok(())
    }

    /// A function to launch: of a module, or a library's kernel in the caller's context.
    ///
    /// # Errors
    /// There is no such function.
    pub fn get(&mut self, handle: u64, current: Answer<(u64, u32)>) -> Answer<Function> {
        if let Ok((library, index)) = self.library_kernels.get(handle) {
            let (context, device) = current?;
            return Ok(Function {
                module: *library,
                context,
                device,
                index: *index,
            });
        }
        self.functions.get(handle).copied()
    }

    /// The handle of a library's kernel as a function of a context.
    ///
    /// # Errors
    /// There is no such kernel.
    pub fn kernel_function(&mut self, kernel: u64, current: Answer<(u64, u32)>) -> Answer<u64> {
        let function = self.get(kernel, current)?;
        Ok(self.known_function(function))
    }

    pub fn kernel(&self, function: Function) -> (&'static str, Kernel) {
        self.kernels[function.index]
    }

    pub fn count(&self) -> usize {
        self.kernels.len()
    }
}

/// Whether the bytes at the beginning of an image are ones that can be loaded.
///
/// # Errors
/// They are a real fatbin, of another release, or anything else.
pub fn check(mut next_byte: impl FnMut(usize) -> Answer<u8>) -> Answer {
    // Byte by byte, because nobody says how long another image is.
    for (at, wanted) in image().iter().enumerate() {
        if *wanted == 0 {
            break;
        }
        if next_byte(at)? != *wanted {
            return Err(Code::NO_BINARY_FOR_GPU);
        }
    }
    Ok(())
}
