//! Runs one kernel on one case in guarded buffers and compares every byte with the oracle.

use super::oracle;
use fastrand::Rng;
use kolo_dtype::{Class, DataType, FoldFn, FoldParams, ReduceOp};
use std::num::NonZeroU32;

/// Guard bytes on each side of a destination.
const GUARD: usize = 80;
/// Byte of which guards and destinations are full before the call.
const POISON: u8 = 0xa5;

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) dtype: DataType,
    pub(super) op: ReduceOp,
    pub(super) count: usize,
    /// Bytes of each source.
    pub(super) srcs: Vec<Vec<u8>>,
    /// For each destination: the source it is the same memory as, if any.
    pub(super) dsts: Vec<Option<usize>>,
    /// For each source, then each destination: bytes beyond a multiple of 64.
    pub(super) shifts: Vec<usize>,
    pub(super) params: FoldParams,
}

/// Bytes at a chosen distance from a multiple of 64, with guards around.
struct Guarded {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Guarded {
    fn new(content: &[u8], shift: usize) -> Guarded {
        let mut bytes = vec![POISON; content.len() + 2 * GUARD + 128];
        let base = bytes.as_ptr().addr() + GUARD;
        let start = GUARD + base.next_multiple_of(64) - base + shift % 64;
        bytes[start..start + content.len()].copy_from_slice(content);
        Guarded {
            bytes,
            start,
            length: content.len(),
        }
    }

    fn pointer(&mut self) -> *mut u8 {
        self.bytes[self.start..].as_mut_ptr()
    }

    fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    fn is_intact(&self) -> bool {
        let (before, rest) = self.bytes.split_at(self.start);
        before
            .iter()
            .chain(&rest[self.length..])
            .all(|&byte| byte == POISON)
    }
}

/// Runs `kernel` on `case`; the error says what differs.
pub(super) fn check(kernel: FoldFn, case: &Case) -> Result<(), String> {
    let bytes = case.count * case.dtype.size_bytes();
    let (src_shifts, dst_shifts) = case.shifts.split_at(case.srcs.len());
    let mut srcs: Vec<Guarded> = case
        .srcs
        .iter()
        .zip(src_shifts)
        .map(|(content, &shift)| Guarded::new(&content[..bytes], shift))
        .collect();
    let poison = vec![POISON; bytes];
    let mut dsts: Vec<Guarded> = dst_shifts
        .iter()
        .map(|&shift| Guarded::new(&poison, shift))
        .collect();

    let src_pointers: Vec<*mut u8> = srcs.iter_mut().map(Guarded::pointer).collect();
    let dst_pointers: Vec<*mut u8> = dsts
        .iter_mut()
        .zip(&case.dsts)
        .map(|(own, same)| same.map_or(own.pointer(), |source| src_pointers[source]))
        .collect();
    let sources: Vec<*const u8> = src_pointers.iter().map(|p| p.cast_const()).collect();
    // SAFETY: the buffers have `count` elements and live through the call; destinations are
    // distinct, and equal a source exactly or are memory of their own.
    unsafe { kernel(&sources, &dst_pointers, case.count, &case.params) };

    compare(case, &srcs, &dsts)
}

fn compare(case: &Case, srcs: &[Guarded], dsts: &[Guarded]) -> Result<(), String> {
    let results: Vec<&Guarded> = dsts
        .iter()
        .zip(&case.dsts)
        .map(|(own, same)| same.map_or(own, |source| &srcs[source]))
        .collect();
    for index in 0..case.count {
        let inputs: Vec<u128> = case
            .srcs
            .iter()
            .map(|src| oracle::element(case.dtype, src, index))
            .collect();
        let wanted = oracle::fold(case.dtype, case.op, &inputs, &case.params);
        for (number, dst) in results.iter().enumerate() {
            let found = oracle::element(case.dtype, dst.content(), index);
            if found != wanted {
                return Err(format!(
                    "destination {number} element {index}: {found:#x}, wanted {wanted:#x} from \
                     {inputs:#x?}"
                ));
            }
        }
    }
    for (number, src) in srcs.iter().enumerate() {
        let kept = src.content() == &case.srcs[number][..src.length];
        if !(kept || case.dsts.contains(&Some(number))) {
            return Err(format!("source {number} was written"));
        }
    }
    if !srcs.iter().chain(dsts).all(Guarded::is_intact) {
        return Err("bytes beside a buffer were written".into());
    }
    Ok(())
}

/// How elements are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Draw {
    /// Any bits: every exponent, NaN with any payload, infinities, subnormals.
    Bits,
    /// Numbers of similar size, so that rounding and order show.
    Similar,
    /// Mostly the type's special values.
    Special,
}

