//! Data of which every result is known: nothing of it is rounded, and it differs where it must.

use kolo_dtype::known::values::{Value, exact_limit, narrow};
use kolo_dtype::known::{Data, PERIOD};
use kolo_dtype::{DataType, F8E4M3, F8E5M2, ReduceOp, bf16, f16};

#[test]
fn partial_sums_and_products_need_no_rounding() {
    for dtype in DataType::ALL {
        for nranks in [1, 2, 3, 7, 64, 300] {
            let sums = [ReduceOp::Sum, ReduceOp::PreMulSum];
            for op in sums.into_iter().filter(|op| op.combines(dtype)) {
                let data = Data {
                    dtype,
                    op: Some(op),
                    nranks,
                    repetition: 3,
                };
                for element in 0..50 {
                    let most: i64 = (0..nranks)
                        .map(|rank| match data.value(op, rank, element) {
                            Value::Number(a) => 2 * a.abs(),
                            Value::Complex(a, b) => 2 * a.abs().max(b.abs()),
                            other => panic!("{other:?} is not added"),
                        })
                        .sum();
                    let scale = if op == ReduceOp::Sum { 2 } else { 1 };
                    assert!(
                        most <= scale * exact_limit(dtype) as i64,
                        "{dtype} {op} {most}"
                    );
                }
            }
        }
    }
}

#[test]
fn data_differ_by_rank_element_and_repetition() {
    let input = |rank, repetition| {
        let op = Some(ReduceOp::Sum);
        let data = Data {
            dtype: DataType::Float32,
            op,
            nranks: 4,
            repetition,
        };
        let mut place = vec![0; 400];
        data.input(rank, 100).fill(0, &mut place);
        place
    };
    assert_ne!(input(0, 0), input(1, 0));
    assert_ne!(input(0, 0), input(0, 1));
    assert_ne!(input(0, 0)[..4], input(0, 0)[4..8]);
}

#[test]
fn patterns_wrap_and_count_wrong_elements() {
    let data = Data {
        dtype: DataType::Int32,
        op: None,
        nranks: 1,
        repetition: 0,
    };
    let pattern = data.input(0, usize::MAX);
    let mut place = vec![0; 3 * PERIOD * 4];
    pattern.fill(5, &mut place);
    assert_eq!(pattern.wrong(5, &place), 0);
    assert_eq!(place[..4], place[PERIOD * 4..PERIOD * 4 + 4]);
    assert!(pattern.wrong(6, &place) > 2 * PERIOD as u64);
    place[17] ^= 1;
    place[19] ^= 1;
    place[40_000] ^= 1;
    assert_eq!(pattern.wrong(5, &place), 2);
}

#[test]
fn narrow_codes_match_the_types() {
    for numerator in -300i32..=300 {
        for divisor in 1..20 {
            let value = f64::from(numerator) / f64::from(divisor);
            let near = value as f32;
            assert_eq!(
                narrow(value, 10, 15, 16),
                u64::from(f16::from_f64(value).to_bits())
            );
            assert_eq!(
                narrow(value, 7, 127, 16),
                u64::from(bf16::from_f64(value).to_bits())
            );
            let e4m3 = u64::from(F8E4M3::from_f32(near).to_bits());
            assert_eq!(narrow(value, 3, 7, 8), e4m3, "{value}");
            let e5m2 = u64::from(F8E5M2::from_f32(near).to_bits());
            assert_eq!(narrow(value, 2, 15, 8), e5m2, "{value}");
        }
    }
}

#[test]
fn pairs_and_complex_numbers_lie_as_c_has_them() {
    let mut place = [0xff; 16];
    Value::Pair(3, -7).encode(DataType::DoubleInt, 1, &mut place);
    assert_eq!(place[..8], 3f64.to_le_bytes());
    assert_eq!(place[8..12], (-7i32).to_le_bytes());
    assert_eq!(place[12..], [0; 4]);
    Value::Complex(1, -2).encode(DataType::Complex128, 2, &mut place);
    assert_eq!(place[..8], 0.5f64.to_le_bytes());
    assert_eq!(place[8..], (-1f64).to_le_bytes());
    let tie = Value::Pair(5, 3).combine(ReduceOp::Maxloc, Value::Pair(5, 2));
    assert_eq!(tie, Value::Pair(5, 2));
    assert_eq!(
        Value::Complex(2, 1).combine(ReduceOp::Prod, Value::Complex(2, 1)),
        Value::Complex(3, 4)
    );
}
