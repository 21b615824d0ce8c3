//! Calls by pointers and counts: what the bindings to other languages are made of.

use crate::base::{Error, Result};
use crate::bootstrap::Bootstrap;
use crate::comm::calling::call::Call;
use crate::comm::calling::query::Way;

use crate::comm::calling::vector::{BlockCall, Blocks};
use crate::comm::calling::{enqueue, group, query, redop, sum, vector};
use crate::comm::flight::stream::Stream;
use crate::comm::start::{init, joining};
use crate::comm::{Collective, CommConfig, Communicator, Graph, IdleHook, RedOp};
use crate::dtype::exact::{ExactSum, Summand, View};
use crate::dtype::{DataType, UserCall};
use std::ffi::c_void;

/// A call of blocks as its caller asked for it; see the C functions of the same names. Buffers that
/// the collective does not use on this rank are not looked at.
#[derive(Clone, Copy)]
pub struct VectorCall<'a> {
    /// Which operation.
    pub collective: Collective,
    /// Where data is.
    pub send: *const u8,
    /// The blocks of it.
    pub send_blocks: Blocks<'a>,
    /// Where data goes.
    pub recv: *mut u8,
    /// The blocks of it.
    pub recv_blocks: Blocks<'a>,
    /// Type of the elements.
    pub dtype: DataType,
    /// Operation, where the call reduces.
    pub op: RedOp,
    /// Root, where there is one.
    pub root: u32,
    /// The graph, for calls along one.
    pub graph: Option<&'a Graph>,
}

impl<'a> VectorCall<'a> {
    fn of_blocks(&self) -> BlockCall<'a> {
        BlockCall {
            collective: self.collective,
            send: self.send,
            send_blocks: self.send_blocks,
            recv: self.recv,
            recv_blocks: self.recv_blocks,
            dtype: self.dtype,
            op: self.op,
            root: self.root,
            graph: self.graph.map(|graph| &**graph),
        }
    }
}

