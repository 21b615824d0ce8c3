//! Terms that are hard to sum: wide ranges, cancellation, subnormals, overflow, ties.

use fastrand::Rng;
use kolo_dtype::exact::Summand;

/// A kind of data.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Of similar size, as in a model.
    Similar,
    /// Every exponent.
    Wide,
    /// Wide, each followed sometimes by its negative.
    Cancelling,
    /// Subnormal and the smallest normal numbers.
    Subnormal,
    /// The largest numbers, of both signs.
    Overflowing,
    /// One number, half of its last place, and dust.
    Ties,
    /// Zeros of both signs and a few others.
    Zeros,
}

pub const KINDS: [Kind; 7] = [
    Kind::Similar,
    Kind::Wide,
    Kind::Cancelling,
    Kind::Subnormal,
    Kind::Overflowing,
    Kind::Ties,
    Kind::Zeros,
];

fn make<T: Summand>(sign: bool, exponent: u64, fraction: u64) -> T {
    let fraction = fraction & ((1 << T::FRACTION_BITS) - 1);
    let sign = u64::from(sign) << (size_of::<T>() * 8 - 1);
    T::from_raw(sign | exponent << T::FRACTION_BITS | fraction)
}

fn negated<T: Summand>(term: T) -> T {
    T::from_raw(term.to_raw() ^ 1 << (size_of::<T>() * 8 - 1))
}

/// `count` finite terms.
pub fn terms<T: Summand>(rng: &mut Rng, kind: Kind, count: usize) -> Vec<T> {
    let largest = T::SPECIAL - 1;
    let mut terms = Vec::with_capacity(count);
    while terms.len() < count {
        let (sign, fraction) = (rng.bool(), rng.u64(..));
        let term = match kind {
            Kind::Similar => make(sign, largest / 2 + rng.u64(..8), fraction),
            Kind::Wide => make(sign, rng.u64(..=largest), fraction),
            Kind::Cancelling => match terms.is_empty() || rng.u8(..3) == 0 {
                true => make(sign, rng.u64(..=largest), fraction),
                false => negated(terms[rng.usize(..terms.len())]),
            },
            Kind::Subnormal => make(sign, rng.u64(..3), fraction >> rng.u32(..60)),
            Kind::Overflowing => make(sign, largest - rng.u64(..2), fraction | fraction >> 1),
            Kind::Ties => {
                let down = [
                    0,
                    0,
                    u64::from(T::FRACTION_BITS) + 1,
                    2 * u64::from(T::FRACTION_BITS),
                ];
                let place = down[rng.usize(..4)].min(largest / 2 - 1);
                make(sign, largest / 2 - place, fraction & rng.u64(..) & 3)
            }
            Kind::Zeros => match rng.u8(..8) {
                0 => make(sign, rng.u64(..=largest), fraction),
                1 => make(false, 0, 0),
                _ => make(true, 0, 0),
            },
        };
        terms.push(term);
    }
    terms
}
