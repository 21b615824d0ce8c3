//! Contexts: a device's own, which all parts of a program share, and others; which one a thread
//! uses.

use crate::error::{Answer, Code};
use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// Owner of streams, events, modules and memory.
pub struct Context {
    pub device: u32,
    pub flags: u32,
    pub is_primary: bool,
    /// Destroyed, or its last user has released it; calls with it fail.
    pub is_dead: bool,
    pub id: u64,
    /// Limits that were set: kept only to be told again.
    pub limits: Vec<(i32, usize)>,
}

/// The primary context of a device.
#[derive(Clone, Copy, Default)]
pub struct Primary {
    /// 0: not made yet.
    pub handle: u64,
    pub users: u32,
    pub flags: u32,
}

thread_local! {
    /// Never dropped, so that calls at the end of a thread still find it.
    static STACK: ManuallyDrop<RefCell<Vec<u64>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

fn with_stack<R>(run: impl FnOnce(&mut Vec<u64>) -> R) -> R {
    STACK.with(|stack| run(&mut stack.borrow_mut()))
}

/// The context that this thread uses; 0 without one.
pub fn current() -> u64 {
    with_stack(|stack| stack.last().copied().unwrap_or(0))
}

/// Replaces it; 0 takes it away.
pub fn set_current(context: u64) {
    with_stack(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
}

pub fn push(context: u64) {
    with_stack(|stack| stack.push(context));
}

/// # Errors
/// The thread has none.
pub fn pop() -> Answer<u64> {
    with_stack(|stack| stack.pop().ok_or(Code::INVALID_CONTEXT))
}
