//! Limbs: the form in which sums travel, so that a plain integer sum of `i64` adds them.
//!
//! A sum is cut into limbs of `payload` bits, each an `i64` with the sign of the sum, smaller than
//! 2^payload in magnitude. With R ranks a limb of the result is below R * 2^payload, which is at
//! most 2^63 by the choice of `payload`: 60 bits for up to 8 ranks, 53 for 1,024, 32 for 2^31.
//! Nothing overflows and nothing is carried, whatever the order of additions; the one carry happens
//! when the result is decoded. Fewer ranks thus send fewer words (37 for a double on 8 ranks).
//!
//! The last word (two from 65,536 ranks on) counts ranks in four fields, one for each of [`Marks`].

use super::sum::ExactSum;
use super::{Marks, Part, Summand, minus_zero};

/// Most payload bits: what is cut from two words of a `Fixed`, and 8 ranks have room.
const MOST_PAYLOAD: u32 = 60;
/// Least payload bits: 2^31 ranks.
const LEAST_PAYLOAD: u32 = 32;
/// Bits of room above the largest float: a rank sums up to 2^62 of them.
const ROOM_BITS: u32 = 62;
/// Least ranks whose marks need a second word.
const MANY_RANKS: u32 = 1 << 16;
/// Most limbs: of doubles for 2^31 ranks.
const MOST_LIMBS: usize = (2098 + ROOM_BITS).div_ceil(LEAST_PAYLOAD) as usize;

/// How the sums of a number of ranks travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    payload: u32,
    /// 2^32 / payload, rounded up: multiplying is faster than dividing.
    reciprocal: u64,
    limbs: usize,
    mark_words: usize,
}

impl Format {
    /// Most words that any format has.
    pub const MOST_WORDS: usize = MOST_LIMBS + 2;

    /// The format for sums of `T` over `nranks` ranks, 1 to 2^31.
    pub fn of<T: Summand>(nranks: u32) -> Format {
        let room = nranks.max(1).next_power_of_two().trailing_zeros();
        let payload = (63 - room).clamp(LEAST_PAYLOAD, MOST_PAYLOAD);
        let bits = T::SPECIAL as u32 - 1 + T::FRACTION_BITS + ROOM_BITS;
        Format {
            payload,
            reciprocal: (1u64 << 32).div_ceil(u64::from(payload)),
            limbs: bits.div_ceil(payload) as usize,
            mark_words: if nranks < MANY_RANKS { 1 } else { 2 },
        }
    }

    /// Words of one sum.
    pub fn words(&self) -> usize {
        self.limbs + self.mark_words
    }

    /// Limbs of one sum.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The limb that a bit lies in, and its place there; exact for all bits, as a test shows.
    #[inline(always)]
    pub(super) fn place(&self, bit: u32) -> (usize, u32) {
        let limb = ((u64::from(bit) * self.reciprocal) >> 32) as u32;
        (limb as usize, bit - limb * self.payload)
    }

    /// Writes one term.
    #[inline]
    pub fn encode<T: Summand>(&self, term: T, words: &mut [i64]) {
        let (limbs, marks) = words.split_at_mut(self.limbs);
        let raw = term.to_raw();
        self.encode_limbs::<T>(raw, 0, limbs);
        self.encode_marks(Marks::of::<T>(raw), marks);
    }

    /// Writes limbs `first..` of a term, all that it has.
    #[inline]
    pub(super) fn encode_limbs<T: Summand>(&self, raw: u64, first: usize, limbs: &mut [i64]) {
        limbs.fill(0);
        let part = Part::of::<T>(raw);
        if part.exponent == T::SPECIAL {
            return;
        }
        let (whole, shift) = part.scaled::<T>();
        let (mut at, shift) = self.place(shift);
        let mut rest = u128::from(whole) << shift;
        while rest != 0 {
            let limb = (rest & ((1 << self.payload) - 1)) as i64;
            limbs[at - first] = if part.negative { -limb } else { limb };
            rest >>= self.payload;
            at += 1;
        }
    }

