//! The Rust interface: generic over element types, with slices instead of pointers and counts.
//!
//! Blocking calls borrow their buffers for the call. Asynchronous calls live in a [`Scope`], which
//! borrows their buffers until all of them have ended, as `std::thread::scope` does for threads:
//!
//! ```
//! # use kolo::comm::{CommConfig, Communicator, RedOp};
//! # let comm = Communicator::init_all(1, &CommConfig::default()).unwrap().remove(0);
//! let send = [1.0f64, 2.0];
//! let mut sums = [0.0; 2];
//! comm.scope(|scope| scope.all_reduce(&send, &mut sums, RedOp::SUM)).unwrap();
//! assert_eq!(sums, send, "one rank alone");
//! ```
//!
//! A buffer that is still in use cannot be touched:
//!
//! ```compile_fail,E0502
//! # use kolo::comm::{CommConfig, Communicator, RedOp};
//! # let comm = Communicator::init_all(1, &CommConfig::default()).unwrap().remove(0);
//! let send = [1.0f64, 2.0];
//! let mut sums = [0.0; 2];
//! comm.scope(|scope| {
//!     scope.all_reduce(&send, &mut sums, RedOp::SUM)?;
//!     println!("{}", sums[0]); // the call may not have ended: this does not compile
//!     scope.barrier()
//! }).unwrap();
//! ```
//!
//! Nor can it be freed before the scope ends:
//!
//! ```compile_fail,E0597
//! # use kolo::comm::{CommConfig, Communicator, RedOp};
//! # let comm = Communicator::init_all(1, &CommConfig::default()).unwrap().remove(0);
//! let mut sums = [0.0; 2];
//! comm.scope(|scope| {
//!     let send = [1.0f64, 2.0]; // lives shorter than the call: this does not compile
//!     scope.all_reduce(&send, &mut sums, RedOp::SUM)
//! }).unwrap();
//! ```

use crate::base::{Error, Result};
use crate::comm::calling::vector::BlockCall;
use crate::comm::queue::Queue;
use crate::comm::{Call, Collective, RedOp, Stream};
use crate::dtype::Element;

/// Builds the description of a call.
pub(in crate::comm) fn call<T: Element>(
    collective: Collective,
    send: &[T],
    recv: *mut T,
    count: usize,
    (op, peer): (RedOp, u32),
) -> Call {
    let send = send.as_ptr().cast();
    Call {
        collective,
        send,
        recv: recv.cast(),
        count,
        dtype: T::DTYPE,
        op,
        peer,
    }
}

/// An error inside a group, where a call returns before its buffers are free.
pub(in crate::comm) fn outside_groups() -> Result<()> {
    if crate::comm::calling::group::active() {
        return Err(Error::usage(
            "a safe call inside a group could outlive its buffers",
            "use Communicator::scope for calls that progress together",
        ));
    }
    Ok(())
}

