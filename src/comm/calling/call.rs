//! One call: what the caller asked for, checked before anything is touched.

use super::handles::{self, RedOp};
use super::parts::{Part, Parts};
use super::summable;
use crate::base::{Error, InPlace, Result, checked};
use crate::dtype::{DataType, ReduceOp};
use crate::exec::combine::Combine;
pub use crate::plan::Collective;
use crate::tune::{Asked, Combining};
use crate::wire::signature::{Fields, Signature};
use std::sync::Arc;

/// The peer of a message that goes to nobody or comes from nobody: such a call does nothing.
pub const NO_RANK: u32 = u32::MAX;

/// A call as its caller asked for it. Pointers are not dereferenced before [`Call::check`].
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

/// A call whose arguments hold.
#[derive(Clone, Debug)]
pub(in crate::comm) struct Checked {
    pub call: Call,
    /// Bytes of `count` elements.
    pub bytes: usize,
    /// Signature that its tokens carry. From the beginning of the call on, its past is mixed in.
    pub signature: u64,
    /// Past of the communicator: a digest of the collectives before this one ([`super::past`]), 0
    /// before the call has begun.
    pub past: u64,
    /// Which collective of the communicator it is, counted from 1; 0 for messages.
    pub number: u64,
    /// The built-in operation of a call that reduces.
    pub op: Option<ReduceOp>,
    /// How to combine with an operation that the program made, as it was when the call was made:
    /// the operation may be destroyed before a group or a stream gets to the call.
    pub made: Option<Arc<Combine>>,
    /// Parts of a call whose blocks have different sizes.
    pub parts: Parts,
}

impl Checked {
    /// A call that [`Checked::look`] has not seen yet. It is made where it stays: a copy would cost
    /// a small call more than its checks.
    #[inline(always)]
    pub fn unseen(call: &Call) -> Checked {
        Checked {
            call: *call,
            bytes: 0,
            signature: 0,
            past: 0,
            number: 0,
            op: None,
            made: None,
            parts: None,
        }
    }

    /// With the parts that it consists of.
    pub fn with(self, parts: &[Part]) -> Checked {
        Checked {
            parts: Some(parts.into()),
            ..self
        }
    }

    /// Checks everything that one rank can see.
    ///
    /// # Errors
    /// `InvalidArgument`: the call is not to be made.
    #[inline]
    pub fn look(&mut self, rank: u32, nranks: u32) -> Result<()> {
        let call = &self.call;
        if call.collective == Collective::Barrier && call.count == 0 {
            // Nothing is left to check.
            self.signature = call.signature(0).0;
            return Ok(());
        }
        let mut bytes = checked::bytes(call.count, call.dtype.size_bytes())?;
        let blocks = call.blocks(rank, nranks);
        if call.peer >= nranks
            && (call.collective.has_root() || call.collective.is_point_to_point())
        {
            if call.peer != NO_RANK || call.collective.has_root() {
                return Err(call.bad_peer(nranks));
            }
            // A message without data ends at once.
            bytes = 0;
        }
        if bytes > 0 {
            call.check_buffers(rank, bytes, blocks)?;
        }
        let is_exact = call.is_exact();
        if is_exact {
            call.check_alignment(blocks)?;
        }
        let op = call.check_operation()?;
        self.signature = call.signature(code_of(op, is_exact)).0;
        self.bytes = bytes;
        self.op = op;
        Ok(())
    }

    /// Whether anything is exchanged; a call without data ends at once.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.asked().is_empty()
    }

    /// Collects the facts that decide the route of the call.
    #[inline(always)]
    pub fn asked(&self) -> Asked {
        let combining = match &self.made {
            Some(combine) => Combining::Made {
                commutes: combine.commutes(),
                scaled: combine.is_pre_scaled(),
            },
            None if self.call.is_exact() => Combining::Exact,
            None => Combining::BuiltIn,
        };
        Asked {
            collective: self.call.collective,
            bytes: self.bytes,
            combining,
            has_parts: self.parts.is_some(),
        }
    }

    /// The barrier in which ranks show the signature of this call.
    pub fn shown(&self) -> Checked {
        Checked {
            call: Call {
                collective: Collective::Barrier,
                count: 0,
                ..self.call
            },
            bytes: 0,
            signature: self.signature,
            past: self.past,
            number: self.number,
            op: None,
            made: None,
            parts: None,
        }
    }
}

impl Checked {
    /// Bytes of the send and receive buffer of a rank; 0 for an unused one.
    pub fn buffer_bytes(&self, rank: u32, nranks: u32) -> (usize, usize) {
        let blocks = self.call.blocks(rank, nranks);
        // Both products were checked with the arguments.
        (
            self.bytes * blocks.0 as usize,
            self.bytes * blocks.1 as usize,
        )
    }
}

impl Call {
    /// Blocks (of `count` elements) that this rank's buffers hold; 0 for an unused buffer.
    fn blocks(&self, rank: u32, nranks: u32) -> (u32, u32) {
        // Those of other sizes are checked in `super::vector`.
        self.collective.blocks((rank, self.peer, nranks))
    }

