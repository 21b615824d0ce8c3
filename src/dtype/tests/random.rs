//! Random lengths, alignments, lists, places and values, the same for every instruction set.

use super::harness::{Case, Draw, case, check, elements};
use super::{available, pairs};
use fastrand::Rng;
use kolo_dtype::{DataType, FoldParams, ReduceOp, copy_of, fold_of};

const CASES: u64 = 60;

#[test]
fn every_kernel_equals_the_oracle() {
    for isa in available() {
        for (dtype, op) in pairs() {
            let kernel = fold_of(isa, dtype, op).unwrap();
            for round in 0..CASES {
                let seed = 1_000_000 * (dtype as u64) + 10_000 * (op as u64) + round;
                let case = case(&mut Rng::with_seed(seed), dtype, op);
                if let Err(difference) = check(kernel, &case) {
                    panic!(
                        "{} {dtype} {op}, seed {seed}, count {}, {} sources, destinations {:?}, \
                         shifts {:?}, {:?}: {difference}",
                        isa.name(),
                        case.count,
                        case.srcs.len(),
                        case.dsts,
                        case.shifts,
                        case.params,
                    );
                }
            }
        }
    }
}

#[test]
fn copies_equal_their_source() {
    for isa in available() {
        let kernel = copy_of(isa).unwrap();
        for seed in 0..300 {
            let mut rng = Rng::with_seed(seed);
            let count = match rng.u8(..4) {
                0 => rng.usize(..4),
                1 => rng.usize(..300),
                2 => rng.usize(1000..3000),
                _ => rng.usize(8000..20_000),
            };
            let ndsts = rng.usize(..5);
            let mut dsts = vec![None; ndsts];
            if ndsts > 0 && rng.u8(..3) == 0 {
                dsts[rng.usize(..ndsts)] = Some(0);
            }
            let case = Case {
                dtype: DataType::Uint8,
                op: ReduceOp::Sum,
                count,
                srcs: vec![(0..count).map(|_| rng.u8(..)).collect()],
                dsts,
                shifts: (0..=ndsts).map(|_| rng.usize(..64)).collect(),
                params: FoldParams {
                    stream_mask: rng.u64(..) & rng.u64(..),
                    ..FoldParams::default()
                },
            };
            if let Err(difference) = check(kernel, &case) {
                panic!(
                    "{} copy, seed {seed}, count {count}: {difference}",
                    isa.name()
                );
            }
        }
    }
}

/// More sources and destinations than a mask has bits.
#[test]
fn long_lists_are_folded_in_order() {
    for isa in available() {
        for (dtype, op) in pairs() {
            let kernel = fold_of(isa, dtype, op).unwrap();
            let mut rng = Rng::with_seed(77 + dtype as u64);
            let mut case = case(&mut rng, dtype, op);
            case.count = 37;
            case.srcs = (0..70)
                .map(|_| elements(&mut rng, dtype, Draw::Similar, 37))
                .collect();
            case.dsts = vec![None; 66];
            case.shifts = vec![dtype.size_bytes(); 136];
            case.params.pre_scale_mask = 0;
            case.params.stream_mask = u64::MAX;
            let beyond: &[usize] = match op {
                ReduceOp::PreMulSum => &[0, 64, 69],
                _ => &[0],
            };
            for &number in beyond {
                case.params.pre_scale_beyond = number;
                if let Err(difference) = check(kernel, &case) {
                    panic!("{} {dtype} {op}, {number}: {difference}", isa.name());
                }
            }
        }
    }
}

/// Results longer than a piece go to their later destinations piece by piece, one of which may be a
/// source.
#[test]
fn long_results_with_several_destinations_are_whole() {
    for isa in available() {
        let some = [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::PreMulSum];
        for (dtype, op) in pairs().filter(|(_, op)| some.contains(op)) {
            let kernel = fold_of(isa, dtype, op).unwrap();
            let seed = 191 + dtype as u64;
            let mut rng = Rng::with_seed(seed);
            let mut case = case(&mut rng, dtype, op);
            case.count = (70_000 + rng.usize(..5000)) / dtype.size_bytes();
            let mut source = || elements(&mut rng, dtype, Draw::Similar, case.count);
            case.srcs = vec![source(), source()];
            case.dsts = vec![[None, Some(1)][rng.usize(..2)], None, None];
            case.dsts.rotate_left(rng.usize(..3));
            case.shifts = vec![dtype.size_bytes(); 5];
            case.params.stream_mask = 0;
            if let Err(difference) = check(kernel, &case) {
                panic!("{} {dtype} {op}, seed {seed}: {difference}", isa.name());
            }
        }
    }
}
