//! Beginning and end of every call.

use super::calls;
use crate::error::{Answer, Code};
use crate::host_thread;
use crate::progress::Failed;
use crate::settings;
use crate::state::{self, Turn};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A function of the driver: since which version (13000 is 13.0), and where it is.
pub struct Symbol {
    pub name: &'static str,
    pub since: i32,
    pub address: *const (),
}

/// Runs a call: no panic crosses, and what the pretended driver lacks is not supported.
pub fn call(name: &'static str, since: i32, body: impl FnOnce() -> Answer) -> i32 {
    calls::count(name);
    if host_thread::is_here() {
        return Code::NOT_PERMITTED.0;
    }
    if since > settings::driver() {
        return Code::NOT_SUPPORTED.0;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => {
            eprintln!("kolo software GPU: {name} panicked, which is a mistake in kolo");
            Code::UNKNOWN.0
        }
    }
}

/// The lock, whatever has happened to the devices.
///
/// # Errors
/// `cuInit` was not called.
pub fn enter() -> Answer<Turn> {
    let mut turn = state::enter()?;
    if turn.hardware.faults.is_lost_now() {
        turn.fail(&Failed {
            code: Code::LAUNCH_FAILED,
            text: "all devices are lost because KOLO_SOFTGPU_FAULT asks for it".into(),
        });
    }
    Ok(turn)
}

/// The lock, for calls that need devices which work.
///
/// # Errors
/// The code of their failure.
pub fn live() -> Answer<Turn> {
    let turn = enter()?;
    match turn.failed {
        None => Ok(turn),
        Some(code) => Err(code),
    }
}

/// The lock, for calls that may synchronise a device: captures forbid them.
///
/// # Errors
/// A capture does; it is invalid now.
pub fn outside() -> Answer<Turn> {
    let mut turn = live()?;
    turn.captures.forbid()?;
    Ok(turn)
}

/// The lock, for questions about devices.
///
/// # Errors
/// They are lost.
pub fn present() -> Answer<Turn> {
    let turn = enter()?;
    match turn.hardware.faults.is_lost() {
        false => Ok(turn),
        true => Err(Code::NO_DEVICE),
    }
}

/// Functions of the driver, each behind the version since which it is there.
macro_rules! driver {
    ($($since:literal $name:ident ($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $name($($argument: $kind),*) -> i32 {
                $crate::api::entry::call(stringify!($name), $since, move || $body)
            }
        )*

        /// For `cuGetProcAddress`.
        pub const SYMBOLS: &[$crate::api::entry::Symbol] = &[$(
            $crate::api::entry::Symbol {
                name: stringify!($name),
                since: $since,
                address: $name as *const (),
            }
        ),*];
    };
}
pub(crate) use driver;
