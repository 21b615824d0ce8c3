//! The one algorithm: fold an ordered list of sources, write to an ordered list of destinations.
//!
//! A range is walked in blocks of [`UNROLL`] registers, then in vectors, then in single elements.
//! Each is read from every source before it is written to any destination, so a destination may be
//! one of the sources. Lists of the usual lengths come as arrays, so that their loops unroll.
//!
//! Where a result has several destinations, a piece of it is written to the first one and copied
//! to the others. The lines of a slot are in the cache of whoever has read it, and a processor
//! fetches only as many at a time as stores wait for: stores to two places in turn would have half
//! as many lines under way.
//!
//! From [`LEAST_BY_LANES`] bytes on copies are loops over registers too, and not the C library's:
//! soon that of glibc is one instruction (`rep movsb`), which moves 3 GB/s in the place of 50 on
//! AMD's third and fourth generations where the source begins up to 63 bytes before the
//! destination, counted within a page. A copy from a slot into a buffer of malloc, which begins 16
//! bytes into a page, is one of those (glibc bug 30994).

use super::lanes::{LINE_BYTES, Lanes, scalar_of};
use super::modes::SameModes;
use super::scalar::Arithmetic;
use super::{FoldParams, ReduceOp};
use std::ops::Range;

/// Registers per block: enough independent chains to hide the latency of an addition.
const UNROLL: usize = 4;

/// Ranges shorter than this are not streamed: they stay in the first cache anyway.
const LEAST_STREAM_BYTES: usize = 1024;

/// Results of so many bytes are copied to their later destinations instead of being stored twice.
const LEAST_COPIED_BYTES: usize = 2048;

/// Bytes that the second cache holds for sure: later destinations are copied from there.
const PIECE_BYTES: usize = 32 << 10;

/// Copies of fewer bytes are the C library's.
pub(super) const LEAST_BY_LANES: usize = 1024;

/// How two accumulators are combined, and which scalings the operation knows.
pub(super) trait Operation {
    /// Sources may be multiplied by the scalar when loaded.
    const PRE: bool = false;
    /// The result may be divided.
    const POST: bool = false;
    /// Combines the fold so far with the next source.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`.
    unsafe fn combine<V: Lanes>(sofar: V, next: V) -> V;
    /// Combines one element.
    fn combine_one<E: Arithmetic>(sofar: E::Acc, next: E::Acc) -> E::Acc;
}

macro_rules! operations {
    ($($name:ident = $method:ident { $($flag:ident)? };)*) => {$(
        #[doc = concat!("[`ReduceOp::", stringify!($name), "`].")]
        pub(super) struct $name;
        const _: ReduceOp = ReduceOp::$name;
        impl Operation for $name {
            $(const $flag: bool = true;)?
            #[inline(always)]
            unsafe fn combine<V: Lanes>(sofar: V, next: V) -> V {
                // SAFETY: the caller guarantees the instruction set of `V`.
                unsafe { sofar.$method(next) }
            }
            #[inline(always)]
            fn combine_one<E: Arithmetic>(sofar: E::Acc, next: E::Acc) -> E::Acc {
                E::$method(sofar, next)
            }
        }
    )*};
}

operations! {
    Sum = add {};
    Prod = mul {};
    Max = max {};
    Min = min {};
    Avg = add { POST };
    PreMulSum = add { PRE };
}

/// The modes of arithmetic that all ranks have, where the elements ask for any.
#[inline(always)]
pub(super) fn modes<V: Lanes>() -> Option<SameModes> {
    <V::Element as Arithmetic>::HAS_MODES.then(SameModes::begin)
}

/// Whether these parameters make the operation scale anything. If not, it is a plain sum.
#[inline(always)]
pub(super) fn scales<O: Operation>(params: &FoldParams) -> bool {
    debug_assert!(
        O::PRE || !pre_scales(params),
        "only a pre-multiplied sum scales its sources"
    );
    debug_assert!(
        O::POST || params.divisor.is_none(),
        "only an average divides"
    );
    (O::PRE && pre_scales(params)) || (O::POST && params.divisor.is_some())
}

