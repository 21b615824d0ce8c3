//! One accumulator: values against both oracles, order, grouping, views.

use super::data::{KINDS, terms};
use super::oracle;
use accurate::sum::OnlineExactSum;
use accurate::traits::*;
use fastrand::Rng;
use kolo_dtype::exact::{Dimension, ExactSum, Mask, Summand, View};

fn exact<T: Summand>(terms: &[T]) -> ExactSum<T> {
    let mut sum = ExactSum::new();
    sum.add_slice(terms);
    sum
}

fn agrees<T: Summand>(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let kind = KINDS[rng.usize(..KINDS.len())];
    // Both sides of the length from which bins are used.
    let count = [rng.usize(..6), rng.usize(..40), rng.usize(150..500)][rng.usize(..3)];
    let mut terms: Vec<T> = terms(&mut rng, kind, count);
    let wanted = oracle::sum(&terms).to_raw();
    let name = format!("{kind:?}, {count} terms, seed {seed}");
    assert_eq!(exact(&terms).value().to_raw(), wanted, "slice: {name}");
    let one_by_one: ExactSum<T> = terms.iter().copied().collect();
    assert_eq!(one_by_one.value().to_raw(), wanted, "one by one: {name}");
    rng.shuffle(&mut terms);
    assert_eq!(exact(&terms).value().to_raw(), wanted, "shuffled: {name}");
    let mut merged = ExactSum::new();
    let mut rest = &terms[..];
    while !rest.is_empty() {
        let (part, others) = rest.split_at(rng.usize(1..=rest.len()));
        merged.merge(&exact(part));
        rest = others;
    }
    assert_eq!(merged.value().to_raw(), wanted, "in parts: {name}");
}

#[test]
fn every_order_and_grouping_gives_the_rounded_exact_sum() {
    for seed in 0..400 {
        agrees::<f64>(seed);
        agrees::<f32>(seed);
    }
}

#[test]
fn long_sums_agree_with_another_crate() {
    for seed in 1000..1100 {
        let mut rng = Rng::with_seed(seed);
        let (count, range) = (rng.usize(1..20_000), rng.i32(1..400));
        let mut terms: Vec<f64> = Vec::new();
        while terms.len() < count {
            // No partial sum overflows: the other crate cannot have that.
            let term = (rng.f64() - 0.5) * 2f64.powi(rng.i32(-range..range));
            terms.push(term);
            if rng.bool() {
                terms.push(-term * if rng.bool() { 1.0 } else { 1.0 + f64::EPSILON });
            }
        }
        rng.shuffle(&mut terms);
        let wanted = OnlineExactSum::zero().absorb(terms.iter().copied()).sum();
        let found = exact(&terms).value();
        assert_eq!(found, wanted, "{count} terms, range {range}, seed {seed}");
    }
}

#[test]
fn views_add_what_their_mask_selects() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let kind = KINDS[rng.usize(..KINDS.len())];
        let shape = [rng.usize(1..9), rng.usize(1..7), rng.usize(1..40)];
        let steps = [rng.usize(1..3), rng.usize(1..3), rng.usize(1..3)];
        let backwards = rng.bool();
        let whole: Vec<usize> = (0..3).map(|d| shape[d] * steps[d]).collect();
        let count = whole.iter().product();
        let data: Vec<f32> = terms(&mut rng, kind, count);
        let entry_bytes = [1, 4, 8][rng.usize(..3)];
        let mask: Vec<u8> = (0..count * entry_bytes)
            .map(|byte| u8::from(byte % entry_bytes == entry_bytes - 1) * rng.u8(..2))
            .collect();
        let with_mask = rng.bool();
        let mut dimensions = Vec::new();
        let mut distance = 1;
        for d in 0..3 {
            let step = (distance * steps[d]) as isize;
            dimensions.push(Dimension {
                extent: shape[d],
                stride: step * 4,
                mask_stride: step * entry_bytes as isize,
            });
            distance *= whole[d];
        }
        let mut first = 0;
        if backwards {
            let last = (shape[2] - 1) as isize;
            first = last * dimensions[2].stride / 4;
            dimensions[2].stride *= -1;
            dimensions[2].mask_stride *= -1;
        }
        let mut selected = Vec::new();
        for x in 0..shape[0] {
            for y in 0..shape[1] {
                for z in 0..shape[2] {
                    let at = x * steps[0] + whole[0] * (y * steps[1] + whole[1] * z * steps[2]);
                    let entry = &mask[at * entry_bytes..][..entry_bytes];
                    if !with_mask || entry.iter().any(|&byte| byte != 0) {
                        selected.push(data[at]);
                    }
                }
            }
        }
        let mask = with_mask.then(|| Mask {
            first: mask[first as usize * entry_bytes..].as_ptr(),
            entry_bytes,
        });
        // SAFETY: the dimensions stay inside of `data` and `mask`.
        let view = unsafe { View::new(data[first as usize..].as_ptr(), &dimensions, mask) };
        assert_eq!(view.elements(), shape.iter().product::<usize>());
        let mut sum = ExactSum::new();
        sum.add_view(&view);
        let wanted = oracle::sum(&selected);
        assert_eq!(
            sum.value().to_bits(),
            wanted.to_bits(),
            "{kind:?}, seed {seed}"
        );
    }
}

#[test]
fn scalars_empty_arrays_and_masks_of_slices() {
    let one = 2.5f64;
    let mut sum = ExactSum::new();
    // SAFETY: no dimension is one element.
    sum.add_view(&unsafe { View::new(&one, &[], None) });
    sum.add_slice(&[]);
    let none = [Dimension {
        extent: 0,
        stride: 8,
        mask_stride: 0,
    }; 2];
    // SAFETY: no element is named.
    sum.add_view(&unsafe { View::new(&one, &none, None) });
    sum.add_masked(&[1.0, f64::NAN, 4.0], &[true, false, true]);
    assert_eq!(sum.value(), 7.5);
}
