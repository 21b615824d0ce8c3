//! Operations that the program supplies: a function that combines two ranges of elements.
//!
//! The function computes `inout[i] = in[i] op inout[i]`, as MPI's do: `in` holds what comes first.
//! It gets blocks of elements in memory of kolo's own, aligned to 16 bytes where it is written to,
//! so that it never sees a slot, and a destination of the fold may be one of its sources.

use crate::base::{Error, Result, quiet};
use crate::dtype::{FoldParams, UserFunction};
use std::cell::Cell;

/// Bytes of a block: two fit the first cache beside the sources.
const BLOCK_BYTES: usize = 8192;

/// Memory for a block.
#[repr(align(64))]
struct Block([u8; BLOCK_BYTES]);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a function of the program that combines elements.
pub fn inside_operation() -> bool {
    INSIDE.get()
}

/// Refuses what waits inside of an operation of the program: what it waits for may be what runs
/// that operation.
///
/// # Errors
/// `InvalidUsage` in a thread that is inside an operation; `what` says what it does there.
pub fn outside_operations(what: &str) -> Result<()> {
    match inside_operation() {
        false => Ok(()),
        true => Err(misuse(format!("an operation of the program {what}"))),
    }
}

/// An operation that calls kolo.
pub fn misuse(what: impl Into<String>) -> Error {
    Error::usage(
        what,
        "an operation must not call kolo: let it combine the elements it is given, and nothing \
         else",
    )
}

/// A function of the program while it runs; forgotten when it returns, dropped when it unwinds.
///
/// There is no result then that the other ranks could get, and nothing of Rust may catch what C++
/// has thrown. So the process ends here, with the sentence that no runtime of a language has.
struct Running<'a>(&'a UserFunction);

impl Drop for Running<'_> {
    #[cold]
    fn drop(&mut self) {
        let behalf = self.0.behalf;
        let (how, remedy) = match std::thread::panicking() {
            // What it panicked with stands above.
            true => (
                "a user operation (Communicator::user_op) panicked",
                "let the operation give a result for every input",
            ),
            false => (
                "the operation of the program has thrown an exception, or ended its thread",
                "let the operation catch its exceptions, and give a result for every input",
            ),
        };
        quiet::tell(&format!(
            "kolo: rank {}: {}: {how}, so this process ends. Remedy: {remedy}",
            behalf.rank, behalf.call
        ));
        // SAFETY: a plain library call; what the program printed tells how far it came.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        std::process::abort();
    }
}

/// The [`FoldFn`](crate::dtype::FoldFn) of operations that the program supplies; `params.user` has
/// the function.
///
/// # Safety
/// Those of [`FoldFn`](crate::dtype::FoldFn); the function keeps to its contract.
pub unsafe fn fold(srcs: &[*const u8], dsts: &[*mut u8], count: usize, params: &FoldParams) {
    let user = params
        .user
        .expect("a fold by a function of the program has one");
    let size = user.element_bytes;
    let per_block = (BLOCK_BYTES / size).max(1);
    let mut blocks = [Block([0; BLOCK_BYTES]), Block([0; BLOCK_BYTES])];
    let mut at = 0;
    while at < count {
        let elements = per_block.min(count - at);
        let (offset, bytes) = (at * size, elements * size);
        let mut sofar = srcs[0].wrapping_add(offset);
        if srcs.len() > 1 && !sofar.cast::<u64>().is_aligned() {
            // A buffer may lie anywhere, but the function may well read whole elements.
            let place = blocks[0].0.as_mut_ptr();
            // SAFETY: the block has `bytes` bytes, and the source too from `offset` on.
            unsafe { place.copy_from_nonoverlapping(sofar, bytes) };
            sofar = place;
        }
        for (number, &next) in srcs.iter().enumerate().skip(1) {
            let place = blocks[number % 2].0.as_mut_ptr();
            // SAFETY: the block has `bytes` bytes, and every source too from `offset` on; the
            // fold so far lies in a source or in the other block.
            unsafe {
                place.copy_from_nonoverlapping(next.add(offset), bytes);
                // An operation may lead to another one, of another communicator.
                let was_inside = INSIDE.replace(true);
                let running = Running(&user);
                (user.call)(
                    sofar.cast(),
                    place.cast(),
                    elements,
                    user.number,
                    user.context,
                );
                std::mem::forget(running);
                INSIDE.set(was_inside);
            }
            sofar = place;
        }
        for &to in dsts {
            // SAFETY: the destination has `bytes` bytes from `offset` on; it may be the only
            // source itself.
            unsafe { to.add(offset).copy_from(sofar, bytes) };
        }
        at += elements;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Collective;
    use crate::dtype::{Behalf, DataType};
    use std::ffi::c_void;

    /// A function that does not commute: the digits of both, one behind the other.
    unsafe extern "C-unwind" fn append(
        first: *const c_void,
        second: *mut c_void,
        count: usize,
        number: i32,
        context: *mut c_void,
    ) {
        assert_eq!(number, DataType::Uint64.number());
        // SAFETY: the test passes a counter and buffers of `count` numbers.
        unsafe {
            *context.cast::<usize>() += count;
            for index in 0..count {
                let (a, b) = (
                    first.cast::<u64>().add(index),
                    second.cast::<u64>().add(index),
                );
                let digits = (*b).checked_ilog10().unwrap_or(0) + 1;
                *b += *a * 10u64.pow(digits);
            }
        }
    }

    #[test]
    fn functions_of_the_program_see_sources_in_order() {
        const COUNT: usize = 5000;
        let srcs: Vec<Vec<u64>> = (1..=4).map(|digit| vec![digit; COUNT]).collect();
        let mut counter = 0usize;
        let user = UserFunction {
            call: append,
            context: (&raw mut counter).cast(),
            number: DataType::Uint64.number(),
            element_bytes: 8,
            behalf: Behalf {
                rank: 0,
                call: Collective::AllReduce.name(),
            },
        };
        let params = FoldParams {
            user: Some(user),
            ..FoldParams::default()
        };
        let mut result = vec![0u64; COUNT];
        let mut second = srcs[1].clone();
        let place = second.as_mut_ptr();
        let sources = [
            srcs[0].as_ptr().cast(),
            place.cast_const().cast(),
            srcs[2].as_ptr().cast(),
        ];
        // SAFETY: all buffers have COUNT elements; one destination is a source.
        unsafe {
            fold(
                &sources,
                &[result.as_mut_ptr().cast(), place.cast()],
                COUNT,
                &params,
            )
        };
        assert!(result.iter().all(|&r| r == 123) && second == result);
        assert_eq!(counter, 2 * COUNT);
        // SAFETY: as above; one source is copied.
        unsafe { fold(&[srcs[3].as_ptr().cast()], &[place.cast()], COUNT, &params) };
        assert!(second.iter().all(|&r| r == 4));
    }
}
