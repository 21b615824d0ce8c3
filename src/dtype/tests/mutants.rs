//! Kernels with a fault: the harness must find every one of them, else it proves nothing.

use super::harness::{case, check};
use super::pairs;
use fastrand::Rng;
use kolo_dtype::{Class, DataType, FoldFn, FoldParams, ReduceOp};

fn fold(dtype: DataType, op: ReduceOp) -> FoldFn {
    kolo_dtype::fold(dtype, op).unwrap()
}

/// Whether one of a hundred cases shows that `kernel` does not compute (`dtype`, `op`).
fn is_found(kernel: FoldFn, dtype: DataType, op: ReduceOp) -> bool {
    (0..100).any(|seed| check(kernel, &case(&mut Rng::with_seed(seed), dtype, op)).is_err())
}

#[test]
fn the_wrong_operation_is_found() {
    // Scaled sums are sums in the cases that scale nothing.
    let is_plain = |op: &ReduceOp| !matches!(op, ReduceOp::Avg | ReduceOp::PreMulSum);
    for dtype in DataType::ALL {
        for computed in dtype.operations().filter(is_plain) {
            for claimed in dtype.operations().filter(is_plain) {
                let found = is_found(fold(dtype, computed), dtype, claimed);
                assert_eq!(
                    found,
                    computed != claimed,
                    "{dtype}: {computed} taken for {claimed}"
                );
            }
        }
    }
}

#[test]
fn the_wrong_type_is_found() {
    // What combines the same bits alike: types of which only the names differ there.
    let alike = |a: DataType, b: DataType, op: ReduceOp| {
        let (classes, sizes) = ([a.class(), b.class()], [a.size_bytes(), b.size_bytes()]);
        let bitwise = matches!(op, ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor);
        let truth = matches!(op, ReduceOp::Land | ReduceOp::Lor | ReduceOp::Lxor);
        let byte = |class| class == Class::Bytes;
        sizes[0] != sizes[1]
            || bitwise
            || truth
            || classes == [Class::Integer; 2]
            || (classes.into_iter().any(byte) && classes.into_iter().any(|c| c != Class::Float))
    };
    for (dtype, op) in pairs() {
        for other in DataType::ALL
            .into_iter()
            .filter(|&other| op.combines(other))
        {
            if other != dtype && !alike(dtype, other, op) {
                assert!(
                    is_found(fold(other, op), dtype, op),
                    "{op}: {other} taken for {dtype}"
                );
            }
        }
    }
    let (int, uint) = (DataType::Int64, DataType::Uint64);
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg] {
        assert!(is_found(fold(int, op), uint, op) && is_found(fold(uint, op), int, op));
    }
    for op in [ReduceOp::Max, ReduceOp::Min] {
        assert!(is_found(fold(DataType::Int8, op), DataType::Byte, op));
    }
}

type Lists<'a> = (&'a [*const u8], &'a [*mut u8], usize, &'a FoldParams);

/// A mutant: a kernel of float sums (or another operation) with one fault.
macro_rules! mutant {
    ($test:ident, $dtype:ident, $op:ident, $body:expr) => {
        #[test]
        fn $test() {
            /// # Safety
            /// As `FoldFn`.
            unsafe fn mutant(
                srcs: &[*const u8],
                dsts: &[*mut u8],
                count: usize,
                params: &FoldParams,
            ) {
                let body: unsafe fn(FoldFn, Lists<'_>) = $body;
                let kernel = fold(DataType::$dtype, ReduceOp::$op);
                // SAFETY: the mutants stay within the guards of the harness.
                unsafe { body(kernel, (srcs, dsts, count, params)) }
            }
            let (dtype, op) = (DataType::$dtype, ReduceOp::$op);
            assert!(
                !is_found(fold(dtype, op), dtype, op),
                "the kernel itself is right"
            );
            assert!(is_found(mutant, dtype, op), "the fault was not found");
        }
    };
}

mutant!(a_lost_last_element_is_found, Float64, Sum, |kernel,
                                                     (
    srcs,
    dsts,
    count,
    params,
)| {
    // SAFETY: a shorter range.
    unsafe { kernel(srcs, dsts, count.saturating_sub(1), params) }
});

mutant!(a_write_past_the_end_is_found, Float64, Sum, |kernel,
                                                      (
    srcs,
    dsts,
    count,
    params,
)| {
    // SAFETY: the guards are longer than one element.
    unsafe { kernel(srcs, dsts, count + 1, params) }
});

mutant!(another_order_is_found, Float32, Sum, |kernel,
                                               (
    srcs,
    dsts,
    count,
    params,
)| {
    let mut srcs = srcs.to_vec();
    srcs.reverse();
    // SAFETY: the same sources.
    unsafe { kernel(&srcs, dsts, count, params) }
});

mutant!(a_lost_source_is_found, Uint8, Max, |kernel,
                                             (
    srcs,
    dsts,
    count,
    params,
)| {
    let kept = srcs.len().max(2) - 1;
    // SAFETY: fewer sources.
    unsafe { kernel(&srcs[..kept], dsts, count, params) }
});

mutant!(a_lost_destination_is_found, Int32, Min, |kernel,
                                                  (
    srcs,
    dsts,
    count,
    params,
)| {
    let kept = dsts.len().min(2);
    // SAFETY: fewer destinations.
    unsafe { kernel(srcs, &dsts[..kept], count, params) }
});

mutant!(a_forgotten_factor_is_found, Int64, PreMulSum, |kernel,
                                                        (
    srcs,
    dsts,
    count,
    params,
)| {
    let params = FoldParams {
        pre_scale_mask: params.pre_scale_mask & !1,
        ..*params
    };
    // SAFETY: other parameters only.
    unsafe { kernel(srcs, dsts, count, &params) }
});

mutant!(a_forgotten_division_is_found, Bfloat16, Avg, |kernel,
                                                       (
    srcs,
    dsts,
    count,
    params,
)| {
    let params = FoldParams {
        divisor: None,
        ..*params
    };
    // SAFETY: other parameters only.
    unsafe { kernel(srcs, dsts, count, &params) }
});

mutant!(
    rounding_at_every_addition_is_found,
    Float16,
    Sum,
    |kernel, lists| {
        let (srcs, dsts, count, params) = lists;
        let mut sofar = vec![0u16; count];
        let own: *mut u8 = sofar.as_mut_ptr().cast();
        // SAFETY: `sofar` has `count` elements of its own; it is the only intermediate destination.
        unsafe {
            kernel(&srcs[..1], &[own], count, &FoldParams::default());
            for &src in &srcs[1..] {
                kernel(&[own, src], &[own], count, &FoldParams::default());
            }
            kernel(&[own], dsts, count, params);
        }
    }
);

mutant!(an_arbitrary_nan_is_found, Float32, Sum, |kernel,
                                                  (
    srcs,
    dsts,
    count,
    params,
)| {
    // SAFETY: the kernel writes the destinations, which are then only changed in place.
    unsafe {
        kernel(srcs, dsts, count, params);
        for &dst in dsts.iter().filter(|_| srcs.len() > 1) {
            for word in 0..count {
                let at = dst.cast::<u32>().add(word);
                if f32::from_bits(at.read_unaligned()).is_nan() {
                    at.write_unaligned(0xffc0_0000);
                }
            }
        }
    }
});