    /// The limbs that a finite term other than zero has a part in: lowest and highest.
    #[inline]
    pub(super) fn span<T: Summand>(&self, raw: u64) -> Option<(usize, usize)> {
        let part = Part::of::<T>(raw);
        let (whole, shift) = part.scaled::<T>();
        if whole == 0 || part.exponent == T::SPECIAL {
            return None;
        }
        let top = shift + whole.ilog2();
        Some((self.place(shift).0, self.place(top).0))
    }

    /// Writes the sum of many terms.
    pub fn encode_sum<T: Summand>(&self, sum: &ExactSum<T>, words: &mut [i64]) {
        let (limbs, marks) = words.split_at_mut(self.limbs);
        let (magnitude, negative) = sum.halves.positive.difference(&sum.halves.negative);
        let mut bit = T::BASE;
        for limb in limbs {
            let value = magnitude.bits(bit, self.payload) as i64;
            *limb = if negative { -value } else { value };
            bit += self.payload;
        }
        self.encode_marks(sum.marks, marks);
    }

    fn encode_marks(&self, marks: Marks, words: &mut [i64]) {
        let fields = [
            marks.positive,
            marks.negative,
            marks.other,
            marks.minus_zero,
        ];
        words.fill(0);
        for (index, field) in fields.into_iter().enumerate() {
            let (word, shift) = self.field(index);
            words[word] |= i64::from(field) << shift;
        }
    }

    /// Word and shift of a field of the marks.
    #[inline]
    fn field(&self, index: usize) -> (usize, usize) {
        let per_word = 4 / self.mark_words;
        (index / per_word, index % per_word * (64 / per_word))
    }

    fn decode_marks(&self, words: &[i64]) -> Marks {
        let mask = u64::MAX >> (64 - 64 / (4 / self.mark_words));
        let field = |index| {
            let (word, shift) = self.field(index);
            words[word] as u64 >> shift & mask != 0
        };
        Marks {
            positive: field(0),
            negative: field(1),
            other: field(2),
            minus_zero: field(3),
        }
    }

    /// The value of the words of all ranks, added.
    #[inline]
    pub fn decode<T: Summand>(&self, words: &[i64]) -> T {
        let (limbs, marks) = words.split_at(self.limbs);
        self.decode_limbs(0, limbs, self.decode_marks(marks))
    }

    /// The value of limbs `first..`, the others being zero.
    #[inline]
    pub(super) fn decode_limbs<T: Summand>(&self, first: usize, limbs: &[i64], marks: Marks) -> T {
        if let Some(value) = marks.verdict() {
            return value;
        }
        // Most limbs are zero, and need no carry.
        let is_used = |limb: &i64| *limb != 0;
        let Some(low) = limbs.iter().position(is_used) else {
            return marks.zero();
        };
        let high = limbs.iter().rposition(is_used).unwrap_or(low);
        let base = (first + low) as u32 * self.payload;
        match limbs[low..=high] {
            [one] => short(i128::from(one), base, marks),
            [one, two] => {
                let sum = i128::from(one) + (i128::from(two) << self.payload);
                short(sum, base, marks)
            }
            ref many => long(many, self.payload, base, marks),
        }
    }
}

/// The value of a few limbs that fit into one number.
#[inline]
fn short<T: Summand>(sum: i128, base: u32, marks: Marks) -> T {
    let magnitude = sum.unsigned_abs();
    let Some(top) = magnitude.checked_ilog2() else {
        return marks.zero();
    };
    let bits = |from: u32, count: u32| (magnitude >> from) as u64 & ((1 << count) - 1);
    let any_below = |end: u32| magnitude & ((1 << end) - 1) != 0;
    round(sum < 0, (base, top), bits, any_below)
}

/// The value of many limbs, carried first.
fn long<T: Summand>(limbs: &[i64], payload: u32, base: u32, marks: Marks) -> T {
    let number = Number::carried(limbs, payload);
    match number.top_bit() {
        Some(top) => round(
            number.negative,
            (base, top),
            |from, count| number.bits(from, count),
            |end| number.any_below(end),
        ),
        None => marks.zero(),
    }
}

