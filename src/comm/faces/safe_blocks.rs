//! The calls of the Rust interface whose blocks have sizes of their own, and those along a graph.
//!
//! As in [`super::safe`], each call is written once and exists blocking and in a scope. Blocks must
//! lie inside the slices; receive blocks must be apart.

use super::lengths::{of_call, require};
use crate::base::{Error, Result};
use crate::comm::calling::edges::Edges;
use crate::comm::calling::vector::BlockCall;
use crate::comm::identity::Identity;
use crate::comm::{Blocks, Collective, RedOp};
use crate::dtype::Element;

/// Slices with their blocks.
pub(in crate::comm) struct Slices<'a, T> {
    pub send: &'a [T],
    pub send_blocks: (Blocks<'a>, usize),
    pub recv: (*mut T, usize),
    pub recv_blocks: (Blocks<'a>, usize),
}

impl<'a, T: Element> Slices<'a, T> {
    /// The description of the call.
    ///
    /// # Errors
    /// Blocks that reach beyond their slice.
    pub fn call(
        self,
        who: &Identity,
        collective: Collective,
        (op, root): (RedOp, u32),
        graph: Option<&'a Edges>,
    ) -> Result<BlockCall<'a>> {
        let sides = [
            ("send", self.send_blocks, self.send.len()),
            ("receive", self.recv_blocks, self.recv.1),
        ];
        for (side, (blocks, number), length) in sides {
            let wanted = of_call(who, collective, blocks.extent(side, number))?;
            if wanted > length {
                let error = Error::argument(
                    format!("the {side} buffer has {length} elements, its blocks end at {wanted}"),
                    "make the buffer as long as its blocks need it",
                );
                return of_call(who, collective, Err(error));
            }
        }
        Ok(BlockCall {
            collective,
            send: self.send.as_ptr().cast(),
            send_blocks: self.send_blocks.0,
            recv: self.recv.0.cast(),
            recv_blocks: self.recv_blocks.0,
            dtype: T::DTYPE,
            op,
            root,
            graph,
        })
    }
}

/// Equal blocks that fill a slice.
pub(in crate::comm) fn equal(
    who: &Identity,
    (side, length): (&str, usize),
    number: usize,
) -> Result<Blocks<'static>> {
    let count = length.checked_div(number).unwrap_or(0);
    of_call(
        who,
        Collective::NeighborAllToAll,
        require(side, length, count * number),
    )?;
    Ok(Blocks::Equal(count))
}

