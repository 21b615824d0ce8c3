//! Counts of who carried calls out. Each executor counts itself when it begins, or when its launch
//! has ended, so tests can hold these counts against what was told of the calls. Only builds with
//! debug assertions count: a call of 8 bytes has no instruction to spare.

/// An executor of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// The copy of a rank alone.
    Copy,
    /// The table of one-shot calls.
    OneShot,
    /// One message.
    Message,
    /// A send and a receive.
    Exchange,
    /// The messages of a root.
    Rooted,
    /// The message of a root to all others.
    Cast,
    /// A list of small messages.
    Bundle,
    /// The interpreter, over slots and fans.
    Interpreted,
    /// The interpreter, over the buffers of the ranks.
    Direct,
}

impl Executor {
    /// All executors.
    pub const ALL: [Executor; 9] = [
        Executor::Copy,
        Executor::OneShot,
        Executor::Message,
        Executor::Exchange,
        Executor::Rooted,
        Executor::Cast,
        Executor::Bundle,
        Executor::Interpreted,
        Executor::Direct,
    ];
}

/// Counts by executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran([u64; Executor::ALL.len()]);

impl Ran {
    /// Counts one.
    #[inline(always)]
    pub fn note(&mut self, executor: Executor) {
        if cfg!(debug_assertions) {
            self.0[executor as usize] += 1;
        }
    }

    /// Calls or launches that this executor has carried out.
    pub fn of(&self, executor: Executor) -> u64 {
        self.0[executor as usize]
    }
}
