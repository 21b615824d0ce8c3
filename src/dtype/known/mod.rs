//! Data of which every result is known: what `kolo perf` and the tests send, and what they must
//! get.
//!
//! **Problem.** A wrong byte anywhere must be noticed, for every type and operation, without using
//! the code under test to compute what is right.
//!
//! **Idea.** The value of an element is a function of (repetition, rank, element), so every rank
//! knows everybody's data. Values of reductions are small integers chosen such that no partial
//! result, in any order of folding, needs rounding; the expected value is computed in integers and
//! rounded once, by the division of an average. Data that is only moved is random bits.
//!
//! **Period.** Values repeat after [`PERIOD`] elements, a prime, so that filling and comparing
//! megabytes is copying and comparing memory. Chunks and blocks are powers of two of bytes or
//! fractions of the data, so what lands in a wrong place still differs.

pub mod values;

use crate::{Class, DataType, ReduceOp};
use values::{Value, exact_limit, is_signed};

/// Elements after which the data repeats.
pub const PERIOD: usize = 10_007;
/// Byte of which receive buffers are full before a call that is checked.
pub const POISON: u8 = 0xa5;
/// Ranks whose factor in a product is not one, so that the product stays representable.
const FACTORS: u64 = 4;

/// Features that distinguish the data of one checked call.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Type of the elements.
    pub dtype: DataType,
    /// The operation, where the call reduces.
    pub op: Option<ReduceOp>,
    /// Ranks.
    pub nranks: u32,
    /// Number of the repetition.
    pub repetition: u64,
}

