//! Sums with a fault: the data of these tests must find each of them, else they prove nothing.

use super::data::{KINDS, terms};
use super::oracle;
use super::travel::add_up;
use fastrand::Rng;
use kolo_dtype::exact::ExactSum;
use kolo_dtype::exact::wire::Format;

/// Whether some data shows that `sum` over ranks is wrong: `fault` spoils what each rank sends and
/// what all get.
fn is_found(fault: impl Fn(usize, &mut [i64])) -> bool {
    (0..100).any(|seed| {
        let mut rng = Rng::with_seed(seed);
        let kind = KINDS[rng.usize(..KINDS.len())];
        let mut terms: Vec<f64> = terms(&mut rng, kind, 60);
        if seed % 10 == 0 {
            terms.fill(-0.0);
        }
        let format = Format::of::<f64>(5);
        let send = |(rank, part): (usize, &[f64])| {
            let mut words = vec![0; format.words()];
            let sum: ExactSum<f64> = part.iter().copied().collect();
            sum.encode(&format, &mut words);
            fault(rank, &mut words);
            words
        };
        let sent = terms.chunks(12).enumerate().map(send).collect();
        let found: f64 = format.decode(&add_up(&mut rng, sent));
        found.to_bits() != oracle::sum(&terms).to_bits()
    })
}

#[test]
fn faults_on_the_way_are_found() {
    assert!(!is_found(|_, _| {}), "without a fault all is right");
    assert!(
        is_found(|rank, words| if rank == 3 {
            words[17] += 1
        }),
        "a changed limb"
    );
    assert!(
        is_found(|rank, words| if rank == 4 {
            words.fill(0)
        }),
        "a lost rank"
    );
    assert!(is_found(|_, words| words[36] &= 0xffff_ffff), "lost marks");
    let unsigned = |_: usize, words: &mut [i64]| words[..36].iter_mut().for_each(|w| *w = w.abs());
    assert!(is_found(unsigned), "a lost sign");
    let narrow = |_: usize, words: &mut [i64]| words[..36].iter_mut().for_each(|word| *word &= !1);
    assert!(is_found(narrow), "a lost last bit");
}

/// A carry-save sum whose limbs are rounded one by one, as if carries did not matter.
fn without_carry(words: &[i64]) -> f64 {
    words[..36]
        .iter()
        .enumerate()
        .filter(|(_, word)| **word != 0)
        .map(|(limb, &word)| (word & ((1 << 60) - 1)) as f64 * 2f64.powi(60 * limb as i32 - 1074))
        .sum()
}

#[test]
fn a_dropped_carry_is_found() {
    let mut sum = ExactSum::new();
    let term = 2f64.powi(59 - 1014);
    let format = Format::of::<f64>(2);
    let mut words = vec![0; format.words()];
    sum.add(term);
    sum.encode(&format, &mut words);
    assert_eq!(without_carry(&words), term, "one rank needs no carry");
    let both: Vec<i64> = words.iter().map(|word| 2 * word).collect();
    assert_eq!(format.decode::<f64>(&both), 2.0 * term);
    assert_ne!(without_carry(&both), 2.0 * term, "two ranks do");
}

#[test]
fn a_plain_sum_is_found() {
    let differs = |seed| {
        let mut rng = Rng::with_seed(seed);
        let terms: Vec<f64> = terms(&mut rng, KINDS[0], 500);
        oracle::sum(&terms).to_bits() != terms.iter().sum::<f64>().to_bits()
    };
    assert!((0..20).filter(|&seed| differs(seed)).count() > 10);
}
