//! Formats: what ranks send, added as integers in any order, decodes to the rounded exact sum.

use super::data::{KINDS, terms};
use super::oracle;
use fastrand::Rng;
use kolo_dtype::exact::window::Bounds;
use kolo_dtype::exact::wire::Format;
use kolo_dtype::exact::{ExactSum, Summand};

/// Adds what the ranks sent, as an all-reduce does: pairwise in a random order.
pub fn add_up(rng: &mut Rng, mut sent: Vec<Vec<i64>>) -> Vec<i64> {
    while sent.len() > 1 {
        let one = sent.swap_remove(rng.usize(..sent.len()));
        let other = rng.usize(..sent.len());
        for (sum, word) in sent[other].iter_mut().zip(one) {
            *sum = sum
                .checked_add(word)
                .expect("limbs have room for every rank");
        }
    }
    sent.remove(0)
}

/// The value that ranks get for their parts.
fn whole<T: Summand>(rng: &mut Rng, format: &Format, parts: &[&[T]]) -> T {
    let encode = |part: &&[T]| {
        let mut words = vec![-1; format.words()];
        match part {
            [one] => format.encode(*one, &mut words),
            part => {
                let sum: ExactSum<_> = part.iter().copied().collect();
                sum.encode(format, &mut words);
            }
        }
        words
    };
    let sent = parts.iter().map(encode).collect();
    format.decode(&add_up(rng, sent))
}

/// Sums by windows, for one term a rank.
fn windowed<T: Summand>(rng: &mut Rng, format: &Format, terms: &[T]) -> T {
    let mut bytes = [0; 4];
    for &term in terms {
        for (most, byte) in bytes.iter_mut().zip(Bounds::of(format, term).bytes()) {
            *most = byte.max(*most);
        }
    }
    let bounds = Bounds::from_bytes(bytes);
    let encode = |&term: &T| {
        let mut limbs = vec![-1; bounds.width(format)];
        bounds.encode(format, term, &mut limbs);
        limbs
    };
    let sent = terms.iter().map(encode).collect();
    bounds.decode(format, &add_up(rng, sent))
}

fn agrees<T: Summand + std::fmt::Debug>(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let kind = KINDS[rng.usize(..KINDS.len())];
    let nranks = rng.usize(1..10);
    let count = nranks * rng.usize(1..20);
    let mut terms: Vec<T> = terms(&mut rng, kind, count);
    if rng.u8(..10) == 0 {
        let special = [
            T::SPECIAL << T::FRACTION_BITS,
            u64::MAX >> (64 - size_of::<T>() * 8),
        ];
        let at = rng.usize(..terms.len());
        terms[at] = T::from_raw(special[rng.usize(..2)]);
    }
    let wanted = oracle::sum(&terms).to_raw();
    // More ranks than there are must not matter, only the room in the limbs.
    for claimed in [nranks as u32, 1 << rng.u32(4..17), 70_000, 1 << 31] {
        let format = Format::of::<T>(claimed);
        let mut rest = &terms[..];
        let mut parts = Vec::new();
        while parts.len() + 1 < nranks {
            let (part, others) = rest.split_at(rng.usize(..=rest.len()));
            parts.push(part);
            rest = others;
        }
        parts.push(rest);
        let found = whole(&mut rng, &format, &parts).to_raw();
        assert_eq!(
            found, wanted,
            "{kind:?}, seed {seed}, {claimed} ranks, {terms:?}"
        );
    }
    let ones = &terms[..nranks];
    let wanted = oracle::sum(ones).to_raw();
    for claimed in [nranks as u32, 5000, 1 << 31] {
        let format = Format::of::<T>(claimed);
        let singles: Vec<&[T]> = ones.chunks(1).collect();
        let found = whole(&mut rng, &format, &singles).to_raw();
        assert_eq!(
            found, wanted,
            "{kind:?}, seed {seed}, {claimed} ranks, {ones:?}"
        );
        let found = windowed(&mut rng, &format, ones).to_raw();
        assert_eq!(
            found, wanted,
            "window: {kind:?}, seed {seed}, {claimed} ranks, {ones:?}"
        );
    }
}