/// The calls that exist both blocking and in a scope, once: `run` says how.
macro_rules! calls {
    ($([$life:lifetime])?) => {
        /// Every rank gets the fold of all inputs.
        ///
        /// # Errors
        /// Slices of different lengths; those of every call.
        pub fn all_reduce<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], op: RedOp,
        ) -> Result<()> {
            require_in(self.queue(), Collective::AllReduce, "receive", recv.len(), send.len())?;
            self.run(&call(Collective::AllReduce, send, recv.as_mut_ptr(), send.len(), (op, 0)))
        }

        /// [`Self::all_reduce`] in place.
        ///
        /// # Errors
        /// Those of every call ([`Communicator`]).
        pub fn all_reduce_in_place<T: Element>(
            &self, data: &$($life)? mut [T], op: RedOp,
        ) -> Result<()> {
            let place = data.as_mut_ptr();
            self.run(&call(Collective::AllReduce, data, place, data.len(), (op, 0)))
        }

        /// Every rank gets the root's data.
        ///
        /// # Errors
        /// Those of every call ([`Communicator`]).
        pub fn broadcast<T: Element>(&self, data: &$($life)? mut [T], root: u32) -> Result<()> {
            let (place, op) = (data.as_mut_ptr(), RedOp::SUM);
            self.run(&call(Collective::Broadcast, data, place, data.len(), (op, root)))
        }

        /// The root gets the fold of all inputs; the other ranks' `recv` is not touched and may be
        /// empty.
        ///
        /// # Errors
        /// Slices of different lengths at the root; those of every call.
        pub fn reduce<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], op: RedOp, root: u32,
        ) -> Result<()> {
            if self.queue().rank == root {
                require_in(self.queue(), Collective::Reduce, "receive", recv.len(), send.len())?;
            }
            let place = recv.as_mut_ptr();
            self.run(&call(Collective::Reduce, send, place, send.len(), (op, root)))
        }

        /// Every rank gets all inputs in rank order: `recv` has `nranks * send.len()` elements.
        ///
        /// # Errors
        /// Slices of wrong lengths; those of every call.
        pub fn all_gather<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T],
        ) -> Result<()> {
            let all = send.len() * self.queue().nranks as usize;
            require_in(self.queue(), Collective::AllGather, "receive", recv.len(), all)?;
            let place = recv.as_mut_ptr();
            self.run(&call(Collective::AllGather, send, place, send.len(), (RedOp::SUM, 0)))
        }

        /// Rank r gets block r of the fold: `send` has `nranks * recv.len()` elements.
        ///
        /// # Errors
        /// Slices of wrong lengths; those of every call.
        pub fn reduce_scatter<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], op: RedOp,
        ) -> Result<()> {
            let all = recv.len() * self.queue().nranks as usize;
            require_in(self.queue(), Collective::ReduceScatter, "send", send.len(), all)?;
            let (place, count) = (recv.as_mut_ptr(), recv.len());
            self.run(&call(Collective::ReduceScatter, send, place, count, (op, 0)))
        }

        /// Block p of `send` goes to rank p, block p of `recv` comes from rank p.
        ///
        /// # Errors
        /// Slices of different lengths, or not a multiple of the ranks; those of
        /// every call.
        pub fn all_to_all<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T],
        ) -> Result<()> {
            require_in(self.queue(), Collective::AllToAll, "receive", recv.len(), send.len())?;
            let count = share(self.queue(), Collective::AllToAll, send.len())?;
            let place = recv.as_mut_ptr();
            self.run(&call(Collective::AllToAll, send, place, count, (RedOp::SUM, 0)))
        }

        /// The root gets all inputs in rank order; the other ranks' `recv` may be empty.
        ///
        /// # Errors
        /// Slices of wrong lengths; those of every call.
        pub fn gather<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], root: u32,
        ) -> Result<()> {
            if self.queue().rank == root {
                let all = send.len() * self.queue().nranks as usize;
                require_in(self.queue(), Collective::Gather, "receive", recv.len(), all)?;
            }
            let place = recv.as_mut_ptr();
            self.run(&call(Collective::Gather, send, place, send.len(), (RedOp::SUM, root)))
        }

        /// Rank r gets block r of the root; the other ranks' `send` may be empty.
        ///
        /// # Errors
        /// Slices of wrong lengths; those of every call.
        pub fn scatter<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], root: u32,
        ) -> Result<()> {
            if self.queue().rank == root {
                let all = recv.len() * self.queue().nranks as usize;
                require_in(self.queue(), Collective::Scatter, "send", send.len(), all)?;
            }
            let (place, count) = (recv.as_mut_ptr(), recv.len());
            self.run(&call(Collective::Scatter, send, place, count, (RedOp::SUM, root)))
        }

        /// Rank r gets the fold of the inputs of ranks 0 to r.
        ///
        /// # Errors
        /// Slices of different lengths; an average; those of every call.
        pub fn scan<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], op: RedOp,
        ) -> Result<()> {
            require_in(self.queue(), Collective::Scan, "receive", recv.len(), send.len())?;
            self.run(&call(Collective::Scan, send, recv.as_mut_ptr(), send.len(), (op, 0)))
        }

        /// Rank r gets the fold of the inputs of ranks 0 to r - 1; `recv` of rank 0 is not touched
        /// and may be empty.
        ///
        /// # Errors
        /// Slices of different lengths; an average; those of every call.
        pub fn exscan<T: Element>(
            &self, send: &$($life)? [T], recv: &$($life)? mut [T], op: RedOp,
        ) -> Result<()> {
            if self.queue().rank > 0 {
                require_in(self.queue(), Collective::Exscan, "receive", recv.len(), send.len())?;
            }
            self.run(&call(Collective::Exscan, send, recv.as_mut_ptr(), send.len(), (op, 0)))
        }

        /// [`Self::scan`] in place.
        ///
        /// # Errors
        /// An average; those of every call.
        pub fn scan_in_place<T: Element>(
            &self, data: &$($life)? mut [T], op: RedOp,
        ) -> Result<()> {
            let place = data.as_mut_ptr();
            self.run(&call(Collective::Scan, data, place, data.len(), (op, 0)))
        }

        /// [`Self::exscan`] in place; the data of rank 0 stays.
        ///
        /// # Errors
        /// An average; those of every call.
        pub fn exscan_in_place<T: Element>(
            &self, data: &$($life)? mut [T], op: RedOp,
        ) -> Result<()> {
            let place = data.as_mut_ptr();
            self.run(&call(Collective::Exscan, data, place, data.len(), (op, 0)))
        }

        /// Sends to one peer, which receives as many elements; [`NO_RANK`](crate::NO_RANK) is
        /// nobody.
        ///
        /// It may wait until the peer receives: two ranks that both send first may wait for each
        /// other. Use [`Self::send_recv`] or a [`Communicator::scope`] to exchange.
        ///
        /// # Errors
        /// Those of every call ([`Communicator`]).
        pub fn send<T: Element>(&self, data: &$($life)? [T], peer: u32) -> Result<()> {
            let none = std::ptr::null_mut();
            self.run(&call(Collective::Send, data, none, data.len(), (RedOp::SUM, peer)))
        }

        /// Receives from one peer; from [`NO_RANK`](crate::NO_RANK) nothing comes.
        ///
        /// # Errors
        /// Those of every call ([`Communicator`]).
        pub fn recv<T: Element>(&self, data: &$($life)? mut [T], peer: u32) -> Result<()> {
            let (place, count) = (data.as_mut_ptr(), data.len());
            self.run(&call(Collective::Recv, &[] as &[T], place, count, (RedOp::SUM, peer)))
        }

        /// Sends `send` to rank `to` and receives `recv` from rank `from` at once: a shift along a
        /// line of ranks, an exchange of two. [`NO_RANK`](crate::NO_RANK) is a neighbour that is
        /// not there.
        ///
        /// # Errors
        /// Those of every call ([`Communicator`]).
        pub fn send_recv<T: Element>(
            &self, send: &$($life)? [T], to: u32, recv: &$($life)? mut [T], from: u32,
        ) -> Result<()> {
            let (none, op) = (std::ptr::null_mut(), RedOp::SUM);
            let out = call(Collective::Send, send, none, send.len(), (op, to));
            let (place, count) = (recv.as_mut_ptr(), recv.len());
            let into = call(Collective::Recv, &[] as &[T], place, count, (op, from));
            self.run_exchange(&out, &into)
        }

        /// Nobody leaves before everybody has entered.
        ///
        /// # Errors
        /// Those of every call ([`Communicator`]).
        pub fn barrier(&self) -> Result<()> {
            let none = std::ptr::null_mut();
            self.run(&call::<u8>(Collective::Barrier, &[], none, 0, (RedOp::SUM, 0)))
        }
    };
}
pub(in crate::comm) use calls;

/// Waits when it goes, also where a panic ends a scope: buffers that are only borrowed must not be
/// freed before.
pub(in crate::comm) struct ScopeEnd<'a>(pub &'a Stream);

impl Drop for ScopeEnd<'_> {
    fn drop(&mut self) {
        // The error, if any, is reported by the other wait; this one is for panics.
        let _ = self.0.synchronize();
    }
}

/// Runs the calls of the macros above: at once, or on the stream of a scope.
pub(in crate::comm) trait RunsCalls {
    /// The communicator of the calls.
    fn queue(&self) -> &Queue;
    /// Runs a call.
    fn run(&self, call: &Call) -> Result<()>;
    /// Runs a call of blocks.
    fn run_blocks(&self, call: &BlockCall) -> Result<()>;
    /// Sends and receives side by side.
    fn run_exchange(&self, send: &Call, recv: &Call) -> Result<()>;
}
