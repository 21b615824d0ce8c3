//! The one algorithm: fold an ordered list of sources, write to an ordered list of destinations.
//!
//! A range is walked in blocks of [`UNROLL`] vectors, then in vectors, then in single elements. In
//! a block every source is read before any destination is written, so a destination may be one of
//! the sources. Lists of the usual lengths come as arrays, so that their loops unroll.

use super::lanes::{Array, LINE_BYTES, Lanes};
use super::{FoldParams, ReduceOp};

/// Vectors per block: enough independent chains to hide the latency of an addition.
const UNROLL: usize = 4;

/// Ranges shorter than this are not streamed: they stay in the first cache anyway.
const LEAST_STREAM_BYTES: usize = 1024;

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

/// Folds `count` elements; see [`super::FoldFn`].
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
    debug_assert!(!srcs.is_empty(), "a fold needs a source");
    debug_assert!(
        O::PRE || params.pre_scale_mask == 0,
        "only a pre-multiplied sum scales its sources"
    );
    debug_assert!(
        O::POST || params.divisor.is_none(),
        "only an average divides"
    );
    let scaled = (O::PRE && params.pre_scale_mask != 0) || (O::POST && params.divisor.is_some());
    // SAFETY: the caller's promises are passed on; the arrays are the same lists.
    unsafe {
        match (srcs, dsts) {
            _ if scaled => sweep::<V, O, _, _, true>(srcs, dsts, count, params),
            (&[a, b], &[c]) => sweep::<V, O, _, _, false>([a, b], [c], count, params),
            (&[a, b], &[c, d]) => sweep::<V, O, _, _, false>([a, b], [c, d], count, params),
            (&[_], _) => copy::<V::Bytes>(srcs, dsts, count * size_of::<V::Element>(), params),
            _ => sweep::<V, O, _, _, false>(srcs, dsts, count, params),
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
    /// What fits the first cache beside the destinations: later destinations read it from there.
    const PIECE_BYTES: usize = 8192;
    debug_assert_eq!(srcs.len(), 1, "a copy has one source");
    // SAFETY: source and destinations have `bytes` bytes and do not overlap unless equal, which is
    // left out.
    unsafe {
        if params.stream_mask != 0 && bytes >= LEAST_STREAM_BYTES {
            match dsts {
                &[to] => sweep::<B, Sum, _, _, false>([srcs[0]], [to], bytes, params),
                _ => sweep::<B, Sum, _, _, false>(srcs, dsts, bytes, params),
            }
            return;
        }
        let piece = if dsts.len() == 1 { bytes } else { PIECE_BYTES };
        let mut at = 0;
        while at < bytes {
            let length = piece.min(bytes - at);
            for &to in dsts {
                if !std::ptr::eq(to, srcs[0]) {
                    to.add(at).copy_from_nonoverlapping(srcs[0].add(at), length);
                }
            }
            at += length;
        }
    }
}

/// Walks the range in blocks, vectors and elements.
///
/// # Safety
/// As [`fold`].
#[inline(always)]
unsafe fn sweep<V: Lanes, O: Operation, S, D, const SCALED: bool>(
    srcs: S,
    dsts: D,
    count: usize,
    params: &FoldParams,
) where
    S: AsRef<[*const u8]>,
    D: AsRef<[*mut u8]>,
{
    let (srcs, dsts) = (srcs.as_ref(), dsts.as_ref());
    let mut at = 0;
    let mut stream = 0;
    // SAFETY: every step stays below `count`, and the caller's promises hold for that range.
    unsafe {
        if params.stream_mask != 0 && count * size_of::<V::Element>() >= LEAST_STREAM_BYTES {
            let (head, aligned) = align::<V>(dsts, params.stream_mask);
            stream = aligned;
            while at < head {
                step::<Array<V::Element, 1>, O, 1, SCALED>(srcs, dsts, at, 0, params);
                at += 1;
            }
        }
        while count - at >= UNROLL * V::COUNT {
            step::<V, O, UNROLL, SCALED>(srcs, dsts, at, stream, params);
            at += UNROLL * V::COUNT;
        }
        while count - at >= V::COUNT {
            step::<V, O, 1, SCALED>(srcs, dsts, at, 0, params);
            at += V::COUNT;
        }
        while at < count {
            step::<Array<V::Element, 1>, O, 1, SCALED>(srcs, dsts, at, 0, params);
            at += 1;
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
    let wanted = |index: usize| index < 64 && mask >> index & 1 != 0;
    let misfit = |to: *mut u8, head: usize| (to.addr() + head * element) % LINE_BYTES;
    let first = dsts
        .iter()
        .enumerate()
        .find(|&(index, to)| wanted(index) && misfit(*to, 0) % element == 0);
    let Some((_, &first)) = first else {
        return (0, 0);
    };
    let head = (LINE_BYTES - misfit(first, 0)) % LINE_BYTES / element;
    let mut aligned = 0;
    for (index, &to) in dsts.iter().enumerate() {
        if wanted(index) && misfit(to, head) == 0 {
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
unsafe fn step<V: Lanes, O: Operation, const U: usize, const SCALED: bool>(
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
        let mut sofar = read::<V, O, U, SCALED>(srcs, 0, offset, params);
        for index in 1..srcs.len() {
            let next = read::<V, O, U, SCALED>(srcs, index, offset, params);
            for u in 0..U {
                sofar[u] = O::combine(sofar[u], next[u]);
            }
        }
        if SCALED
            && O::POST
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
            if stream != 0 && index < 64 && stream >> index & 1 != 0 {
                for u in 0..U {
                    V::stream(packed[u], to.add(u * stride));
                }
            } else {
                for u in 0..U {
                    V::store(packed[u], to.add(u * stride));
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
unsafe fn read<V: Lanes, O: Operation, const U: usize, const SCALED: bool>(
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
        for u in 1..U {
            lanes[u] = V::load(from.add(u * stride));
        }
        if SCALED && O::PRE && index < 64 && params.pre_scale_mask >> index & 1 != 0 {
            let scalar = V::splat(&params.scalar);
            for lanes in &mut lanes {
                *lanes = lanes.mul(scalar);
            }
        }
        lanes
    }
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
