//! The oracle: one counter per bit, schoolbook carries, and rounding by comparing distances. Slow,
//! and unlike the code under test in every step.

use kolo_dtype::exact::Summand;

/// Bits above 2^-1074, with room.
const BITS: usize = 2300;

/// An integer as binary digits, lowest first.
type Digits = Vec<i64>;

/// The correctly rounded sum.
pub fn sum<T: Summand>(terms: &[T]) -> T {
    let float = Float::of::<T>();
    let raws: Vec<u64> = terms.iter().map(|term| term.to_raw()).collect();
    let nan = raws.iter().any(|&raw| float.is_nan(raw));
    let has = |wanted| raws.contains(&wanted);
    match (
        nan,
        has(float.infinity()),
        has(float.infinity() | float.sign()),
    ) {
        (true, ..) | (_, true, true) => return T::from_raw(float.nan()),
        (_, true, _) => return T::from_raw(float.infinity()),
        (_, _, true) => return T::from_raw(float.infinity() | float.sign()),
        _ => {}
    }
    let mut digits = vec![0; BITS];
    for &raw in &raws {
        float.spread(raw, &mut digits);
    }
    let negative = carry(&mut digits);
    if digits.iter().all(|&digit| digit == 0) {
        let all_minus = !raws.is_empty() && raws.iter().all(|&raw| raw == float.sign());
        return T::from_raw(if all_minus { float.sign() } else { 0 });
    }
    let magnitude = float.nearest(&digits);
    T::from_raw(magnitude | if negative { float.sign() } else { 0 })
}

/// Makes all digits 0 or 1; true if the number was negative, which is then turned around.
fn carry(digits: &mut Digits) -> bool {
    let mut sum = 0;
    let original = digits.clone();
    for digit in digits.iter_mut() {
        sum += *digit;
        *digit = sum.rem_euclid(2);
        sum = sum.div_euclid(2);
    }
    if sum >= 0 {
        assert_eq!(sum, 0, "the oracle has room");
        return false;
    }
    *digits = original.iter().map(|digit| -digit).collect();
    assert!(!carry(digits));
    true
}

/// A type's layout.
struct Float {
    bytes: usize,
    fraction: usize,
    exponent: u64,
}

impl Float {
    fn of<T: Summand>() -> Float {
        match size_of::<T>() {
            4 => Float {
                bytes: 4,
                fraction: 23,
                exponent: 0xff,
            },
            _ => Float {
                bytes: 8,
                fraction: 52,
                exponent: 0x7ff,
            },
        }
    }

    fn sign(&self) -> u64 {
        1 << (self.bytes * 8 - 1)
    }

    fn infinity(&self) -> u64 {
        self.exponent << self.fraction
    }

    fn nan(&self) -> u64 {
        self.infinity() | 1 << (self.fraction - 1)
    }

    fn is_nan(&self, raw: u64) -> bool {
        raw & !self.sign() > self.infinity()
    }

    /// Adds the bits of a finite float to the digits, which count the type's smallest number.
    fn spread(&self, raw: u64, digits: &mut Digits) {
        let value = if raw & self.sign() != 0 { -1 } else { 1 };
        let exponent = (raw & !self.sign()) >> self.fraction;
        let start = exponent.max(1) as usize - 1;
        for bit in 0..self.fraction {
            digits[start + bit] += value * (raw >> bit & 1) as i64;
        }
        digits[start + self.fraction] += value * i64::from(exponent != 0);
    }

    /// The float nearest to a positive number: by bisection over all floats, then by distance.
    fn nearest(&self, digits: &Digits) -> u64 {
        let at_most = |raw: u64| {
            let mut of_raw = vec![0; BITS];
            self.spread(raw, &mut of_raw);
            !carry(&mut digits.iter().zip(&of_raw).map(|(a, b)| a - b).collect())
        };
        // The largest float not above the number; 2^(largest exponent + 1) stands for infinity.
        let (mut low, mut high) = (0, self.infinity());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            (low, high) = if at_most(middle) {
                (middle, high)
            } else {
                (low, middle)
            };
        }
        // Twice the number against the sum of both neighbours.
        let mut twice: Digits = digits.iter().map(|digit| 2 * digit).collect();
        let mut neighbours = vec![0; BITS];
        self.spread(low, &mut neighbours);
        self.spread(high, &mut neighbours);
        for (digit, other) in twice.iter_mut().zip(neighbours) {
            *digit -= other;
        }
        let below = carry(&mut twice);
        let tie = twice.iter().all(|&digit| digit == 0);
        if below || (tie && low & 1 == 0) {
            low
        } else {
            high
        }
    }
}

#[test]
fn the_oracle_knows_simple_sums() {
    assert_eq!(sum(&[1.0, 2.0, 3.5]), 6.5);
    assert_eq!(sum(&[0.1f32, 0.2]), 0.3f32);
    assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
    assert_eq!(sum(&[1.0, f64::EPSILON / 2.0]), 1.0);
    assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
    assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
    assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
    assert_eq!(sum::<f64>(&[]).to_bits(), 0);
}
