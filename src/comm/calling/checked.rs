//! A call whose arguments hold: what everything behind the checks works on.

use super::buffers;
use super::call::{Call, NO_RANK};
use super::handles;
use super::parts::{self, Part, Parts};
use super::whole;
use crate::base::{Error, Result, checked};
use crate::dtype::ReduceOp;
use crate::exec::combine::Combine;
use crate::exec::order::SmallOrder;
use crate::plan::Collective;
use crate::tune::{Asked, Called, Combining, OwnBlocks};
use std::sync::Arc;

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

    /// A call with everything checked that one rank can see.
    ///
    /// # Errors
    /// As [`Checked::look`].
    pub fn of(call: &Call, rank: u32, nranks: u32) -> Result<Checked> {
        let mut checked = Checked::unseen(call);
        checked.look(rank, nranks)?;
        Ok(checked)
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
                return Err(buffers::bad_peer(call, nranks));
            }
            // A message without data ends at once.
            bytes = 0;
        }
        if bytes > 0 {
            buffers::check_buffers(call, rank, bytes, blocks)?;
        }
        let is_exact = call.is_exact();
        if is_exact {
            buffers::check_alignment(call, blocks)?;
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

    /// Collects the facts that decide the route of the call, made at once; of its form only those
    /// that need no look at blocks or limbs.
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
            blocks: match &self.parts {
                None => OwnBlocks::Alike,
                Some(_) => OwnBlocks::Unseen,
            },
            whole_bytes: 0,
            called: Called::AtOnce,
        }
    }

    /// Collects all facts that decide the route of the call of one of `nranks` ranks, made so.
    pub fn asked_all(&self, called: Called, nranks: u32) -> Asked {
        let mut asked = self.asked().made(called);
        if let Some(own) = &self.parts {
            asked.blocks = parts::own_blocks(own, self.call.dtype.size_bytes());
        }
        if asked.combining == Combining::Exact {
            asked.whole_bytes = whole::whole_bytes(&self.call, nranks);
        }
        asked
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

    /// Bytes of the send and receive buffer of a rank; 0 for an unused one.
    pub fn buffer_bytes(&self, rank: u32, nranks: u32) -> (usize, usize) {
        let blocks = self.call.blocks(rank, nranks);
        // Both products were checked with the arguments.
        (
            self.bytes * blocks.0 as usize,
            self.bytes * blocks.1 as usize,
        )
    }

    /// How its elements combine.
    pub fn combine(&self) -> Combine {
        match &self.made {
            Some(made) => (**made).clone(),
            None => Combine::built_in(self.call.dtype, self.op),
        }
    }

    /// The call as an engine runs it without a plan.
    #[inline(always)]
    pub fn small(&self) -> SmallOrder {
        let call = &self.call;
        SmallOrder {
            collective: call.collective,
            send: call.send,
            recv: call.recv,
            count: call.count,
            dtype: call.dtype,
            op: self.op,
            signature: self.signature,
            root: call.peer as usize,
        }
    }

    /// Refuses a blocking message to `rank`, this rank itself.
    ///
    /// # Errors
    /// It is one, and has data.
    pub fn refuse_own(&self, rank: u32) -> Result<()> {
        let call = &self.call;
        let to_itself = call.collective.is_point_to_point() && call.peer == rank;
        match to_itself && self.bytes > 0 {
            false => Ok(()),
            true => Err(Error::usage(
                "a blocking message to oneself can never match",
                "put Send and Recv to oneself into one group (GroupStart, GroupEnd), or, in Rust, \
                 into one send_recv or scope",
            )),
        }
    }
}

/// The two halves of a SendRecv must not touch each other's memory: they move at once.
pub(in crate::comm) fn check_apart(send: &Checked, recv: &Checked) -> Result<()> {
    let (out, into) = (send.call.send as usize, recv.call.recv as usize);
    let apart = out + send.bytes <= into || into + recv.bytes <= out;
    if apart || send.bytes == 0 || recv.bytes == 0 {
        return Ok(());
    }
    Err(buffers::overlap(&send.call, 0))
}

/// The number of an operation in signatures, unless the program made it.
#[inline(always)]
fn code_of(op: Option<ReduceOp>, is_exact: bool) -> u8 {
    match is_exact {
        true => handles::EXACT_CODE,
        false => op.map_or(0, |op| op as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::RedOp;
    use crate::dtype::DataType;

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
        let ok = |c: Call| assert!(Checked::of(&c, 2, 4).is_ok(), "{c:?}");
        let bad = |c: Call| {
            let error = Checked::of(&c, 2, 4).unwrap_err();
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
        let what = |c: Call| Checked::of(&c, 1, 3).unwrap_err().into_what();
        assert!(what(call(Collective::AllReduce, 0, 0x1000, 1)).contains("send buffer is NULL"));
        assert!(what(call(Collective::AllReduce, 0x1000, 0, 1)).contains("receive buffer is NULL"));
        assert!(
            Checked::of(&call(Collective::AllReduce, 0, 0, 0), 1, 3).is_ok(),
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
        assert!(
            Checked::of(&odd, 1, 3).is_ok(),
            "only exact sums ask for more"
        );
        odd.op = RedOp::SUM_EXACT;
        assert!(what(odd).contains("aligned"));
        let not_root = call(Collective::Reduce, 0x1000, 0, 1);
        assert!(
            Checked::of(&not_root, 1, 3).is_ok(),
            "only the root receives"
        );
    }

    #[test]
    fn nobody_is_a_peer_and_no_root() {
        let mut send = call(Collective::Send, 0, 0, 7);
        send.peer = NO_RANK;
        assert!(
            Checked::of(&send, 1, 3).unwrap().is_empty(),
            "not even a buffer"
        );
        send.peer = NO_RANK - 1;
        let error = Checked::of(&send, 1, 3).unwrap_err();
        assert!(error.what.contains("peer -2 is not a rank"), "{error}");
        assert!(error.remedy.contains("KOLO_NO_RANK"), "{error}");
        let mut root = call(Collective::Broadcast, 0x1000, 0x1000, 1);
        root.peer = NO_RANK;
        assert!(
            Checked::of(&root, 1, 3)
                .unwrap_err()
                .what
                .contains("root -1")
        );
    }

    #[test]
    fn the_halves_of_an_exchange_are_apart() {
        let half = |collective, place, count, peer| {
            let call = Call {
                peer,
                ..call(collective, place, place, count)
            };
            Checked::of(&call, 1, 3).unwrap()
        };
        let check = |at, count, to, from| {
            let send = half(Collective::Send, 0x1000, 4, to);
            let recv = half(Collective::Recv, at, count, from);
            check_apart(&send, &recv)
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
            Checked::of(&wrong, 1, 3).unwrap_err()
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
}