    /// The call, with everything checked that one rank can see.
    pub(in crate::comm) fn check(&self, rank: u32, nranks: u32) -> Result<Checked> {
        let mut checked = Checked::unseen(self);
        checked.look(rank, nranks)?;
        Ok(checked)
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

/// The number of an operation in signatures, unless the program made it.
#[inline(always)]
fn code_of(op: Option<ReduceOp>, is_exact: bool) -> u8 {
    match is_exact {
        true => handles::EXACT_CODE,
        false => op.map_or(0, |op| op as u8),
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
    fn in_place_forms_and_other_overlaps() {
        let ok = |c: Call| assert!(c.check(2, 4).is_ok(), "{c:?}");
        let bad = |c: Call| {
            let error = c.check(2, 4).unwrap_err();
            assert!(error.what.contains("overlap"), "{error}");
        };
        ok(call(Collective::AllReduce, 0x1000, 0x1000, 10));
        bad(call(Collective::AllReduce, 0x1000, 0x1008, 10));
        ok(call(Collective::AllReduce, 0x1000, 0x1050, 10));
        ok(call(Collective::AllGather, 0x1000 + 2 * 80, 0x1000, 10));
        bad(call(Collective::AllGather, 0x1000, 0x1000, 10));
        ok(call(Collective::ReduceScatter, 0x1000, 0x1000 + 2 * 80, 10));
        bad(call(Collective::ReduceScatter, 0x1000, 0x1000, 10));
        bad(call(Collective::AllToAll, 0x1000, 0x1000, 10));
    }

    #[test]
    fn null_overflow_root_and_alignment_are_named() {
        let what = |c: Call| c.check(1, 3).unwrap_err().into_what();
        assert!(what(call(Collective::AllReduce, 0, 0x1000, 1)).contains("send buffer is NULL"));
        assert!(what(call(Collective::AllReduce, 0x1000, 0, 1)).contains("receive buffer is NULL"));
        assert!(
            call(Collective::AllReduce, 0, 0, 0).check(1, 3).is_ok(),
            "count 0 is legal"
        );
        let huge = call(Collective::AllReduce, 0x1000, 0x9000, usize::MAX / 2);
        assert!(what(huge).contains("address space"));
        let blocks = call(Collective::AllGather, 0x1000, 0x9000, usize::MAX / 32);
        assert!(what(blocks).contains("address space"));
        let mut root = call(Collective::Broadcast, 0x1000, 0x1000, 1);
        root.peer = 3;
        assert!(what(root).contains("root 3"));
        let mut odd = call(Collective::AllReduce, 0x1001, 0x2000, 1);
        assert!(odd.check(1, 3).is_ok(), "only exact sums ask for more");
        odd.op = RedOp::SUM_EXACT;
        assert!(what(odd).contains("aligned"));
        let not_root = call(Collective::Reduce, 0x1000, 0, 1);
        assert!(not_root.check(1, 3).is_ok(), "only the root receives");
    }

    #[test]
    fn nobody_is_a_peer_and_no_root() {
        let mut send = call(Collective::Send, 0, 0, 7);
        send.peer = NO_RANK;
        assert!(send.check(1, 3).unwrap().is_empty(), "not even a buffer");
        send.peer = NO_RANK - 1;
        let error = send.check(1, 3).unwrap_err();
        assert!(error.what.contains("peer -2 is not a rank"), "{error}");
        assert!(error.remedy.contains("KOLO_NO_RANK"), "{error}");
        let mut root = call(Collective::Broadcast, 0x1000, 0x1000, 1);
        root.peer = NO_RANK;
        assert!(root.check(1, 3).unwrap_err().what.contains("root -1"));
    }

    #[test]
    fn the_halves_of_an_exchange_are_apart() {
        let half = |collective, place, count, peer| {
            let call = Call {
                peer,
                ..call(collective, place, place, count)
            };
            call.check(1, 3).unwrap()
        };
        let check = |at, count, to, from| {
            let send = half(Collective::Send, 0x1000, 4, to);
            let recv = half(Collective::Recv, at, count, from);
            Call::check_apart(&send, &recv)
        };
        assert!(check(0x1020, 4, 0, 2).is_ok(), "one behind the other");
        assert!(check(0xfe0, 4, 0, 2).is_ok(), "one before the other");
        assert!(check(0xff8, 4, 0, 2).unwrap_err().what.contains("overlap"));
        assert!(check(0x1018, 1, 0, 2).is_err(), "inside");
        assert!(check(0x1000, 4, 0, NO_RANK).is_ok(), "nothing comes");
        assert!(check(0x1000, 0, 0, 2).is_ok(), "nothing comes");
    }

    #[test]
    fn operations_that_do_not_fit_the_type_are_named() {
        let error = |dtype, op| {
            let mut wrong = call(Collective::AllReduce, 0x1000, 0x1000, 1);
            (wrong.dtype, wrong.op) = (dtype, op);
            wrong.check(1, 3).unwrap_err()
        };
        let bad = error(DataType::Complex64, RedOp::MAX);
        assert!(bad.what.contains("max does not combine") && bad.what.contains("complex64"));
        assert!(bad.remedy.contains("complex64 has sum, prod, avg"), "{bad}");
        assert!(bad.remedy.contains("max exists for int8"), "{bad}");
        assert!(
            error(DataType::FloatInt, RedOp::SUM)
                .remedy
                .contains("minloc, maxloc")
        );
        assert!(
            error(DataType::Float64, RedOp(5))
                .what
                .contains("5 is not a reduction")
        );
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