/// Folds `count` elements of several sources; see [`super::FoldFn`].
///
/// # Safety
/// As [`super::FoldFn`], and the processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn fold<V: Lanes, O: Operation>(
    srcs: &[*const u8],
    dsts: &[*mut u8],
    count: usize,
    params: &FoldParams,
) {
    let element = size_of::<V::Element>();
    // SAFETY: the caller's promises are passed on; the arrays are the same lists. Destinations do
    // not overlap one another, and what was a source of a piece is not read again.
    unsafe {
        match (srcs, dsts) {
            (_, &[first, ref later @ ..])
                if !later.is_empty()
                    && params.stream_mask == 0
                    && count * element >= LEAST_COPIED_BYTES =>
            {
                let piece = PIECE_BYTES / element;
                let mut at = 0;
                while at < count {
                    let range = at..count.min(at + piece);
                    let (offset, bytes) = (at * element, range.len() * element);
                    at = range.end;
                    match srcs {
                        &[a, b] => sweep::<V, O, _, _>([a, b], [first], range, params),
                        _ => sweep::<V, O, _, _>(srcs, [first], range, params),
                    }
                    for &to in later {
                        move_bytes::<V::Bytes>(first.add(offset), to.add(offset), bytes);
                    }
                }
            }
            (&[a, b], &[c]) => sweep::<V, O, _, _>([a, b], [c], 0..count, params),
            (&[a, b], &[c, d]) => sweep::<V, O, _, _>([a, b], [c, d], 0..count, params),
            _ => sweep::<V, O, _, _>(srcs, dsts, 0..count, params),
        }
    }
}

/// Copies `bytes` bytes of the only source to every destination.
///
/// # Safety
/// As [`super::FoldFn`] with elements of one byte, and the processor has the instruction set of
/// `B`.
#[inline(always)]
pub(super) unsafe fn copy<B: Lanes<Element = u8>>(
    srcs: &[*const u8],
    dsts: &[*mut u8],
    bytes: usize,
    params: &FoldParams,
) {
    debug_assert_eq!(srcs.len(), 1, "a copy has one source");
    // SAFETY: source and destinations have `bytes` bytes and do not overlap unless equal, which is
    // left out.
    unsafe {
        if params.stream_mask != 0 && bytes >= LEAST_STREAM_BYTES {
            return sweep::<B, Sum, _, _>([srcs[0]], dsts, 0..bytes, params);
        }
        let piece = if dsts.len() == 1 { bytes } else { PIECE_BYTES };
        let mut at = 0;
        while at < bytes {
            let length = piece.min(bytes - at);
            for &to in dsts {
                if !std::ptr::eq(to, srcs[0]) {
                    move_bytes::<B>(srcs[0].add(at), to.add(at), length);
                }
            }
            at += length;
        }
    }
}

/// Copies `bytes` bytes.
///
/// # Safety
/// So many bytes are readable and writable there and do not overlap, and the processor has the
/// instruction set of `B`.
#[inline(always)]
unsafe fn move_bytes<B: Lanes<Element = u8>>(from: *const u8, to: *mut u8, bytes: usize) {
    const { assert!(LEAST_BY_LANES >= 2 * UNROLL * LINE_BYTES) };
    if !B::IS_REGISTER || bytes < LEAST_BY_LANES {
        // SAFETY: our caller's promise.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        return;
    }
    // The first and the last vector overlap those beside them, whose stores are aligned.
    let mut at = B::COUNT - to.addr() % B::COUNT;
    let last = bytes - B::COUNT;
    // SAFETY: every vector lies inside of the range.
    unsafe {
        move_vectors::<B, 1>(from, to);
        while bytes - at >= UNROLL * B::COUNT {
            move_vectors::<B, UNROLL>(from.add(at), to.add(at));
            at += UNROLL * B::COUNT;
        }
        while bytes - at >= B::COUNT {
            move_vectors::<B, 1>(from.add(at), to.add(at));
            at += B::COUNT;
        }
        move_vectors::<B, 1>(from.add(last), to.add(last));
    }
}

