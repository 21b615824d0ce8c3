//! Counts of the calls that each thread has made, for tests of programs that should make few.

use crate::abi::Out;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fmt::Write;

thread_local! {
    static CALLS: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// This thread calls a function. At the end of a thread nobody counts any more.
pub fn count(name: &'static str) {
    let _ = CALLS.try_with(|calls| *calls.borrow_mut().entry(name).or_default() += 1);
}

/// Tells the calls that this thread has made since it asked last: a line with name and number for
/// each function. It is no function of CUDA's.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn koloSoftgpuCalls(to: Out<c_char>, most: i32) -> i32 {
    let calls = CALLS.try_with(RefCell::take).unwrap_or_default();
    let mut text = String::new();
    for (name, number) in calls {
        // A text takes whatever is written.
        let _ = writeln!(text, "{name} {number}");
    }
    to.set_text(&text, most).map_or_else(|code| code.0, |()| 0)
}
