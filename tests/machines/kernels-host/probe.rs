//! Single functions of the kernels, for tests that hold them against the host's.

use kolo::plan::{Step, Window};
use std::ffi::{CStr, c_char};
use std::num::NonZeroU32;

unsafe extern "C" {
    safe fn kolo_probe_layout_hash() -> u64;
    safe fn kolo_probe_modulo(value: i64, by: u32) -> u32;
    fn kolo_probe_chunk(step: *const Step, number: u32, chunks: u32) -> u32;
    fn kolo_probe_region(
        window: *const Window,
        place: i64,
        chunk: u32,
        round: u64,
        slice: u32,
        to: *mut [u64; 2],
    );
    fn kolo_probe_scratch_stride(window: *const Window) -> u64;
    safe fn kolo_probe_name(index: u32) -> *const c_char;
    fn kolo_probe_fold(
        index: u32,
        srcs: *const u64,
        count: u32,
        words: u64,
        to: *mut u64,
        scaled: u64,
        scalar: u64,
        divisor: u32,
    );
}

/// Of all structures that host and kernels share.
pub fn layout_hash() -> u64 {
    kolo_probe_layout_hash()
}

/// The remainder that is not negative.
pub fn modulo(value: i64, by: u32) -> u32 {
    kolo_probe_modulo(value, by)
}

/// The chunk of a repetition or piece of a step.
pub fn chunk(step: &Step, number: u32, chunks: u32) -> u32 {
    // SAFETY: the step has the layout that plan.h asserts.
    unsafe { kolo_probe_chunk(step, number, chunks) }
}

/// Offset and count of a slice: of the input (-1), of the output (-2), or of chunk `place` of the
/// scratch memory.
pub fn region(window: &Window, place: i64, chunk: u32, round: u64, slice: u32) -> (u64, u64) {
    let mut region = [0; 2];
    // SAFETY: the window has the layout that plan.h asserts; a region is two numbers.
    unsafe { kolo_probe_region(window, place, chunk, round, slice, &raw mut region) };
    (region[0], region[1])
}

/// Elements from one chunk of scratch to the next.
pub fn scratch_stride(window: &Window) -> u64 {
    // SAFETY: as above.
    unsafe { kolo_probe_scratch_stride(window) }
}

/// Types and operations with a fold, as "Float_Sum".
pub fn names() -> impl Iterator<Item = String> {
    (0..)
        .map(|index| kolo_probe_name(index))
        .take_while(|name| !name.is_null())
        .map(|name| {
            // SAFETY: names are constants that end with a zero.
            let name = unsafe { CStr::from_ptr(name) };
            name.to_string_lossy().into_owned()
        })
}

/// Folds words of sources that lie one behind the other in `data`; `scaled` has a bit for each
/// source that is multiplied by `scalar`.
///
/// # Panics
/// If the sources are not equally long.
pub fn fold(
    index: u32,
    (data, srcs): (&[u64], usize),
    scaled: u64,
    scalar: u64,
    divisor: Option<NonZeroU32>,
) -> Vec<u64> {
    let words = data.len() / srcs;
    assert_eq!(words * srcs, data.len());
    assert!(names().count() > index as usize);
    let mut to = vec![0; words];
    let divisor = divisor.map_or(0, NonZeroU32::get);
    // SAFETY: `data` holds `srcs` times `words` words, `to` as many as one source.
    unsafe {
        let (srcs, from) = (srcs as u32, data.as_ptr());
        let (words, to) = (words as u64, to.as_mut_ptr());
        kolo_probe_fold(index, from, srcs, words, to, scaled, scalar, divisor);
    }
    to
}