/// Copies `U` vectors.
///
/// # Safety
/// As [`move_bytes`], for these vectors.
#[inline(always)]
unsafe fn move_vectors<B: Lanes<Element = u8>, const U: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: our caller's promise.
    unsafe {
        let mut lanes = [B::load(from); U];
        for (u, lanes) in lanes.iter_mut().enumerate().skip(1) {
            *lanes = B::load(from.add(u * B::COUNT));
        }
        for (u, lanes) in lanes.into_iter().enumerate() {
            B::store(lanes.pack(), to.add(u * B::COUNT));
        }
    }
}

/// Walks the range in blocks, vectors and elements. A range that does not begin at 0 is written in
/// the ordinary way.
///
/// # Safety
/// As [`fold`], for the elements of the range.
#[inline(always)]
pub(super) unsafe fn sweep<V: Lanes, O: Operation, S, D>(
    srcs: S,
    dsts: D,
    range: Range<usize>,
    params: &FoldParams,
) where
    S: AsRef<[*const u8]>,
    D: AsRef<[*mut u8]>,
{
    let (srcs, dsts) = (srcs.as_ref(), dsts.as_ref());
    debug_assert!(!srcs.is_empty(), "a fold needs a source");
    let (mut at, count) = (range.start, range.end);
    let mut stream = 0;
    // SAFETY: every step stays in the range, and the caller's promises hold for that range.
    unsafe {
        let bytes = range.len() * size_of::<V::Element>();
        let streams = at == 0 && params.stream_mask != 0;
        if V::IS_REGISTER && streams && bytes >= LEAST_STREAM_BYTES {
            let (head, aligned) = align::<V>(dsts, params.stream_mask);
            stream = aligned;
            singles::<V::Element, O>(srcs, dsts, 0..head, params);
            at = head;
        }
        while V::IS_REGISTER && count - at >= UNROLL * V::COUNT {
            step::<V, O, UNROLL>(srcs, dsts, at, stream, params);
            at += UNROLL * V::COUNT;
        }
        while count - at >= V::COUNT {
            step::<V, O, 1>(srcs, dsts, at, 0, params);
            at += V::COUNT;
        }
        if at < count {
            singles::<V::Element, O>(srcs, dsts, at..count, params);
        }
    }
    if stream != 0 {
        fence();
    }
}

/// Elements to do first so that a streamed destination begins a cache line, and the mask of the
/// streamed destinations that then do. The others are written in the ordinary way.
#[inline(always)]
fn align<V: Lanes>(dsts: &[*mut u8], mask: u64) -> (usize, u64) {
    let element = size_of::<V::Element>();
    let misfit = |to: *mut u8, head: usize| (to.addr() + head * element) % LINE_BYTES;
    let first = dsts
        .iter()
        .enumerate()
        .find(|&(index, to)| is_set(mask, index) && misfit(*to, 0) % element == 0);
    let Some((_, &first)) = first else {
        return (0, 0);
    };
    let head = (LINE_BYTES - misfit(first, 0)) % LINE_BYTES / element;
    let mut aligned = 0;
    for (index, &to) in dsts.iter().enumerate() {
        if is_set(mask, index) && misfit(to, head) == 0 {
            aligned |= 1 << index;
        }
    }
    (head, aligned)
}

