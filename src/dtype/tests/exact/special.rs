//! Special values, ties and limits, each with its answer written down.

use kolo_dtype::exact::ExactSum;

const TINY: f64 = 5e-324;

fn bits(terms: &[f64]) -> u64 {
    let short: ExactSum<f64> = terms.iter().copied().collect();
    // The same terms among so many zeros that bins are used.
    let mut sum = ExactSum::new();
    let zero = if terms.iter().all(|term| term.to_bits() == (-0f64).to_bits()) {
        -0.0
    } else {
        0.0
    };
    let mut long = vec![zero; 1000];
    if terms.is_empty() {
        long.clear();
    }
    for (place, &term) in terms.iter().enumerate() {
        long[place * 7 % 1000] = term;
    }
    sum.add_slice(&long);
    assert_eq!(short.value().to_bits(), sum.value().to_bits(), "{terms:?}");
    short.value().to_bits()
}

fn is(terms: &[f64], wanted: f64) {
    assert_eq!(bits(terms), wanted.to_bits(), "{terms:?}");
}

#[test]
fn nan_and_infinities() {
    const CANONICAL: u64 = 0x7ff8_0000_0000_0000;
    let inf = f64::INFINITY;
    assert_eq!(
        bits(&[f64::from_bits(0xfff0_0000_0000_0001), 1.0]),
        CANONICAL
    );
    assert_eq!(bits(&[inf, 1.0, -inf]), CANONICAL);
    assert_eq!(bits(&[f64::NAN, inf]), CANONICAL);
    is(&[inf, inf, -1e308], inf);
    is(&[-inf, 1e308], -inf);
    let single: ExactSum<f32> = [f32::NEG_INFINITY, f32::MAX].into_iter().collect();
    assert_eq!(single.value(), f32::NEG_INFINITY);
    let nan: ExactSum<f32> = [f32::NEG_INFINITY, f32::INFINITY].into_iter().collect();
    assert_eq!(nan.value().to_bits(), 0x7fc0_0000);
}

#[test]
fn zeros_have_the_sign_that_ieee_gives() {
    is(&[], 0.0);
    is(&[-0.0], -0.0);
    is(&[-0.0, -0.0, -0.0], -0.0);
    is(&[0.0, -0.0], 0.0);
    is(&[1.0, -1.0], 0.0);
    is(&[-1.0, 1.0, -0.0], 0.0);
    is(&[-TINY, TINY], 0.0);
}

#[test]
fn overflow_is_that_of_the_sum_and_not_of_its_parts() {
    let half_ulp = 2f64.powi(970);
    is(&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX);
    is(&[f64::MAX, f64::MAX], f64::INFINITY);
    is(&[-f64::MAX, -f64::MAX], f64::NEG_INFINITY);
    is(&[f64::MAX, half_ulp], f64::INFINITY);
    is(&[f64::MAX, half_ulp, -TINY], f64::MAX);
    is(&[f64::MAX, half_ulp / 2.0], f64::MAX);
    let single: ExactSum<f32> = [f32::MAX; 3].into_iter().collect();
    assert_eq!(single.value(), f32::INFINITY);
}

#[test]
fn ties_go_to_even_and_dust_breaks_them() {
    let half = f64::EPSILON / 2.0;
    is(&[1.0, half], 1.0);
    is(&[1.0, half, TINY], 1.0 + f64::EPSILON);
    is(&[1.0 + f64::EPSILON, half], 1.0 + 2.0 * f64::EPSILON);
    is(&[1.0 + f64::EPSILON, half, -TINY], 1.0 + f64::EPSILON);
    is(&[-1.0, -half, -TINY], -1.0 - f64::EPSILON);
    // Rounding that moves the exponent.
    is(&[2.0 - f64::EPSILON, half], 2.0);
}

#[test]
fn subnormal_sums_are_exact() {
    is(&[TINY, TINY, TINY], 3.0 * TINY);
    is(&[f64::MIN_POSITIVE, -TINY], f64::MIN_POSITIVE - TINY);
    is(&[f64::MIN_POSITIVE - TINY, TINY], f64::MIN_POSITIVE);
    is(&[1.0, -1.0, -TINY], -TINY);
    let tiny = f32::from_bits(1);
    let single: ExactSum<f32> = [1e30, tiny, -1e30, tiny].into_iter().collect();
    assert_eq!(single.value().to_bits(), 2);
}

#[test]
fn a_million_of_the_largest_numbers_cancel() {
    let mut sum = ExactSum::new();
    sum.add_slice(&vec![f64::MAX; 1_000_000]);
    sum.add(1.0);
    assert_eq!(sum.value(), f64::INFINITY);
    sum.add_slice(&vec![-f64::MAX; 1_000_000]);
    assert_eq!(sum.value(), 1.0);
}
