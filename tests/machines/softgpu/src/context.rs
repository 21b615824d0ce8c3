//! Contexts: a device's own, which all parts of a program share, and others; which one a thread
//! uses.

use crate::error::{Answer, Code};
use crate::state::State;
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

impl State {
    pub fn new_context(&mut self, device: u32, flags: u32, is_primary: bool) -> u64 {
        let id = self.memory.new_id();
        self.contexts.add(Context {
            device,
            flags,
            is_primary,
            is_dead: false,
            id,
            limits: Vec::new(),
        })
    }

    /// A context that can be used.
    ///
    /// # Errors
    /// There is none of this handle, or it was destroyed.
    pub fn context(&self, handle: u64) -> Answer<&Context> {
        let context = self.contexts.get(handle)?;
        match context.is_dead {
            true => Err(Code::CONTEXT_IS_DESTROYED),
            false => Ok(context),
        }
    }

    /// The primary context of a device, made if nobody uses it yet.
    pub fn retain_primary(&mut self, device: u32) -> u64 {
        let primary = self.primaries[device as usize];
        let handle = match primary.handle {
            0 => self.new_context(device, primary.flags, true),
            handle => {
                if let Ok(context) = self.contexts.get_mut(handle) {
                    context.is_dead = false;
                }
                handle
            }
        };
        let primary = &mut self.primaries[device as usize];
        primary.handle = handle;
        primary.users += 1;
        handle
    }

    /// Destroys what belongs to a context. Its memory goes, too.
    pub fn end_context(&mut self, handle: u64) {
        if let Ok(context) = self.contexts.get_mut(handle) {
            context.is_dead = true;
        }
        for stream in self.streams.of_context(handle) {
            self.captures.drop_stream(stream);
        }
        self.streams.drop_context(handle);
        self.events.retain(|event| event.context != handle);
        self.modules.drop_context(handle);
        let device = self.contexts.get(handle).map(|context| context.device);
        let State {
            memory, machine, ..
        } = self;
        if let Ok(device) = device {
            let mut living = self.contexts.iter().filter(|(_, other)| !other.is_dead);
            if living.all(|(_, other)| other.device != device) {
                memory.forget_peers(machine, device);
            }
        }
        if let Err(failure) = memory.drop_context(machine, handle) {
            self.fail(&failure);
        }
    }
}
