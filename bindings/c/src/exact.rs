//! Exact sums of local arrays.

use crate::comm::null;
use crate::group::refuse_group;
use crate::guard::guard_comm;
use crate::types::*;
use kolo_core::base::{Error, Result};
use kolo_core::comm::Communicator;
use kolo_core::comm::RawCalls;
use kolo_core::dtype::DataType;
use kolo_core::dtype::exact::{Dimension, ExactSum, MOST_DIMENSIONS, Mask, Summand, View};
use std::ffi::{c_int, c_uchar, c_void};

/// Runs `body` as the exported function `kolo<name>`.
fn sum(
    name: &'static str,
    comm: koloComm_t,
    mut body: impl FnMut(&Communicator) -> Result<()>,
) -> koloResult_t {
    let code = guard_comm(name, comm, |member| {
        body(&member.communicator).map(|()| koloResult_t::koloSuccess)
    });
    if code != koloResult_t::koloSuccess {
        refuse_group();
    }
    code
}

/// Sums `count` elements, or those whose mask is not zero.
///
/// # Safety
/// `local` and `mask` (if it is not absent) have `count` elements; `result` has one.
unsafe fn sum_line<T: Summand>(
    communicator: &Communicator,
    local: *const T,
    mask: Option<*const c_uchar>,
    count: usize,
    result: *mut T,
) -> Result<()> {
    let line = Line {
        extents: &[count],
        strides: None,
        mask_strides: None,
    };
    let mask = mask.map(|mask| (mask.cast(), 1));
    // SAFETY: passed on.
    unsafe { sum_array::<T, 1>(communicator, local, line, mask, result) }
}

/// Extents, and distances in bytes where they are not those of a packed array.
struct Line<'a> {
    extents: &'a [usize],
    strides: Option<&'a [isize]>,
    mask_strides: Option<&'a [isize]>,
}

impl Line<'_> {
    /// Writes the dimensions to `place`, and gives them back.
    fn dimensions<'a>(
        &self,
        (element_bytes, entry_bytes): (usize, usize),
        place: &'a mut [Dimension; MOST_DIMENSIONS],
    ) -> Result<&'a [Dimension]> {
        let mut dense = 1usize;
        let place = &mut place[..self.extents.len()];
        for (at, (dimension, &extent)) in place.iter_mut().zip(self.extents).enumerate() {
            let packed = |bytes: usize| (dense * bytes) as isize;
            *dimension = Dimension {
                extent,
                stride: self.strides.map_or(packed(element_bytes), |s| s[at]),
                mask_stride: self.mask_strides.map_or(packed(entry_bytes), |s| s[at]),
            };
            dense = dense
                .checked_mul(extent)
                .filter(|all| all.checked_mul(element_bytes.max(entry_bytes)).is_some())
                .ok_or_else(|| {
                    Error::argument(
                        "the extents do not fit into the address space",
                        "check them (is one an uninitialised or negative number?)",
                    )
                })?;
        }
        Ok(place)
    }
}

/// Sums each part of the elements of an array.
///
/// # Safety
/// As [`koloSumExactArray`].
unsafe fn sum_array<T: Summand, const PARTS: usize>(
    communicator: &Communicator,
    first: *const T,
    line: Line,
    mask: Option<(*const c_void, usize)>,
    result: *mut T,
) -> Result<()> {
    let entry_bytes = mask.map_or(0, |mask| mask.1);
    let mut place = [Dimension::default(); MOST_DIMENSIONS];
    let dimensions = line.dimensions((PARTS * size_of::<T>(), entry_bytes), &mut place)?;
    let elements: usize = line.extents.iter().product();
    if result.is_null() {
        return Err(null("result"));
    }
    if elements > 0 && first.is_null() {
        return Err(null("the array"));
    }
    if elements > 0 && mask.is_some_and(|mask| mask.0.is_null()) {
        return Err(null("mask"));
    }
    let mask = mask.map(|(first, entry_bytes)| Mask {
        first: first.cast(),
        entry_bytes,
    });
    let mut sums = [const { ExactSum::<T>::new() }; PARTS];
    for (part, sum) in sums.iter_mut().enumerate() {
        if elements > 0 {
            // SAFETY: the caller promises all elements, each of `PARTS` numbers, and the mask.
            sum.add_view(&unsafe { View::new(first.wrapping_add(part), dimensions, mask) });
        }
    }
    let mut values = [T::from_raw(0); PARTS];
    communicator.sums_exact_of(&sums, &mut values)?;
    for (part, value) in values.iter().enumerate() {
        // SAFETY: the caller promises `PARTS` numbers; alignment does not matter.
        unsafe { result.add(part).write_unaligned(*value) };
    }
    Ok(())
}

