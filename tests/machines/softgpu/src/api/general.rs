//! The beginning, the version, and the texts of result codes.

use super::entry::driver;
use crate::abi::Out;
use crate::error::{Code, texts};
use crate::settings;
use crate::state;
use crate::worker;
use std::ffi::c_char;

driver! {
    2_000 cuInit(flags: u32) {
        match flags {
            0 => state::init(worker::run),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    2_020 cuDriverGetVersion(version: Out<i32>) {
        version.set(settings::driver())
    }

    6_000 cuGetErrorName(code: i32, to: Out<*const c_char>) {
        let found = texts(code);
        to.set(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr().cast()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    6_000 cuGetErrorString(code: i32, to: Out<*const c_char>) {
        let found = texts(code);
        to.set(found.map_or(std::ptr::null(), |(_, text)| text.as_ptr().cast()))?;
        found.map(|_| ()).ok_or(Code::INVALID_VALUE)
    }
}