#[test]
fn every_partition_gives_the_same_bits() {
    for seed in 0..400 {
        agrees::<f64>(seed);
        agrees::<f32>(seed);
    }
}

#[test]
fn as_many_ranks_as_a_format_allows_fit() {
    for nranks in [1u32, 2, 8, 9, 1000, 1024, 65_535, 65_536, 100_000, 1 << 31] {
        let format = Format::of::<f64>(nranks);
        let mut sum = ExactSum::new();
        sum.add(-f64::MAX);
        sum.add(-f64::MIN_POSITIVE);
        let mut words = vec![0; format.words()];
        sum.encode(&format, &mut words);
        let total: Vec<i64> = words
            .iter()
            .map(|&word| {
                // Marks are counted in unsigned fields that may fill the word.
                let product = i128::from(word) * i128::from(nranks);
                assert!(product.unsigned_abs() < 1 << 64, "{nranks} ranks");
                product as i64
            })
            .collect();
        let limbs = &words[..format.limbs()];
        let fits = |&limb: &i64| limb.checked_mul(i64::from(nranks)).is_some();
        assert!(limbs.iter().all(fits), "{nranks} ranks");
        let wanted = if nranks == 1 {
            -f64::MAX
        } else {
            f64::NEG_INFINITY
        };
        assert_eq!(format.decode::<f64>(&total), wanted, "{nranks} ranks");
    }
}

#[test]
fn every_rank_with_nan_is_counted() {
    for nranks in [1i64, 65_535, 65_536, 1 << 31] {
        let format = Format::of::<f64>(nranks as u32);
        let mut words = vec![0; format.words()];
        format.encode(f64::NAN, &mut words);
        words
            .iter_mut()
            .for_each(|word| *word = word.wrapping_mul(nranks));
        assert!(format.decode::<f64>(&words).is_nan());
        format.encode(-0.0, &mut words);
        words
            .iter_mut()
            .for_each(|word| *word = word.wrapping_mul(nranks));
        assert_eq!(format.decode::<f64>(&words).to_bits(), (-0.0f64).to_bits());
    }
}

#[test]
fn few_ranks_send_few_words() {
    let words = |nranks| {
        (
            Format::of::<f64>(nranks).words(),
            Format::of::<f32>(nranks).words(),
        )
    };
    assert_eq!(words(8), (37, 7));
    assert_eq!(words(1024), (42, 8));
    assert_eq!(words(1 << 31), (70, 13));
    for nranks in (0..31).map(|bit| 1u32 << bit) {
        assert!(words(nranks).0 <= Format::MOST_WORDS);
    }
}

#[test]
fn terms_of_similar_size_travel_in_two_limbs() {
    let format = Format::of::<f64>(8);
    let mut widths = [0; 40];
    for seed in 0..1000 {
        let mut rng = Rng::with_seed(seed);
        let scale = 2f64.powi(rng.i32(-1000..1000));
        let bounds = [0.3, -0.9, 0.77].map(|term| Bounds::of(&format, term * scale).bytes());
        let mut most = bounds[0];
        for other in bounds {
            most = std::array::from_fn(|i| most[i].max(other[i]));
        }
        widths[Bounds::from_bytes(most).width(&format)] += 1;
    }
    assert_eq!(widths[1] + widths[2], 1000, "{widths:?}");
}

#[test]
fn bounds_that_no_rank_can_send_do_no_harm() {
    let format = Format::of::<f32>(8);
    for seed in 0..2000 {
        let mut rng = Rng::with_seed(seed);
        let bounds = Bounds::from_bytes(std::array::from_fn(|_| rng.u8(..)));
        assert!(bounds.width(&format) <= format.limbs());
    }
}

#[test]
fn places_are_quotients() {
    for nranks in (0..=31).map(|bit| 1u32 << bit) {
        let format = Format::of::<f64>(nranks);
        let payload = (63 - nranks.ilog2()).min(60);
        for bit in 0..2176 {
            let wanted = ((bit / payload) as usize, bit % payload);
            assert_eq!(format.place(bit), wanted, "bit {bit}, {nranks} ranks");
        }
    }
}
