//! Operations that the program makes and destroys, and how elements combine with them.

use super::handles::{MadeOp, RedOp, cannot_combine, unknown};
use crate::base::{Collective, Error, Result};
use crate::comm::queue::Queue;
use crate::dtype::{Behalf, DataType, Element, ReduceOp, UserCall};
use crate::exec::combine::{Combine, Operator, SendPointer, UserOp};
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Makes a sum whose inputs are multiplied by `scalar` (one element of `dtype`) first. It is
/// local: ranks may use different scalars.
///
/// # Errors
/// `InvalidArgument` if `scalar` is not one element, or the type has no sums.
pub(in crate::comm) fn pre_mul_sum(
    queue: &Arc<Queue>,
    scalar: &[u8],
    dtype: DataType,
) -> Result<RedOp> {
    let mut padded = [0; 16];
    if scalar.len() != dtype.size_bytes() {
        return Err(Error::argument(
            format!("{} bytes are not one {}", scalar.len(), dtype.name()),
            "pass a pointer to one element of the data type",
        ));
    }
    if !ReduceOp::PreMulSum.combines(dtype) {
        return Err(cannot_combine(ReduceOp::PreMulSum, dtype));
    }
    padded[..scalar.len()].copy_from_slice(scalar);
    let scalar = padded;
    make(queue, MadeOp::PreMulSum { dtype, scalar })
}

/// Makes an operation of a function for one element type: `combine(first, second)` writes
/// `first op second` into `second`, element by element. With `commutes` false, contributions
/// are combined in the order of ranks: `((r0 op r1) op r2) ...`, in blocks of elements and
/// perhaps with other brackets (the function must be associative).
///
/// It may be called on any thread that waits in a call of the communicator. All ranks must
/// make it alike. A panic in it ends the process: other ranks wait for the result.
///
/// # Errors
/// The error that stopped the communicator.
pub(in crate::comm) fn user_op<T: Element>(
    queue: &Arc<Queue>,
    commutes: bool,
    combine: impl Fn(&[T], &mut [T]) + Send + Sync + 'static,
) -> Result<RedOp> {
    /// # Safety
    /// `context` is the closure's address; the ranges are as `UserCall` says.
    unsafe extern "C-unwind" fn trampoline<T: Element, F: Fn(&[T], &mut [T])>(
        first: *const c_void,
        second: *mut c_void,
        count: usize,
        _number: i32,
        context: *mut c_void,
    ) {
        // SAFETY: the fold gives ranges of `count` elements that do not overlap, aligned for
        // T (checked with the call); the operation keeps the closure alive.
        let (combine, first, second) = unsafe {
            let first = std::slice::from_raw_parts(first.cast::<T>(), count);
            let second = std::slice::from_raw_parts_mut(second.cast::<T>(), count);
            (&*context.cast_const().cast::<F>(), first, second)
        };
        combine(first, second);
    }
    fn trampoline_of<T: Element, F: Fn(&[T], &mut [T])>(_: &F) -> UserCall {
        trampoline::<T, F>
    }
    let call = trampoline_of::<T, _>(&combine);
    let owner = Arc::new(combine);
    // SAFETY: the closure is `Send` and `Sync`.
    let context = unsafe { SendPointer::new(Arc::as_ptr(&owner).cast_mut().cast()) };
    let op = UserOp {
        call,
        context,
        commutes,
        owner: Some(owner),
    };
    make(queue, MadeOp::User(op, Some(T::DTYPE)))
}

/// Operation of a C function for one data type, or for all; else [`user_op`].
///
/// # Errors
/// The error that stopped the communicator.
///
/// # Safety
/// `call` keeps to [`UserCall`] with this context, on any thread, until the operation is
/// destroyed and all calls that use it have ended.
pub(in crate::comm) unsafe fn user_op_raw(
    queue: &Arc<Queue>,
    commutes: bool,
    call: UserCall,
    context: *mut c_void,
    made_for: Option<DataType>,
) -> Result<RedOp> {
    let op = UserOp {
        call,
        // SAFETY: the promise of the caller.
        context: unsafe { SendPointer::new(context) },
        commutes,
        owner: None,
    };
    make(queue, MadeOp::User(op, made_for))
}

fn make(queue: &Arc<Queue>, op: MadeOp) -> Result<RedOp> {
    let call = match op {
        MadeOp::PreMulSum { .. } => "RedOpCreatePreMulSum",
        MadeOp::User(..) => "RedOpCreateUser",
    };
    queue.alive().map_err(|error| error.during(call))?;
    let number = queue.ops.next.fetch_add(1, Ordering::Relaxed);
    let handle = RedOp::FIRST_DYNAMIC + (number % (1 << 29)) as i32;
    let mut ops = queue
        .ops
        .made
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    ops.insert(handle, op);
    Ok(RedOp(handle))
}

/// Forgets an operation that the program made; calls in flight keep it.
///
/// # Errors
/// `InvalidArgument` if there is no such operation.
pub(in crate::comm) fn destroy_op(queue: &Arc<Queue>, op: RedOp) -> Result<()> {
    let mut ops = queue
        .ops
        .made
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    ops.remove(&op.0).map(|_| ()).ok_or_else(|| {
        let error = Error::argument(
            format!("{} is not an operation made on this communicator", op.0),
            "destroy each operation once, on the communicator that made it",
        );
        queue.tells(error).during("RedOpDestroy")
    })
}

/// How elements combine in a call with what the program made, and its number in signatures.
pub(in crate::comm) fn made_combine(
    queue: &Queue,
    call: Collective,
    op: RedOp,
    dtype: DataType,
) -> Result<(Combine, u8)> {
    let ops = queue
        .ops
        .made
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let made = ops.get(&op.0).ok_or_else(|| unknown(op))?;
    let made_for = match made {
        MadeOp::PreMulSum { dtype, .. } => Some(*dtype),
        MadeOp::User(_, made_for) => *made_for,
    };
    only_for(op, made_for.unwrap_or(dtype), dtype)?;
    let operator = match made {
        MadeOp::PreMulSum { scalar, .. } => Operator::PreMulSum { scalar: *scalar },
        MadeOp::User(user, _) => {
            let (rank, call) = (queue.rank, call.name());
            Operator::Function(user.clone(), Behalf { rank, call })
        }
    };
    Ok((Combine { dtype, operator }, made.code()))
}

fn only_for(op: RedOp, made_for: DataType, dtype: DataType) -> Result<()> {
    if made_for == dtype {
        return Ok(());
    }
    Err(Error::argument(
        format!("operation {} was made for {made_for}, not {dtype}", op.0),
        format!("make an operation for {dtype}, or pass {made_for}"),
    ))
}
