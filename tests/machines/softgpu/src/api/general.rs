//! The beginning, the version, and the texts of result codes.

use super::entry::driver;
use super::symbols;
use crate::abi::{In, Out};
use crate::error::{Code, texts};
use crate::settings;
use crate::state;
use std::ffi::c_char;

driver! {
    2_000 cuInit(flags: u32) {
        match flags {
            0 => state::init(),
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

    11_030 cuGetProcAddress(
        name: In<c_char>,
        to: Out<*const ()>,
        version: i32,
        _flags: u64,
    ) {
        match symbols::find(&name.text()?, version) {
            Ok(address) => to.set(address),
            Err(_) => {
                to.set(std::ptr::null())?;
                Err(Code::NOT_FOUND)
            }
        }
    }

    12_000 cuGetProcAddress_v2(
        name: In<c_char>,
        to: Out<*const ()>,
        version: i32,
        _flags: u64,
        status: Out<i32>,
    ) {
        let (address, found) = match symbols::find(&name.text()?, version) {
            Ok(address) => (address, 0),
            Err(missing) => (std::ptr::null(), missing as i32),
        };
        status.set_if_asked(found);
        to.set(address)
    }
}