/// A mixing function (Steele et al., "Fast splittable pseudorandom number generators", 2014).
pub fn mix(a: u64, b: u64) -> u64 {
    let mut z = a
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(b.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The factor that `rank` gives to a pre-multiplied sum.
pub fn scalar(rank: u32) -> i64 {
    1 + i64::from(rank % 2)
}

impl Data {
    /// Contribution of `rank` to a reduction at `element`.
    pub fn value(&self, op: ReduceOp, rank: u32, element: usize) -> Value {
        let common = mix(self.repetition, element as u64);
        let own = mix(common, 1 + u64::from(rank));
        let ranks = u64::from(self.nranks);
        // Who takes part changes with the element: each rank's turn comes.
        let turn = (common % ranks + u64::from(rank)) % ranks;
        let small = |bits: u64| (bits % 7) as i64;
        match (self.dtype.class(), op) {
            (Class::Pair, _) => Value::Pair(small(own) - 3, i64::from(rank) * 3 + small(own >> 8)),
            (_, ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor) => {
                Value::Bits(u128::from(own) << 64 | u128::from(mix(own, 2)))
            }
            // One rank decides about and and or, so that both answers happen among many ranks.
            (_, ReduceOp::Land) if turn != 0 => Value::Number(1 + small(own)),
            (_, ReduceOp::Lor) if turn != 0 => Value::Number(0),
            (_, ReduceOp::Land | ReduceOp::Lor | ReduceOp::Lxor) => {
                Value::Number(small(own) - small(own) % 2)
            }
            // Powers of 2 + i have no part that is zero: no sign of a zero depends on the order.
            (Class::Complex, ReduceOp::Prod) if turn >= FACTORS => Value::Complex(1, 0),
            (Class::Complex, ReduceOp::Prod) if own % 2 == 1 => Value::Complex(-2, -1),
            (Class::Complex, ReduceOp::Prod) => Value::Complex(2, 1),
            (Class::Complex, _) => Value::Complex(
                self.number(op, own, turn),
                self.number(op, mix(own, 3), turn),
            ),
            _ => Value::Number(self.number(op, own, turn)),
        }
    }

    /// A number such that no partial result of the operation is rounded.
    fn number(&self, op: ReduceOp, own: u64, turn: u64) -> i64 {
        let ranks = u64::from(self.nranks);
        let limit = exact_limit(self.dtype);
        let within = |most: u64| match is_signed(self.dtype) {
            true => (own % (2 * most + 1)) as i64 - most as i64,
            false => (own % (most + 1)) as i64,
        };
        match op {
            ReduceOp::Max | ReduceOp::Min => within(limit),
            ReduceOp::Prod => {
                let factor = if turn < FACTORS { 2 } else { 1 };
                let negative = is_signed(self.dtype) && own % 2 == 1;
                if negative { -factor } else { factor }
            }
            _ => {
                let scale = if op == ReduceOp::PreMulSum { 2 } else { 1 };
                let takers = ranks.min(limit / scale);
                let most = limit / (scale * takers);
                if turn < takers { within(most) } else { 0 }
            }
        }
    }

    /// The bytes of `rank`'s data from its first element on, at most a period long.
    pub fn input(&self, rank: u32, elements: usize) -> Pattern {
        let size = self.dtype.size_bytes();
        Pattern::make(size, elements, |element, place| match self.op {
            Some(op) => self.value(op, rank, element).encode(self.dtype, 1, place),
            None => {
                let common = mix(self.repetition, element as u64);
                let bits = mix(common, 1 + u64::from(rank));
                let bits = u128::from(bits) | u128::from(mix(bits, 2)) << 64;
                place.copy_from_slice(&bits.to_le_bytes()[..size]);
            }
        })
    }

    /// The bytes of the reduction of the data of the first `ranks` ranks (at least one).
    pub fn reduced_of(&self, op: ReduceOp, ranks: u32, elements: usize) -> Pattern {
        let scaled = |rank: u32, element: usize| {
            let value = self.value(op, rank, element);
            match op {
                ReduceOp::PreMulSum => value.times(scalar(rank)),
                _ => value,
            }
        };
        let divisor = match op {
            ReduceOp::Avg => i64::from(self.nranks),
            _ => 1,
        };
        Pattern::make(self.dtype.size_bytes(), elements, |element, place| {
            let first = scaled(0, element);
            let folded = (1..ranks).fold(first, |a, r| a.combine(op, scaled(r, element)));
            folded.encode(self.dtype, divisor, place);
        })
    }

    /// The scalar of `rank` in the bytes of the type.
    pub fn scalar_bytes(&self, rank: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.dtype.size_bytes()];
        let value = match self.dtype.class() {
            Class::Complex => Value::Complex(scalar(rank), 0),
            _ => Value::Number(scalar(rank)),
        };
        value.encode(self.dtype, 1, &mut bytes);
        bytes
    }
}

/// Periodic content of a buffer.
pub struct Pattern {
    bytes: Vec<u8>,
    size: usize,
}

impl Pattern {
    /// The pattern of `elements` elements of `size` bytes, or of one period; `put` writes one.
    pub fn make(size: usize, elements: usize, mut put: impl FnMut(usize, &mut [u8])) -> Pattern {
        let mut bytes = vec![0; elements.clamp(1, PERIOD) * size];
        for (element, place) in bytes.chunks_exact_mut(size).enumerate() {
            put(element, place);
        }
        Pattern { bytes, size }
    }

    /// Poison, as elements of `size` bytes.
    pub fn poison(size: usize) -> Pattern {
        Pattern::make(size, PERIOD, |_, place| place.fill(POISON))
    }

    /// The stretches of the pattern that follow each other from `element` on, over `bytes` bytes.
    fn stretches(&self, element: usize, bytes: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let mut from = element * self.size % self.bytes.len();
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == bytes {
                return None;
            }
            let length = (self.bytes.len() - from).min(bytes - done);
            let stretch = (done, &self.bytes[from..from + length]);
            from = 0;
            done += length;
            Some(stretch)
        })
    }

    /// Writes the pattern from `element` on over all of `place`.
    pub fn fill(&self, element: usize, place: &mut [u8]) {
        for (at, stretch) in self.stretches(element, place.len()) {
            place[at..at + stretch.len()].copy_from_slice(stretch);
        }
    }

    /// Elements of `place` that differ from the pattern from `element` on.
    pub fn wrong(&self, element: usize, place: &[u8]) -> u64 {
        let mut wrong = 0;
        for (at, stretch) in self.stretches(element, place.len()) {
            let found = &place[at..at + stretch.len()];
            if found != stretch {
                let pairs = found
                    .chunks_exact(self.size)
                    .zip(stretch.chunks_exact(self.size));
                wrong += pairs.filter(|(found, wanted)| found != wanted).count() as u64;
            }
        }
        wrong
    }
}
