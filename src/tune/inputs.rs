//! Inputs of the tuner.

use super::allowed::Allowed;
use super::measured::Measured;
use super::predict::Setting;

/// Inputs of the choice, equal on all ranks of a communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Ranks of the communicator.
    pub nranks: u32,
    /// Whether ranks outnumber the cores of any node.
    pub oversubscribed: bool,
    /// Where ranks are and what everything costs.
    pub setting: Setting,
    /// Limit for the one-shot path set by the user; `None` for the built-in one.
    pub eager_limit: Option<usize>,
    /// Algorithms and protocols that the user allows.
    pub allowed: Allowed,
    /// Least and most channels.
    pub channels: (u16, u16),
    /// The measured times, if there are any.
    pub measured: Measured,
    /// Whether buffers may be read where they lie.
    pub direct: bool,
    /// Whether the ranks compare their calls: then a message waits until it is received.
    pub compares: bool,
    /// Whether the bits of sums depend on nothing but the number of ranks.
    pub reproducible: bool,
    /// A further channel pays when each has this much to move.
    pub channel_bytes: usize,
}

impl Inputs {
    /// [`Inputs::channel_bytes`] on memory of the host.
    pub const HOST_CHANNEL_BYTES: usize = 4 << 20;

    /// Inputs of ranks where nobody has set or measured anything.
    pub fn unset(setting: Setting) -> Inputs {
        Inputs {
            nranks: setting.machine.nranks(),
            oversubscribed: setting.machine.crowded(),
            setting,
            eager_limit: None,
            allowed: Allowed::default(),
            channels: (1, 2),
            measured: Measured::default(),
            direct: true,
            compares: false,
            reproducible: false,
            channel_bytes: Inputs::HOST_CHANNEL_BYTES,
        }
    }
}
