//! Who carries the tokens of connections whose ends are on different nodes.
//!
//! The memory of such a connection lies on both nodes, and somebody has to move what is in it.
//! Executors tell the carrier beforehand how many slots a launch passes.

/// Slots that a launch will pass over a connection between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedSlots {
    /// The other rank.
    pub peer: u32,
    /// The connection's channel.
    pub channel: u16,
    /// This rank writes them.
    pub is_send: bool,
    /// How many.
    pub slots: u64,
    /// Whether this rank, which reads them, says of each large token where it wants it.
    pub wished: bool,
}

/// Carries the tokens of pairs in memory of the host.
pub trait Carrier: Send + Sync {
    /// Whether a rank is on another node.
    fn is_remote(&self, rank: usize) -> bool;
    /// A launch will pass these slots. Slots with the same number `launch` belong together.
    fn expect(&self, launch: u64, slots: CarriedSlots);
    /// Whether another rank of the node moves what is sent on a channel.
    fn is_proxied(&self, channel: usize) -> bool;
    /// Whether payload may lie elsewhere than in slots.
    fn takes_parts(&self) -> bool;
    /// Tells how the network folds data of the launch of this number: the numbers of type and
    /// operation, and the bytes of an element.
    fn announce(&self, launch: u64, dtype: i32, operation: i32, element_bytes: usize);
    /// The payload of the token at slot count `position` from `peer`, if it has so many bytes, had
    /// best be put at `place`, or in its slot if that is null. That place is the carrier's until
    /// the token has been published, or the communicator has stopped.
    fn want(&self, peer: usize, channel: usize, position: u64, place: *mut u8, bytes: usize);
}

/// Moves the slots of connections whose ends are devices of different nodes.
pub trait DeviceCarrier: Send + Sync {
    /// Whether a rank is on another node.
    fn is_remote(&self, rank: u32) -> bool;

    /// A launch will pass these slots. Asks nothing of the driver, so that it may be called from a
    /// graph.
    fn expect(&self, launch: &[CarriedSlots]);
}