/// The float nearest to a number, ties to even. Bit 0 of the number counts 2^`base` of the type's
/// units, `top` is its highest bit; `bits` gives some from a place on, `any_below` tells whether
/// any is set below a place.
#[inline(always)]
fn round<T: Summand>(
    negative: bool,
    (base, top): (u32, u32),
    bits: impl Fn(u32, u32) -> u64,
    any_below: impl Fn(u32) -> bool,
) -> T {
    let precision = T::FRACTION_BITS + 1;
    // The place of the result's last bit.
    let lowest = (base + top).saturating_sub(precision - 1);
    let mut whole;
    if lowest <= base {
        whole = bits(0, top + 1) << (base - lowest);
    } else {
        let from = lowest - base;
        whole = bits(from, precision);
        let half = bits(from - 1, 1) != 0;
        whole += u64::from(half && (whole & 1 != 0 || any_below(from - 1)));
    }
    // The leading bit of `whole` adds one to the exponent field, also when rounding moved it; a
    // subnormal number has lowest = 0 and no leading bit.
    let infinity = T::SPECIAL << T::FRACTION_BITS;
    let raw = if u64::from(lowest) >= T::SPECIAL {
        infinity
    } else {
        ((u64::from(lowest) << T::FRACTION_BITS) + whole).min(infinity)
    };
    T::from_raw(if negative {
        raw | minus_zero::<T>()
    } else {
        raw
    })
}

/// A number whose limbs have been carried: each is below 2^payload, and not negative.
struct Number {
    limbs: [u64; MOST_LIMBS + 1],
    used: usize,
    payload: u32,
    negative: bool,
}

impl Number {
    /// Carries the limbs; the sign is that of the whole.
    fn carried(limbs: &[i64], payload: u32) -> Number {
        let mut number = Number {
            limbs: [0; MOST_LIMBS + 1],
            used: limbs.len() + 1,
            payload,
            negative: false,
        };
        if number.carry(limbs, false) < 0 {
            number.negative = true;
            number.carry(limbs, true);
        }
        number
    }

    /// Carries from limb to limb, each negated if asked; what is left at the end has the sign.
    fn carry(&mut self, limbs: &[i64], negate: bool) -> i128 {
        let mask = (1i128 << self.payload) - 1;
        let mut sum = 0i128;
        for (place, &limb) in self.limbs.iter_mut().zip(limbs) {
            let limb = i128::from(limb);
            sum += if negate { -limb } else { limb };
            *place = (sum & mask) as u64;
            sum >>= self.payload;
        }
        self.limbs[limbs.len()] = sum as u64;
        sum
    }

    /// The highest bit that is set.
    fn top_bit(&self) -> Option<u32> {
        let index = self.limbs[..self.used]
            .iter()
            .rposition(|&limb| limb != 0)?;
        Some(index as u32 * self.payload + self.limbs[index].ilog2())
    }

    /// `count` (at most 53) bits from bit `from` on.
    fn bits(&self, from: u32, count: u32) -> u64 {
        let (index, shift) = ((from / self.payload) as usize, from % self.payload);
        let mut value = 0u128;
        // Two limbs of 60 bits or three of 32 hold 53 bits from any place on.
        for (at, &limb) in self.limbs[index..self.used].iter().take(3).enumerate() {
            value |= u128::from(limb)
                .checked_shl(at as u32 * self.payload)
                .unwrap_or(0);
        }
        (value >> shift) as u64 & ((1 << count) - 1)
    }

    /// Whether any bit below `end` is set.
    fn any_below(&self, end: u32) -> bool {
        let (index, shift) = ((end / self.payload) as usize, end % self.payload);
        self.limbs[index] & ((1 << shift) - 1) != 0
            || self.limbs[..index].iter().any(|&limb| limb != 0)
    }
}