/// The special values of a type, as bits.
pub(super) fn specials(dtype: DataType) -> Vec<u128> {
    use DataType::{
        Complex64, Complex128, DoubleDouble, DoubleInt, FloatFloat, FloatInt, IntInt, LongInt,
    };
    let whole = |bits: Vec<u64>| bits.into_iter().map(u128::from).collect();
    match dtype {
        Complex64 | FloatFloat => side_by_side(DataType::Float32, DataType::Float32),
        Complex128 | DoubleDouble => side_by_side(DataType::Float64, DataType::Float64),
        FloatInt => side_by_side(DataType::Float32, DataType::Int32),
        IntInt => side_by_side(DataType::Int32, DataType::Int32),
        DoubleInt => side_by_side(DataType::Float64, DataType::Uint64),
        LongInt => side_by_side(DataType::Int64, DataType::Uint64),
        _ => whole(plain_specials(dtype)),
    }
}

/// Every special value of one type with a few of another behind it.
fn side_by_side(first: DataType, second: DataType) -> Vec<u128> {
    let shift = 8 * first.size_bytes();
    let behind = plain_specials(second);
    let step = behind.len() / 4;
    plain_specials(first)
        .into_iter()
        .flat_map(|low| {
            let behind = behind.iter().step_by(step);
            let both = behind.map(move |&high| u128::from(low) | u128::from(high) << shift);
            both.collect::<Vec<_>>()
        })
        .collect()
}

/// The special values of a type that is one number.
fn plain_specials(dtype: DataType) -> Vec<u64> {
    match dtype {
        DataType::Float64 => [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            -5e-324,
            f64::INFINITY,
            f64::NEG_INFINITY,
            2.2e-308,
            f64::NAN,
        ]
        .into_iter()
        .map(f64::to_bits)
        .chain([
            0xfff8_0000_0000_0001,
            0x7ff0_0000_0000_0001,
            0xfff7_ffff_ffff_ffff,
        ])
        .collect(),
        DataType::Float32 => [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            1e-45,
            -1e-45,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1.1e-38,
            f32::NAN,
        ]
        .into_iter()
        .map(|value| u64::from(value.to_bits()))
        .chain([0xffc0_0001, 0x7f80_0001, 0xffbf_ffff])
        .collect(),
        DataType::Float16 => vec![
            0, 0x8000, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x0400, 1, 0x8001, 0x03ff, 0x7c00, 0xfc00,
            0x7e00, 0x7c01, 0xfe55, 0xffff,
        ],
        DataType::Bfloat16 => vec![
            0, 0x8000, 0x3f80, 0xbf80, 0x7f7f, 0xff7f, 0x0080, 1, 0x8001, 0x007f, 0x7f80, 0xff80,
            0x7fc0, 0x7f81, 0xffd5, 0xffff,
        ],
        DataType::Float8e4m3 | DataType::Float8e5m2 => (0..256).collect(),
        _ => {
            let top = 1u64 << (8 * dtype.size_bytes() - 1);
            let all = top | (top - 1);
            vec![0, 1, 2, 7, all, all - 1, top, top - 1, top + 1]
        }
    }
}

