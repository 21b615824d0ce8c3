//! Requests to the search, and how long it may take.

/// Ways tried for one rate and one pair of limits.
pub const STEPS_A_TRY: u64 = 4_000;

/// Ways tried for one pattern, all rates together.
pub const STEPS: u64 = 80_000;

/// Whether a ring may leave a node by another port than it came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cross {
    /// Never: rings stay on one rail (switches that join the same port of all nodes).
    Never,
    /// Where that gives more bandwidth.
    #[default]
    Auto,
    /// The ports are equal to the network: cross wherever it is nearer.
    Always,
}

/// A request to the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether the communicator spans several nodes.
    pub several_nodes: bool,
    /// Most rings to search for, 1 to 32; they are doubled later.
    pub most_channels: u32,
    /// Whether rings may cross ports.
    pub cross: Cross,
    /// Whether a rank may send through another one's proxy.
    pub pxn: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            several_nodes: false,
            most_channels: 16,
            cross: Cross::Auto,
            pxn: true,
        }
    }
}
