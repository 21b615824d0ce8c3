//! Reductions that a program makes: sums of pre-multiplied elements, and functions of its own.

use crate::comm::null;
use crate::guard::guard_comm;
use crate::seat::Member;
use crate::types::*;
use kolo_core::base::{Error, Result};
use kolo_core::comm::RawCalls;
use kolo_core::comm::RedOp;
use kolo_core::dtype::DataType;
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

/// Numbers of operations whose scalar is read at every call. The core counts its own from 64.
const BY_POINTER_BASE: i32 = 0x4000_0000;
/// More such operations at once are taken for a leak.
const BY_POINTER_LIMIT: usize = 4096;

/// Makes an operation that multiplies every rank's elements by that rank's `*scalar` (of type
/// `datatype`) and sums them. Only for calls on `comm` with the same `datatype`. `residence` says
/// when the scalar is read: before this call returns, or at every call that uses the operation.
/// End it with koloRedOpDestroy.
/// Errors: koloInvalidArgument (handle, NULL, unknown datatype or residence).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloRedOpCreatePreMulSum(
    op: *mut RedOpArg,
    scalar: *const c_void,
    datatype: DataTypeArg,
    residence: ScalarResidenceArg,
    comm: koloComm_t,
) -> koloResult_t {
    guard_comm("RedOpCreatePreMulSum", comm, |member| {
        if op.is_null() {
            return Err(null("op"));
        }
        if scalar.is_null() {
            return Err(null("scalar"));
        }
        let dtype = data_type(datatype)?;
        const IMMEDIATE: i32 = koloScalarResidence_t::koloScalarHostImmediate as i32;
        const DEVICE: i32 = koloScalarResidence_t::koloScalarDevice as i32;
        let made = match residence {
            // SAFETY: kolo.h asks for a readable scalar of this type.
            IMMEDIATE => unsafe { fixed(member, scalar as usize, dtype) }?,
            DEVICE => by_pointer(member, scalar as usize, dtype)?,
            _ => {
                return Err(Error::argument(
                    format!("{residence} is no residence of a scalar"),
                    "give koloScalarDevice or koloScalarHostImmediate",
                ));
            }
        };
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *op = made.0 };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Makes an operation of a function, for all data types: it gets the type of the call and
/// `context`. All ranks must make it alike. With `commute` 0, contributions are combined in the
/// order of ranks (in blocks of elements, perhaps with other brackets: the function must be
/// associative); otherwise in any order that all ranks share. `function` and `context` must live
/// until the operation is destroyed and its calls have ended. The function is called only on
/// threads that are inside a call of kolo, perhaps of another communicator. It must not call kolo:
/// a call on the communicator that runs it is refused, and stops that communicator on all ranks.
/// A function that knows one data type is better made by koloRedOpCreateUserFor.
/// Errors: koloInvalidArgument (handle, NULL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloRedOpCreateUser(
    op: *mut RedOpArg,
    function: koloUserFunction_t,
    context: *mut c_void,
    commute: c_int,
    comm: koloComm_t,
) -> koloResult_t {
    guard_comm("RedOpCreateUser", comm, |member| {
        // SAFETY: kolo.h asks the function for what the core does, and `op` for a place.
        unsafe { make(member, op, (function, context), commute, None) }
    })
}

/// As koloRedOpCreateUser, of a function that knows one data type: calls with another one are
/// errors (koloInvalidArgument) before anything is touched, where the function would run over the
/// ends of the buffers or combine something else.
/// Errors: koloInvalidArgument (handle, NULL, unknown datatype).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloRedOpCreateUserFor(
    op: *mut RedOpArg,
    function: koloUserFunction_t,
    context: *mut c_void,
    commute: c_int,
    datatype: DataTypeArg,
    comm: koloComm_t,
) -> koloResult_t {
    guard_comm("RedOpCreateUserFor", comm, |member| {
        let made_for = Some(data_type(datatype)?);
        // SAFETY: kolo.h asks the function for what the core does, and `op` for a place.
        unsafe { make(member, op, (function, context), commute, made_for) }
    })
}

/// # Safety
/// `op` is NULL or can be written; the function keeps to kolo.h with its context.
unsafe fn make(
    member: &Member,
    op: *mut RedOpArg,
    (function, context): (koloUserFunction_t, *mut c_void),
    commute: c_int,
    made_for: Option<DataType>,
) -> Result<koloResult_t> {
    if op.is_null() {
        return Err(null("op"));
    }
    let function = function.ok_or_else(|| {
        Error::argument(
            "the argument function is NULL",
            "give a function that combines two vectors, as kolo.h shows at koloUserFunction_t",
        )
    })?;
    let communicator = &member.communicator;
    // SAFETY: the caller's promise.
    let made = unsafe { communicator.user_op_raw(commute != 0, function, context, made_for) }?;
    // SAFETY: not null, valid by the caller's promise.
    unsafe { *op = made.0 };
    Ok(koloResult_t::koloSuccess)
}

/// Ends an operation of koloRedOpCreatePreMulSum, koloRedOpCreateUser or koloRedOpCreateUserFor.
/// Calls that use it may still be pending.
/// Errors: koloInvalidArgument (handle, an operation that is built in or not alive on `comm`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloRedOpDestroy(op: RedOpArg, comm: koloComm_t) -> koloResult_t {
    guard_comm("RedOpDestroy", comm, |member| {
        if (0..RedOp::FIRST_DYNAMIC).contains(&op) {
            return Err(Error::argument(
                format!("operation {op} is built in"),
                "destroy only what koloRedOpCreatePreMulSum or koloRedOpCreateUser made",
            ));
        }
        let mut known = member
            .by_pointer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match known.iter().position(|entry| entry.0 == op) {
            Some(index) => drop(known.swap_remove(index)),
            None => {
                drop(known);
                member.communicator.destroy_op(RedOp(op))?;
            }
        }
        Ok(koloResult_t::koloSuccess)
    })
}

/// An operation of the core with the scalar's present value.
///
/// # Safety
/// `scalar` is the address of a readable element of type `dtype`.
pub(crate) unsafe fn fixed(member: &Member, scalar: usize, dtype: DataType) -> Result<RedOp> {
    // SAFETY: the caller's promise; bytes need no alignment.
    let bytes = unsafe { std::slice::from_raw_parts(scalar as *const u8, dtype.size_bytes()) };
    member.communicator.pre_mul_sum(bytes, dtype)
}

fn by_pointer(member: &Member, scalar: usize, dtype: DataType) -> Result<RedOp> {
    let mut known = member
        .by_pointer
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let free = (BY_POINTER_BASE..)
        .take(BY_POINTER_LIMIT)
        .find(|number| known.iter().all(|entry| entry.0 != *number));
    let number = free.ok_or_else(|| {
        Error::usage(
            format!("the communicator has {BY_POINTER_LIMIT} operations alive"),
            "destroy operations with koloRedOpDestroy when they are no longer needed",
        )
    })?;
    known.push((number, scalar, dtype));
    Ok(RedOp(number))
}
