//! Meaning of a driver's result, as an error with what to do.

use super::functions::DriverFunctions;
use crate::base::{Code, Error};
use std::ffi::{CStr, c_char, c_int};

/// No error.
pub const SUCCESS: c_int = 0;
/// `CUDA_ERROR_INVALID_VALUE`.
pub const INVALID_VALUE: c_int = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: c_int = 2;
/// `CUDA_ERROR_NO_DEVICE`: none that this process may use.
pub const NO_DEVICE: c_int = 100;
/// `CUDA_ERROR_NO_BINARY_FOR_GPU`.
pub const NO_BINARY: c_int = 209;
/// `CUDA_ERROR_NOT_FOUND`: there is no function of this name.
pub const NOT_FOUND: c_int = 500;
/// `CUDA_ERROR_NOT_READY`: a stream or an event still has work before it.
pub const NOT_READY: c_int = 600;
/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
pub const PEER_ALREADY_ENABLED: c_int = 704;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`.
pub const ALREADY_REGISTERED: c_int = 712;
/// `CUDA_ERROR_INVALID_CONTEXT`: no context is current, or one that is gone.
pub const INVALID_CONTEXT: c_int = 201;

/// Remedy for a result.
fn remedy(code: c_int) -> &'static str {
    match code {
        OUT_OF_MEMORY => {
            "free memory of the device (`nvidia-smi` shows who has some), or lower KOLO_BUFFSIZE \
             and KOLO_MAX_NCHANNELS"
        }
        3 | 4 => "the process ends, or was forked from one that used CUDA: start a new program",
        NO_DEVICE | 101 => {
            "see the devices with `nvidia-smi -L`, and what the job was given with `echo \
             $CUDA_VISIBLE_DEVICES` (Slurm: --gpus-per-task, --gres)"
        }
        46 => {
            "another process has the device for itself, or it is in exclusive mode: `nvidia-smi \
               -q -d COMPUTE`"
        }
        INVALID_CONTEXT | 709 => {
            "the context of the device is gone: do not call cudaDeviceReset while \
             communicators live"
        }
        NO_BINARY | 218 | 222 => {
            "the file with kolo's kernels has none for this device: `make kernels`, then set \
             KOLO_KERNELS_FILE"
        }
        INVALID_VALUE | 400 => {
            "the stream or the buffer belongs to another device, or is gone: give those of the \
             communicator's device"
        }
        214 | 220 | 221 => "see `nvidia-smi -q` for faults of the device and of its NVLinks",
        700 | 702 | 714..=719 => {
            "the process can use the device no more: end it, and look for kernels that write \
             outside of their buffers with `compute-sanitizer`"
        }
        217 | 205 => "see with `nvidia-smi topo -p2p r` which devices reach each other",
        800 => "do not call kolo from a host function of a stream",
        801 => "this driver or device cannot do this: a newer driver may (`nvidia-smi`)",
        802 => "start `nvidia-fabricmanager` on this host (systemctl status nvidia-fabricmanager)",
        803 | 804 => {
            "the driver's library and the kernel's module are of different versions: reboot the \
             host, or take the compat library of CUDA out of LD_LIBRARY_PATH"
        }
        900..=908 => {
            "a graph is being captured: call this before the capture, or capture in relaxed or \
             thread-local mode"
        }
        _ => "see `nvidia-smi` and the log of the kernel (`dmesg | grep -i nvrm`)",
    }
}

/// The driver's name of a result, and its text.
fn words(functions: &DriverFunctions, code: c_int) -> (String, String) {
    let read = |function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
        let mut text = std::ptr::null();
        // SAFETY: the driver writes the address of a text that lives as long as the library.
        let known = unsafe { function(code, &raw mut text) } == SUCCESS && !text.is_null();
        // SAFETY: as above; the library is never unloaded.
        let text = known.then(|| unsafe { CStr::from_ptr(text) });
        text.map(|text| text.to_string_lossy().into_owned())
    };
    let name = read(functions.error_name).unwrap_or_else(|| "an unknown result".to_owned());
    let text = read(functions.error_text).unwrap_or_else(|| "no text".to_owned());
    (name, text)
}

/// The error of a call that gave this result. `of` says what it was about: ` of that on device 3`.
#[cold]
pub fn failed(functions: &DriverFunctions, code: c_int, call: &str, of: &str) -> Error {
    let (name, text) = words(functions, code);
    Error::new(
        Code::UnhandledCudaError,
        format!("{call}{of}: {name} ({code}): {text}"),
        remedy(code),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_something_to_do() {
        for code in 0..=1000 {
            assert!(!remedy(code).is_empty(), "{code}");
        }
        assert!(remedy(OUT_OF_MEMORY).contains("KOLO_BUFFSIZE"));
        assert!(remedy(719).contains("compute-sanitizer"));
        assert!(remedy(901).contains("capture"));
        assert_ne!(remedy(700), remedy(OUT_OF_MEMORY));
    }
}
