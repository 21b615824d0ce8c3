//! One call: what the caller asked for, checked before anything is touched.

use super::handles::{self, RedOp};
use super::summable;
use crate::base::{Error, InPlace, Result, checked};
use crate::dtype::{DataType, ReduceOp};
pub use crate::plan::Collective;
use crate::wire::signature::{Fields, Signature};

/// The peer of a message that goes to nobody or comes from nobody: such a call does nothing.
pub const NO_RANK: u32 = u32::MAX;

/// A call as its caller asked for it. Pointers are not dereferenced before
/// [`Checked::look`](super::checked::Checked::look).
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which operation.
    pub collective: Collective,
    /// Send buffer; unused by `Recv`, and by ranks that send nothing.
    pub send: *const u8,
    /// Receive buffer; unused by `Send`, and by ranks that receive nothing.
    pub recv: *mut u8,
    /// Elements: of the data for all-reduce, broadcast, reduce, send and receive; of one rank's
    /// block for the others.
    pub count: usize,
    /// Type of the elements.
    pub dtype: DataType,
    /// Operation, where the call reduces.
    pub op: RedOp,
    /// Root, or peer of `Send` and `Recv` ([`NO_RANK`]: nobody); ignored otherwise.
    pub peer: u32,
}

// SAFETY: a call is a description; whoever dereferences its pointers answers for it.
unsafe impl Send for Call {}

impl Call {
    /// Blocks (of `count` elements) that this rank's buffers hold; 0 for an unused buffer.
    pub(super) fn blocks(&self, rank: u32, nranks: u32) -> (u32, u32) {
        // Those of other sizes are checked in `super::vector`.
        self.collective.blocks((rank, self.peer, nranks))
    }

    /// Whether it is an exact sum.
    #[inline(always)]
    pub(in crate::comm) fn is_exact(&self) -> bool {
        self.op == RedOp::SUM_EXACT && self.collective.reduces()
    }

    /// The built-in operation, if it is one.
    ///
    /// # Errors
    /// `InvalidArgument`: the collective cannot combine these elements so.
    #[inline(always)]
    pub(in crate::comm) fn check_operation(&self) -> Result<Option<ReduceOp>> {
        let op = match self.collective.reduces() {
            true if self.is_exact() => {
                summable::check(self.collective, self.dtype)?;
                None
            }
            true => self.op.built_in(self.dtype)?,
            false => None,
        };
        match self.collective.is_scan() && op == Some(ReduceOp::Avg) {
            false => Ok(op),
            true => Err(Error::argument(
                "a scan has no average",
                "scan the sum, and divide it by the number of ranks that it is of",
            )),
        }
    }

    /// Bytes of `count` elements, where the largest buffer that the call may have can exist.
    pub(in crate::comm) fn check_size(&self, nranks: u32) -> Result<usize> {
        let bytes = checked::bytes(self.count, self.dtype.size_bytes())?;
        let collective = self.collective;
        let blocks = collective
            .input_blocks(nranks)
            .max(collective.output_blocks(nranks));
        checked::bytes(bytes, blocks as usize)?;
        Ok(bytes)
    }

    /// Whether the buffers overlap in the one way that the collective allows.
    pub(in crate::comm) fn in_place(&self, rank: u32, bytes: usize) -> bool {
        let (send, recv, mine) = (
            self.send as usize,
            self.recv as usize,
            rank as usize * bytes,
        );
        match self.collective.in_place() {
            InPlace::Same => send == recv,
            InPlace::SendInRecv => send == recv + mine,
            InPlace::RecvInSend => recv == send + mine,
            InPlace::Never => false,
        }
    }

    /// Packs the signature that travels with every token of the call. The send and the receive of a
    /// message have the same one.
    #[inline]
    pub(in crate::comm) fn signature(&self, op: u8) -> Signature {
        let point_to_point = self.collective.is_point_to_point();
        let collective = if point_to_point {
            Collective::Send
        } else {
            self.collective
        };
        Signature::pack(Fields {
            collective: collective as u8,
            dtype: self.dtype as u8,
            op,
            root: if self.collective.has_root() {
                self.peer
            } else {
                0
            },
            count: self.count as u64,
        })
    }
}

/// A signature in words: `AllReduce of 4 double, sum`.
pub(in crate::comm) fn describe(signature: Signature) -> String {
    let fields = signature.unpack();
    let collective = Collective::ALL
        .iter()
        .find(|c| **c as u8 == fields.collective);
    let Some(collective) = collective else {
        return format!("an unknown call ({:#x})", signature.0);
    };
    if *collective == Collective::Barrier {
        return "Barrier".into();
    }
    let dtype =
        DataType::from_index(usize::from(fields.dtype)).map_or("unknown type", |d| d.name());
    let name = match collective.is_point_to_point() {
        true => "Send/Recv",
        false => collective.name(),
    };
    let mut text = format!("{name} of {} {dtype}", fields.count);
    if collective.reduces() {
        text.push_str(", ");
        text.push_str(handles::name_of_code(fields.op));
    }
    if collective.has_root() {
        text.push_str(&format!(", root {}", fields.root));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(collective: Collective, send: usize, recv: usize, count: usize) -> Call {
        Call {
            collective,
            send: send as *const u8,
            recv: recv as *mut u8,
            count,
            dtype: DataType::Float64,
            op: RedOp::SUM,
            peer: 0,
        }
    }

    #[test]
    fn signatures_in_words() {
        let text = describe(call(Collective::AllReduce, 0, 0, 4).signature(0));
        assert_eq!(text, "AllReduce of 4 double, sum");
        let text = describe(call(Collective::Broadcast, 0, 0, 4).signature(0));
        assert_eq!(text, "Broadcast of 4 double, root 0");
        assert_eq!(
            call(Collective::Send, 0, 0, 4).signature(0),
            call(Collective::Recv, 0, 0, 4).signature(0)
        );
    }
}