/// The calls that exist both blocking and in a scope, once: `run_blocks` says how.
macro_rules! block_calls {
    ($([$life:lifetime])?) => {
        /// Every rank gets all inputs: that of rank r in block r of `recv`.
        ///
        /// # Errors
        /// Blocks outside of `recv`, another size of the own block than of `send`; see
        /// [`RawCalls::enqueue_vector`](crate::comm::RawCalls::enqueue_vector).
        pub fn all_gather_v<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], blocks: Blocks,
        ) -> Result<()> {
            let n = self.queue().nranks as usize;
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (Blocks::Equal(send.len()), 1),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (blocks, n),
            };
            let call = slices.call(self.queue(), Collective::AllGatherV, (RedOp::SUM, 0), None)?;
            self.run_blocks(&call)
        }

        /// The root gets all inputs, that of rank r in block r of `recv`; `recv` and `blocks` of
        /// the others are not used.
        ///
        /// # Errors
        /// As [`Self::all_gather_v`].
        pub fn gather_v<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], blocks: Blocks, root: u32,
        ) -> Result<()> {
            let here = self.queue().rank == root;
            let n = if here { self.queue().nranks as usize } else { 0 };
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (Blocks::Equal(send.len()), 1),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (blocks, n),
            };
            let call = slices.call(self.queue(), Collective::GatherV, (RedOp::SUM, root), None)?;
            self.run_blocks(&call)
        }

        /// Rank r gets block r of the root's `send`; `send` and `blocks` of the others are not
        /// used.
        ///
        /// # Errors
        /// As [`Self::all_gather_v`].
        pub fn scatter_v<T: Element>(
            &self, send: &$($life)? [T], blocks: Blocks, recv: &$($life)? mut [T], root: u32,
        ) -> Result<()> {
            let here = self.queue().rank == root;
            let n = if here { self.queue().nranks as usize } else { 0 };
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (blocks, n),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (Blocks::Equal(recv.len()), 1),
            };
            let call = slices.call(self.queue(), Collective::ScatterV, (RedOp::SUM, root), None)?;
            self.run_blocks(&call)
        }

        /// Rank r gets block r of the fold; block r has `counts[r]` elements, one block behind the
        /// other.
        ///
        /// # Errors
        /// As [`Self::all_gather_v`].
        pub fn reduce_scatter_v<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], counts: &[usize], op: RedOp,
        ) -> Result<()> {
            let n = self.queue().nranks as usize;
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (Blocks::Packed(counts), n),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (Blocks::Equal(recv.len()), 1),
            };
            let call = slices.call(self.queue(), Collective::ReduceScatterV, (op, 0), None)?;
            self.run_blocks(&call)
        }

        /// Block p of `send` goes to rank p, block p of `recv` comes from rank p.
        ///
        /// # Errors
        /// As [`Self::all_gather_v`].
        pub fn all_to_all_v<T: Element>(
            &self,
            send: &$($life)? [T],
            send_blocks: Blocks,
            recv: &$($life)? mut [T],
            recv_blocks: Blocks,
        ) -> Result<()> {
            let n = self.queue().nranks as usize;
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (send_blocks, n),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (recv_blocks, n),
            };
            let call = slices.call(self.queue(), Collective::AllToAllV, (RedOp::SUM, 0), None)?;
            self.run_blocks(&call)
        }

        /// Block i of `recv` is the input of source i of the graph; all inputs have one size.
        /// Blocks of missing neighbours are not touched.
        ///
        /// # Errors
        /// Slices that do not fit the graph; those of every call.
        pub fn neighbor_all_gather<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], graph: &Graph,
        ) -> Result<()> {
            let (_, ins) = graph.degrees();
            let collective = Collective::NeighborAllGather;
            require_in(self.queue(), collective, "receive", recv.len(), send.len() * ins)?;
            let blocks = Blocks::Equal(send.len());
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (blocks, 1),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (blocks, ins),
            };
            let none = (RedOp::SUM, 0);
            let call = slices.call(self.queue(), collective, none, Some(graph))?;
            self.run_blocks(&call)
        }

        /// [`Self::neighbor_all_gather`] with inputs of different sizes.
        ///
        /// # Errors
        /// As [`Self::all_gather_v`].
        pub fn neighbor_all_gather_v<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], blocks: Blocks, graph: &Graph,
        ) -> Result<()> {
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (Blocks::Equal(send.len()), 1),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (blocks, graph.degrees().1),
            };
            let none = (RedOp::SUM, 0);
            let collective = Collective::NeighborAllGatherV;
            let call = slices.call(self.queue(), collective, none, Some(graph))?;
            self.run_blocks(&call)
        }

        /// Block i of `send` goes to destination i of the graph, block i of `recv` comes from
        /// source i; all blocks have one size.
        ///
        /// # Errors
        /// Slices that do not fit the graph; those of every call.
        pub fn neighbor_all_to_all<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], graph: &Graph,
        ) -> Result<()> {
            let (outs, ins) = graph.degrees();
            let comm = self.queue();
            let equal = |side, number| $crate::comm::faces::safe_blocks::equal(comm, side, number);
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (equal(("send", send.len()), outs)?, outs),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (equal(("receive", recv.len()), ins)?, ins),
            };
            let none = (RedOp::SUM, 0);
            let call = slices.call(self.queue(), Collective::NeighborAllToAll, none, Some(graph))?;
            self.run_blocks(&call)
        }

        /// [`Self::neighbor_all_to_all`] with blocks of different sizes.
        ///
        /// # Errors
        /// As [`Self::all_gather_v`].
        pub fn neighbor_all_to_all_v<T: Element>(
            &self,
            send: &$($life)? [T],
            send_blocks: Blocks,
            recv: &$($life)? mut [T],
            recv_blocks: Blocks,
            graph: &Graph,
        ) -> Result<()> {
            let (outs, ins) = graph.degrees();
            let slices = $crate::comm::faces::safe_blocks::Slices {
                send,
                send_blocks: (send_blocks, outs),
                recv: (recv.as_mut_ptr(), recv.len()),
                recv_blocks: (recv_blocks, ins),
            };
            let none = (RedOp::SUM, 0);
            let call = slices.call(self.queue(), Collective::NeighborAllToAllV, none, Some(graph))?;
            self.run_blocks(&call)
        }
    };
}
pub(in crate::comm) use block_calls;