/// Folds `U` vectors at element `at` and writes them.
///
/// # Safety
/// As [`fold`], for the elements `at .. at + U * V::COUNT`; destinations in `stream` begin a cache
/// line there, give or take whole vectors.
#[inline(always)]
unsafe fn step<V: Lanes, O: Operation, const U: usize>(
    srcs: &[*const u8],
    dsts: &[*mut u8],
    at: usize,
    stream: u64,
    params: &FoldParams,
) {
    let element = size_of::<V::Element>();
    let (offset, stride) = (at * element, V::COUNT * element);
    // SAFETY: the caller gives the range; all loads come before the first store, so a destination
    // may equal a source.
    unsafe {
        let mut sofar = read::<V, O, U>(srcs, 0, offset, params);
        for index in 1..srcs.len() {
            let next = read::<V, O, U>(srcs, index, offset, params);
            for u in 0..U {
                sofar[u] = O::combine(sofar[u], next[u]);
            }
        }
        if O::POST
            && let Some(by) = params.divisor
        {
            for lanes in &mut sofar {
                *lanes = lanes.divide(by.get());
            }
        }
        let mut packed = [sofar[0].pack(); U];
        for u in 1..U {
            packed[u] = sofar[u].pack();
        }
        for (index, &to) in dsts.iter().enumerate() {
            let to = to.add(offset);
            if stream != 0 && is_set(stream, index) {
                for (u, &packed) in packed.iter().enumerate() {
                    V::stream(packed, to.add(u * stride));
                }
            } else {
                for (u, &packed) in packed.iter().enumerate() {
                    V::store(packed, to.add(u * stride));
                }
            }
        }
    }
}

/// Reads `U` vectors of source `index`, multiplied by the scalar where asked.
///
/// # Safety
/// As [`step`].
#[inline(always)]
unsafe fn read<V: Lanes, O: Operation, const U: usize>(
    srcs: &[*const u8],
    index: usize,
    offset: usize,
    params: &FoldParams,
) -> [V; U] {
    let stride = V::COUNT * size_of::<V::Element>();
    // SAFETY: the caller gives `U` vectors at `offset` of every source.
    unsafe {
        let from = srcs.get_unchecked(index).add(offset);
        let mut lanes = [V::load(from); U];
        for (u, lanes) in lanes.iter_mut().enumerate().skip(1) {
            *lanes = V::load(from.add(u * stride));
        }
        if O::PRE && is_scaled(params, index) {
            let scalar = V::splat(&params.scalar);
            for lanes in &mut lanes {
                *lanes = lanes.mul(scalar);
            }
        }
        lanes
    }
}

/// Folds the elements of a range one by one: what is too short for a vector. Compiled once for all
/// instruction sets.
///
/// # Safety
/// As [`fold`], for the elements of the range.
#[inline(never)]
unsafe fn singles<E: Arithmetic, O: Operation>(
    srcs: &[*const u8],
    dsts: &[*mut u8],
    range: Range<usize>,
    params: &FoldParams,
) {
    for at in range {
        let load = |index: usize| {
            // SAFETY: the caller gives this element of every source.
            let value = unsafe {
                srcs.get_unchecked(index)
                    .cast::<E>()
                    .add(at)
                    .read_unaligned()
            };
            let value = value.widen();
            if O::PRE && is_scaled(params, index) {
                E::mul(value, scalar_of::<E>(&params.scalar).widen())
            } else {
                value
            }
        };
        let mut sofar = load(0);
        for index in 1..srcs.len() {
            sofar = O::combine_one::<E>(sofar, load(index));
        }
        if O::POST
            && let Some(by) = params.divisor
        {
            sofar = E::divide(sofar, by.get());
        }
        let result = E::narrow(sofar);
        for &to in dsts {
            // SAFETY: the caller gives this element of every destination.
            unsafe { to.cast::<E>().add(at).write_unaligned(result) };
        }
    }
}

/// Whether bit `index` of a mask is set; there are none from 64 on.
#[inline(always)]
fn is_set(mask: u64, index: usize) -> bool {
    index < 64 && mask >> index & 1 != 0
}

/// Whether any source is multiplied by the scalar.
#[inline(always)]
fn pre_scales(params: &FoldParams) -> bool {
    params.pre_scale_mask != 0 || params.pre_scale_beyond != 0
}

/// Whether this source is.
#[inline(always)]
fn is_scaled(params: &FoldParams, index: usize) -> bool {
    is_set(params.pre_scale_mask, index) || (index >= 64 && index == params.pre_scale_beyond)
}

/// Orders streaming stores before every later store, so that a flag that is published afterwards
/// is not seen before the data.
#[inline(always)]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