/// One random element.
fn draw(rng: &mut Rng, dtype: DataType, how: Draw, specials: &[u128]) -> u128 {
    let similar = || 1.0 + f64::from(dtype as i32 % 2);
    match how {
        Draw::Bits => rng.u128(..),
        Draw::Special if rng.u8(..4) > 0 => specials[rng.usize(..specials.len())],
        Draw::Special | Draw::Similar => {
            let mut value = || (rng.f64() - 0.4) * similar();
            let single = |value: f64| u128::from((value as f32).to_bits());
            match dtype {
                DataType::Float64 => u128::from(value().to_bits()),
                DataType::Complex64 => single(value()) | single(value()) << 32,
                DataType::Complex128 => {
                    u128::from(value().to_bits()) | u128::from(value().to_bits()) << 64
                }
                _ if dtype.is_float() => u128::from(oracle::bits_of(dtype, value() as f32)),
                // Few different ones, so that pairs tie and bits and truth values differ.
                _ if dtype.class() == Class::Integer => {
                    u128::from(rng.u64(..200).wrapping_sub(100))
                }
                _ => rng.u128(..) & 0x8000_0003_8000_0001_8000_0001_0000_0001,
            }
        }
    }
}

/// `count` random elements.
pub(super) fn elements(rng: &mut Rng, dtype: DataType, how: Draw, count: usize) -> Vec<u8> {
    let specials = specials(dtype);
    (0..count)
        .flat_map(|_| {
            let bits = draw(rng, dtype, how, &specials).to_le_bytes();
            bits.into_iter().take(dtype.size_bytes())
        })
        .collect()
}

/// Parameters that the operation knows.
pub(super) fn params(rng: &mut Rng, dtype: DataType, op: ReduceOp, how: Draw) -> FoldParams {
    let mut params = FoldParams::default();
    if op == ReduceOp::PreMulSum {
        // Dense as often as sparse: 0 (nothing scaled) must happen too.
        params.pre_scale_mask = rng.u64(..) & if rng.bool() { u64::MAX } else { 2 };
        let scalar = elements(rng, dtype, how, 1);
        params.scalar[..scalar.len()].copy_from_slice(&scalar);
    }
    if op == ReduceOp::Avg && rng.u8(..4) > 0 {
        let by = if rng.bool() {
            rng.u32(1..300)
        } else {
            rng.u32(1..)
        };
        params.divisor = NonZeroU32::new(by);
    }
    if rng.bool() {
        params.stream_mask = rng.u64(..8);
    }
    params
}

/// A random case for this data type and operation.
pub(super) fn case(rng: &mut Rng, dtype: DataType, op: ReduceOp) -> Case {
    let how = [Draw::Bits, Draw::Similar, Draw::Special][rng.usize(..3)];
    let count = match rng.u8(..10) {
        0 => 0,
        1..=4 => rng.usize(1..20),
        5..=8 => rng.usize(1..300),
        _ => rng.usize(1000..1600),
    };
    let nsrcs = if rng.bool() { 2 } else { rng.usize(1..=9) };
    let none = rng.u8(..8) == 0;
    let ndsts = if none { 0 } else { rng.usize(1..4) };
    let srcs: Vec<_> = (0..nsrcs)
        .map(|_| elements(rng, dtype, how, count))
        .collect();
    let mut dsts = vec![None; ndsts];
    if ndsts > 0 && rng.bool() {
        dsts[rng.usize(..ndsts)] = Some(rng.usize(..nsrcs));
    }
    let size = dtype.size_bytes();
    let shifts = (0..nsrcs + ndsts)
        .map(|_| match rng.u8(..8) {
            0..=2 => 0,
            3..=4 => size,
            5..=6 => size * rng.usize(..64 / size),
            _ => rng.usize(..64),
        })
        .collect();
    Case {
        dtype,
        op,
        count,
        srcs,
        dsts,
        shifts,
        params: params(rng, dtype, op, how),
    }
}
