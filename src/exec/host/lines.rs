//! The flagged lines of a rank, of either encoding, as the executors use them.

use crate::base::Result;
use crate::base::sync::MODEL;
use crate::plan::Protocol;
use crate::wire::layout::ENCODINGS;
use crate::wire::line::Arrival;
use crate::wire::ll::{Encoding, LinesMemory, LinesReceiver, LinesSender, Ll};
use crate::wire::ll128::Ll128;

// What is planned for fits the lines that there are; models have smaller ones.
const _: () = assert!(MODEL || Protocol::Ll.slot_bytes() == Ll::CAPACITY);
const _: () = assert!(MODEL || Protocol::Ll128.slot_bytes() == Ll128::CAPACITY);

/// A writing end, whatever its encoding.
pub enum Sender {
    /// LL.
    Ll(LinesSender<Ll>),
    /// LL128.
    Ll128(LinesSender<Ll128>),
}

/// A reading end, whatever its encoding.
pub enum Receiver {
    /// LL.
    Ll(LinesReceiver<Ll>),
    /// LL128.
    Ll128(LinesReceiver<Ll128>),
}

/// Forwards a call to the end inside.
macro_rules! inside {
    ($kind:ident, $end:expr, $inner:ident => $call:expr) => {
        match $end {
            $kind::Ll($inner) => $call,
            $kind::Ll128($inner) => $call,
        }
    };
}

impl Sender {
    /// See [`LinesSender::begin`].
    pub fn begin(&mut self, chunk_steps: u32) {
        inside!(Sender, self, end => end.begin(chunk_steps));
    }

    /// See [`LinesSender::ready`].
    pub fn ready(&mut self, slots: u32) -> bool {
        inside!(Sender, self, end => end.ready(slots))
    }

    /// See [`LinesSender::place`].
    pub fn place(&mut self, bytes: usize) -> *mut u8 {
        inside!(Sender, self, end => end.place(bytes))
    }

    /// See [`LinesSender::publish`].
    pub fn publish(&mut self, slots: u32, bytes: usize, signature: u64) {
        inside!(Sender, self, end => end.publish(slots, bytes, signature));
    }
}

impl Receiver {
    /// See [`LinesReceiver::begin`].
    pub fn begin(&mut self, chunk_steps: u32) {
        inside!(Receiver, self, end => end.begin(chunk_steps));
    }

    /// See [`LinesReceiver::ready`].
    pub fn ready(&mut self, bytes: usize, signature: u64, ahead: u32) -> bool {
        inside!(Receiver, self, end => end.ready(bytes, signature, ahead))
    }

    /// See [`LinesReceiver::arrival`].
    pub fn arrival(&self, ahead: u32) -> Arrival {
        inside!(Receiver, self, end => end.arrival(ahead))
    }

    /// See [`LinesReceiver::place`].
    pub fn place(&self, ahead: u32) -> *const u8 {
        inside!(Receiver, self, end => end.place(ahead))
    }

    /// See [`LinesReceiver::release`].
    pub fn release(&mut self, slots: u32) {
        inside!(Receiver, self, end => end.release(slots));
    }
}

/// All flagged lines of a rank, made on first use, by number of the connection and encoding.
#[derive(Default)]
pub struct Lines {
    senders: Vec<Option<Box<Sender>>>,
    receivers: Vec<Option<Box<Receiver>>>,
}

/// The end with this number, made if it is new.
fn known_or<T>(
    ends: &mut Vec<Option<Box<T>>>,
    number: usize,
    make: impl FnOnce() -> Result<T>,
) -> Result<usize> {
    if number >= ends.len() {
        ends.resize_with(number + 1, || None);
    }
    if ends[number].is_none() {
        ends[number] = Some(Box::new(make()?));
    }
    Ok(number)
}

impl Lines {
    /// Most bytes that a slot of this protocol holds.
    pub fn capacity(protocol: Protocol) -> usize {
        match protocol {
            Protocol::Simple => usize::MAX,
            Protocol::Ll => Ll::CAPACITY,
            Protocol::Ll128 => Ll128::CAPACITY,
        }
    }

    /// The number of the end of connection `index`, new or known.
    ///
    /// # Errors
    /// Those of `memory`, asked for an encoding.
    pub fn find(
        &mut self,
        (index, protocol): (usize, Protocol),
        is_send: bool,
        memory: impl FnOnce(usize) -> Result<LinesMemory>,
    ) -> Result<usize> {
        let is_ll = protocol == Protocol::Ll;
        let encoding = usize::from(!is_ll);
        let number = index * ENCODINGS + encoding;
        let memory = || memory(encoding);
        match (is_send, is_ll) {
            (true, true) => known_or(&mut self.senders, number, || {
                memory().map(LinesSender::new).map(Sender::Ll)
            }),
            (true, false) => known_or(&mut self.senders, number, || {
                memory().map(LinesSender::new).map(Sender::Ll128)
            }),
            (false, true) => known_or(&mut self.receivers, number, || {
                memory().map(LinesReceiver::new).map(Receiver::Ll)
            }),
            (false, false) => known_or(&mut self.receivers, number, || {
                memory().map(LinesReceiver::new).map(Receiver::Ll128)
            }),
        }
    }

    /// A writing end by its number.
    #[inline]
    pub fn sender(&mut self, number: usize) -> &mut Sender {
        self.senders[number].as_mut().expect("resolved before use")
    }

    /// A reading end by its number.
    #[inline]
    pub fn receiver(&mut self, number: usize) -> &mut Receiver {
        let receiver = self.receivers[number].as_mut();
        receiver.expect("resolved before use")
    }
}