/// The correctly rounded sum of all elements of all ranks in `*result` of every rank: the same
/// bits for every number of ranks and every distribution of the elements over them. Ranks may have
/// different counts, also 0; the sum of nothing is +0. NaN and infinities follow IEEE 754. Blocks;
/// not inside a group (use koloSumExact in koloAllReduce there).
/// Errors: those of koloAllReduce; koloInvalidArgument (result NULL, local NULL with count > 0).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloSumExactDouble(
    local: *const f64,
    count: usize,
    result: *mut f64,
    comm: koloComm_t,
) -> koloResult_t {
    sum("SumExactDouble", comm, |communicator| {
        // SAFETY: the contract of kolo.h.
        unsafe { sum_line(communicator, local, None, count, result) }
    })
}

/// koloSumExactDouble of floats: the float nearest to the exact sum.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloSumExactFloat(
    local: *const f32,
    count: usize,
    result: *mut f32,
    comm: koloComm_t,
) -> koloResult_t {
    sum("SumExactFloat", comm, |communicator| {
        // SAFETY: the contract of kolo.h.
        unsafe { sum_line(communicator, local, None, count, result) }
    })
}

/// koloSumExactDouble of the elements whose byte in `mask` is not zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloSumExactDoubleMasked(
    local: *const f64,
    mask: *const c_uchar,
    count: usize,
    result: *mut f64,
    comm: koloComm_t,
) -> koloResult_t {
    sum("SumExactDoubleMasked", comm, |communicator| {
        // SAFETY: the contract of kolo.h.
        unsafe { sum_line(communicator, local, Some(mask), count, result) }
    })
}

/// koloSumExactFloat of the elements whose byte in `mask` is not zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloSumExactFloatMasked(
    local: *const f32,
    mask: *const c_uchar,
    count: usize,
    result: *mut f32,
    comm: koloComm_t,
) -> koloResult_t {
    sum("SumExactFloatMasked", comm, |communicator| {
        // SAFETY: the contract of kolo.h.
        unsafe { sum_line(communicator, local, Some(mask), count, result) }
    })
}

/// koloSumExactDouble of an array of up to 15 dimensions, with gaps and a mask.
/// An element is `parts` (1 or 2) numbers of type `datatype` (koloFloat32 or koloFloat64), each
/// summed by itself: 1 for real, 2 for complex numbers; `result` has room for `parts` numbers.
/// `extents` counts the elements along each dimension; `strides` are the bytes from one element to
/// the next along it, also negative; NULL means packed, the first dimension fastest. `rank` 0 is
/// one element. `mask` is NULL, or has an entry of `maskbytes` bytes for each element: the element
/// counts if a byte of it is not zero; `maskstrides` is as `strides`.
/// Errors: those of koloSumExactDouble; koloInvalidArgument (datatype, rank, parts, extents).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloSumExactArray(
    first: *const c_void,
    datatype: DataTypeArg,
    parts: usize,
    rank: c_int,
    extents: *const usize,
    strides: *const isize,
    mask: *const c_void,
    maskbytes: usize,
    maskstrides: *const isize,
    result: *mut c_void,
    comm: koloComm_t,
) -> koloResult_t {
    sum("SumExactArray", comm, |communicator| {
        let dtype = data_type(datatype)?;
        let rank = usize::try_from(rank).unwrap_or(usize::MAX);
        if rank > MOST_DIMENSIONS || !(1..=2).contains(&parts) {
            return Err(Error::argument(
                "an array has 0 to 15 dimensions, and its elements 1 or 2 parts",
                "give a rank from 0 to 15 and 1 part, or 2 for complex numbers",
            ));
        }
        if rank > 0 && extents.is_null() {
            return Err(null("extents"));
        }
        if !mask.is_null() && maskbytes == 0 {
            return Err(Error::argument(
                "the entries of the mask have 0 bytes",
                "give the size of a logical or bool in bytes",
            ));
        }
        // SAFETY: the contract of kolo.h; what is NULL is not read.
        unsafe {
            let line = Line {
                extents: given(extents, rank).unwrap_or(&[]),
                strides: given(strides, rank),
                mask_strides: given(maskstrides, rank),
            };
            let mask = (!mask.is_null()).then_some((mask, maskbytes));
            let (c, x, y) = (communicator, first, result);
            match (dtype, parts) {
                (DataType::Float64, 1) => sum_array::<f64, 1>(c, x.cast(), line, mask, y.cast()),
                (DataType::Float64, _) => sum_array::<f64, 2>(c, x.cast(), line, mask, y.cast()),
                (DataType::Float32, 1) => sum_array::<f32, 1>(c, x.cast(), line, mask, y.cast()),
                (DataType::Float32, _) => sum_array::<f32, 2>(c, x.cast(), line, mask, y.cast()),
                _ => Err(Error::argument(
                    format!("there is no exact sum of {}", dtype.name()),
                    "give koloFloat32 or koloFloat64",
                )),
            }
        }
    })
}

/// An array of the caller, unless it is NULL.
///
/// # Safety
/// It has `length` elements that live as long as the call.
unsafe fn given<'a, T>(first: *const T, length: usize) -> Option<&'a [T]> {
    if first.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; kolo.h asks for the alignment of the type.
    Some(unsafe { std::slice::from_raw_parts(first, length) })
}