/// Calls that say by pointers where data is. Nothing but bindings and tests need them.
#[doc(hidden)]
pub trait RawCalls {
    /// Joins over a bootstrap that exists already. Callers that wait call `idle` now and then, so
    /// that the MPI of the program makes progress too.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    fn init_bootstrap_with_idle(
        bootstrap: Box<dyn Bootstrap>,
        config: &CommConfig,
        idle: Option<IdleHook>,
    ) -> Result<Self>
    where
        Self: Sized;

    /// Joins over a bootstrap that exists already, such as an MPI communicator's.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`].
    fn init_bootstrap(bootstrap: Box<dyn Bootstrap>, config: &CommConfig) -> Result<Self>
    where
        Self: Sized;

    /// An error of a call on it, with rank, name, and where it is wanted the place of the call.
    fn tells(&self, error: Error) -> Error;

    /// Refuses to end a communicator whose calls the open group of this thread has not begun:
    /// nobody would hear that they never ran.
    ///
    /// # Errors
    /// `InvalidUsage` with their number.
    fn none_waits(&self) -> Result<()>;

    /// Runs one call, or begins it.
    ///
    /// Without stream and outside of a group it returns when the result is in place. Inside a
    /// group it only takes the call down; on a stream it begins it, in the order of the stream.
    ///
    /// # Errors
    /// `InvalidArgument` and `InvalidUsage` before anything is touched; `RemoteError` when a rank
    /// died or aborted; `Timeout` after `KOLO_TIMEOUT`. After an error of the last two kinds the
    /// communicator answers only abort, destroy and queries.
    ///
    /// # Safety
    /// The buffers hold what the call says, and nobody else touches them until it has ended.
    unsafe fn enqueue(&self, call: &Call, stream: Option<&Stream>) -> Result<()>;

    /// Sends and receives at once, as `MPI_Sendrecv` does: neither message waits for the other.
    /// The peers may be the same, different ones, this rank, or [`crate::comm::NO_RANK`].
    ///
    /// # Errors
    /// Those of [`RawCalls::enqueue`]; buffers that overlap.
    ///
    /// # Safety
    /// The promise of [`RawCalls::enqueue`], for both.
    unsafe fn enqueue_exchange(
        &self,
        send: &Call,
        recv: &Call,
        stream: Option<&Stream>,
    ) -> Result<()>;

    /// Enqueues a call whose blocks have sizes of their own or go along a graph. An in-place form:
    /// the own block of an all-gather, gather or scatter (and of reduce-scatter) may be the same
    /// memory on both sides.
    ///
    /// # Errors
    /// Those of [`RawCalls::enqueue`], and sizes that are too large, blocks that overlap, numbers
    /// of blocks that are not those of ranks or neighbours.
    ///
    /// # Safety
    /// The promise of [`RawCalls::enqueue`].
    unsafe fn enqueue_vector(&self, call: &VectorCall<'_>, stream: Option<&Stream>) -> Result<()>;

    /// [`Communicator::sum_exact`] of an array with gaps, as far as its mask selects it.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`].
    fn sum_exact_view<T: Summand>(&self, view: &View<'_, T>) -> Result<T>;

    /// [`Communicator::sum_exact`] of terms that were added before.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`].
    fn sum_exact_of<T: Summand>(&self, sum: &ExactSum<T>) -> Result<T>;

    /// Several independent sums in one call, which costs little more than one: mass and energy of
    /// a model, or real and imaginary part. All ranks pass the same number of sums.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`], and if `values` has another length.
    fn sums_exact_of<T: Summand>(&self, sums: &[ExactSum<T>], values: &mut [T]) -> Result<()>;

    /// How a call of `count` elements would go, whatever its buffers: the same way on all ranks, by
    /// the form of a blocking call of this one. Nothing is sent, and no call is counted.
    ///
    /// # Errors
    /// That of the call itself, if no rank may make it with these arguments; the error that stopped
    /// the communicator; `InvalidUsage` while another thread is inside a call of it.
    fn way(&self, collective: Collective, count: usize, dtype: DataType, op: RedOp) -> Result<Way>;

    /// How a send and a receive of `count` elements each would go, by one call: as
    /// [`RawCalls::way`].
    ///
    /// # Errors
    /// Those of [`RawCalls::way`].
    fn way_of_both(&self, count: usize, dtype: DataType) -> Result<Way>;

    /// Makes a sum whose inputs are multiplied by `scalar` (one element of `dtype`) first. It is
    /// local: ranks may use different scalars.
    ///
    /// # Errors
    /// `InvalidArgument` if `scalar` is not one element, or the type has no sums.
    fn pre_mul_sum(&self, scalar: &[u8], dtype: DataType) -> Result<RedOp>;

    /// Operation of a C function for one data type, or for all; else [`Communicator::user_op`].
    ///
    /// # Errors
    /// The error that stopped the communicator.
    ///
    /// # Safety
    /// `call` keeps to [`UserCall`] with this context, on any thread, until the operation is
    /// destroyed and all calls that use it have ended.
    unsafe fn user_op_raw(
        &self,
        commutes: bool,
        call: UserCall,
        context: *mut c_void,
        made_for: Option<DataType>,
    ) -> Result<RedOp>;
}

impl RawCalls for Communicator {
    fn init_bootstrap_with_idle(
        bootstrap: Box<dyn Bootstrap>,
        config: &CommConfig,
        idle: Option<IdleHook>,
    ) -> Result<Communicator> {
        joining::over_program(&*bootstrap, config, idle).map(Communicator::of)
    }

    fn init_bootstrap(bootstrap: Box<dyn Bootstrap>, config: &CommConfig) -> Result<Communicator> {
        joining::over(&*bootstrap, config, init::Means::default()).map(Communicator::of)
    }

    fn tells(&self, error: Error) -> Error {
        self.queue.tells(error)
    }

    fn none_waits(&self) -> Result<()> {
        group::none_waits(&self.queue)
    }

    #[inline(always)]
    unsafe fn enqueue(&self, call: &Call, stream: Option<&Stream>) -> Result<()> {
        // SAFETY: the promise of the caller.
        unsafe { enqueue::enqueue(&self.queue, call, stream) }
    }

    unsafe fn enqueue_exchange(
        &self,
        send: &Call,
        recv: &Call,
        stream: Option<&Stream>,
    ) -> Result<()> {
        // SAFETY: the promise of the caller.
        unsafe { enqueue::enqueue_exchange(&self.queue, send, recv, stream) }
    }

    unsafe fn enqueue_vector(&self, call: &VectorCall<'_>, stream: Option<&Stream>) -> Result<()> {
        // SAFETY: the promise of the caller.
        unsafe { vector::enqueue_vector(&self.queue, &call.of_blocks(), stream) }
    }

    fn sum_exact_view<T: Summand>(&self, view: &View<'_, T>) -> Result<T> {
        sum::sum_exact_view(&self.queue, view)
    }

    fn sum_exact_of<T: Summand>(&self, sum: &ExactSum<T>) -> Result<T> {
        sum::sum_exact_of(&self.queue, sum)
    }

    fn sums_exact_of<T: Summand>(&self, sums: &[ExactSum<T>], values: &mut [T]) -> Result<()> {
        sum::sums_exact_of(&self.queue, sums, values)
    }

    fn way(&self, collective: Collective, count: usize, dtype: DataType, op: RedOp) -> Result<Way> {
        query::way(&self.queue, collective, count, dtype, op)
    }

    fn way_of_both(&self, count: usize, dtype: DataType) -> Result<Way> {
        query::way_of_both(&self.queue, count, dtype)
    }

    fn pre_mul_sum(&self, scalar: &[u8], dtype: DataType) -> Result<RedOp> {
        redop::pre_mul_sum(&self.queue, scalar, dtype)
    }

    unsafe fn user_op_raw(
        &self,
        commutes: bool,
        call: UserCall,
        context: *mut c_void,
        made_for: Option<DataType>,
    ) -> Result<RedOp> {
        // SAFETY: the promise of the caller.
        unsafe { redop::user_op_raw(&self.queue, commutes, call, context, made_for) }
    }
}
