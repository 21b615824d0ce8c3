//! Work of steps: what a core does for a token.

/// Work of a step on the bytes of a token.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    /// Steps that are interpreted.
    pub steps: f64,
    /// Tokens that it reads from connections and that it publishes.
    pub reads: f64,
    pub sends: f64,
    /// Own buffers that it reads and writes.
    pub locals: f64,
    pub writes: f64,
    /// Sources beside the first.
    pub folds: f64,
}

/// `prev -> output, next`
pub(super) const PASS_ON: Work = Work {
    steps: 1.0,
    reads: 1.0,
    sends: 1.0,
    locals: 0.0,
    writes: 1.0,
    folds: 0.0,
};
/// `prev + input -> next`
pub(super) const FOLD_ON: Work = Work {
    steps: 1.0,
    reads: 1.0,
    sends: 1.0,
    locals: 1.0,
    writes: 0.0,
    folds: 1.0,
};
