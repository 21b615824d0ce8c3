//! Limbs: the form in which sums travel, so that a plain integer sum of `i64` adds them.
//!
//! A sum is cut into limbs of `payload` bits, each an `i64` with the sign of the sum, smaller than
//! 2^payload in magnitude. With R ranks a limb of the result is below R * 2^payload, which is at
//! most 2^63 by the choice of `payload`: 60 bits for up to 8 ranks, 53 for 1,024, 32 for 2^31.
//! Nothing overflows and nothing is carried, whatever the order of additions; the one carry happens
//! when the result is decoded. Fewer ranks thus send fewer words (37 for a double on 8 ranks).
//!
//! The last word (two from 65,536 ranks on) counts ranks in four fields, one for each of [`Marks`].

use super::fixed::Halves;
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
    #[inline]
    pub fn words(&self) -> usize {
        self.limbs + self.mark_words
    }

    /// Limbs of one sum.
    #[inline]
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The limb that a bit lies in, and its place there; exact for all bits, as a test shows.
    #[inline(always)]
    pub fn place(&self, bit: u32) -> (usize, u32) {
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
        let part = Part::of::<T>(raw);
        let (whole, shift) = match part.exponent == T::SPECIAL {
            true => (0, 0),
            false => part.scaled::<T>(),
        };
        let (at, shift) = self.place(shift);
        let mut rest = u128::from(whole) << shift;
        let mut next = || {
            let limb = (rest & ((1 << self.payload) - 1)) as i64;
            rest >>= self.payload;
            if part.negative { -limb } else { limb }
        };
        if whole == 0 {
            return limbs.fill(0);
        }
        // A program that writes to its buffer during the call may leave the window; then nothing is
        // right, but nobody must crash.
        let Some(at) = at.checked_sub(first).filter(|at| *at < limbs.len()) else {
            return limbs.fill(0);
        };
        // Three limbs hold 53 bits from any place on.
        match limbs {
            [one] => *one = next(),
            [one, two] if at == 0 => (*one, *two) = (next(), next()),
            [one, two] => (*one, *two) = (0, next()),
            many => {
                many.fill(0);
                many[at..]
                    .iter_mut()
                    .take(3)
                    .for_each(|limb| *limb = next());
            }
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

    /// Writes the sum of many terms, whose marks these are.
    pub(super) fn encode_halves<T: Summand>(
        &self,
        halves: &Halves,
        marks: Marks,
        words: &mut [i64],
    ) {
        let (limbs, mark_words) = words.split_at_mut(self.limbs);
        let distance = halves.positive.difference(&halves.negative);
        let (from, to) = distance.bits;
        limbs.fill(0);
        let first = self.place(from.saturating_sub(T::BASE)).0;
        let mut bit = T::BASE + first as u32 * self.payload;
        for limb in &mut limbs[first.min(self.limbs)..] {
            if bit >= to {
                break;
            }
            let value = distance.magnitude.bits(bit, self.payload) as i64;
            *limb = if distance.is_negative { -value } else { value };
            bit += self.payload;
        }
        self.encode_marks(marks, mark_words);
    }

    #[inline]
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
        match self.mark_words {
            1 => (0, 16 * index),
            _ => (index / 2, 32 * (index % 2)),
        }
    }

    #[inline]
    fn decode_marks(&self, words: &[i64]) -> Marks {
        let mask = if self.mark_words == 1 {
            0xffff
        } else {
            0xffff_ffff
        };
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
    let aligned = magnitude << (127 - top);
    let leading = ((aligned >> 64) as u64, aligned as u64 != 0);
    round(sum < 0, base + top, leading)
}

/// The value of many limbs, carried first.
fn long<T: Summand>(limbs: &[i64], payload: u32, base: u32, marks: Marks) -> T {
    let number = Number::carried(limbs, payload);
    match number.top_bit() {
        Some(top) => round(number.negative, base + top, number.leading(top)),
        None => marks.zero(),
    }
}

/// The float nearest to a number, ties to even. Its highest bit counts 2^`top` of the type's units;
/// it and the 63 bits below are `leading`, and `rest` tells whether any bit further down is set.
#[inline]
fn round<T: Summand>(negative: bool, top: u32, (leading, rest): (u64, bool)) -> T {
    const HALF: u64 = 1 << 63;
    // The place of the result's last bit, and the bits that it has.
    let lowest = top.saturating_sub(T::FRACTION_BITS);
    let kept = top - lowest + 1;
    let whole = leading >> (64 - kept);
    let dropped = leading << kept;
    let up = dropped > HALF || (dropped == HALF && (rest || whole & 1 != 0));
    // The leading bit of `whole` adds one to the exponent field, also when rounding moved it; a
    // subnormal number has lowest = 0 and no leading bit.
    let infinity = T::SPECIAL << T::FRACTION_BITS;
    let raw = if u64::from(lowest) >= T::SPECIAL {
        infinity
    } else {
        ((u64::from(lowest) << T::FRACTION_BITS) + whole + u64::from(up)).min(infinity)
    };
    let sign = if negative { minus_zero::<T>() } else { 0 };
    T::from_raw(raw | sign)
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

    /// The bit `top` and the 63 below it, and whether any further down is set.
    fn leading(&self, top: u32) -> (u64, bool) {
        let mut index = (top / self.payload) as usize;
        // The highest limb's bits at the upper end, then whole limbs below, as far as they go.
        let mut free = 127 - top % self.payload;
        let mut aligned = u128::from(self.limbs[index]) << free;
        while index > 0 && free > 0 {
            index -= 1;
            let limb = u128::from(self.limbs[index]);
            let moved = free.min(self.payload);
            // What does not fit any more counts only as something that is set.
            let cut = limb & ((1 << (self.payload - moved)) - 1);
            aligned |= (limb >> (self.payload - moved)) << (free - moved) | u128::from(cut != 0);
            free -= moved;
        }
        let below = self.limbs[..index].iter().any(|&limb| limb != 0);
        ((aligned >> 64) as u64, aligned as u64 != 0 || below)
    }
}
