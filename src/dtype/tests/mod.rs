//! Every kernel against a naive oracle, with the same seeds for every instruction set.

mod compounds;
mod conversions;
mod exact;
mod harness;
mod known;
mod mutants;
mod oracle;
mod random;
mod special;
mod types;

use kolo_dtype::{DataType, Isa, ReduceOp};

/// The instruction sets of this machine; the portable one is always among them.
fn available() -> Vec<Isa> {
    Isa::ALL
        .into_iter()
        .filter(|isa| isa.is_available())
        .collect()
}

/// Every pair of data type and operation that combines it.
fn pairs() -> impl Iterator<Item = (DataType, ReduceOp)> {
    DataType::ALL
        .into_iter()
        .flat_map(|dtype| dtype.operations().map(move |op| (dtype, op)))
}

#[test]
fn every_instruction_set_has_what_the_table_says() {
    for isa in available() {
        for dtype in DataType::ALL {
            for op in ReduceOp::ALL {
                let found = kolo_dtype::fold_of(isa, dtype, op).is_some();
                assert_eq!(found, op.combines(dtype), "{} {dtype} {op}", isa.name());
            }
        }
    }
}

#[test]
fn the_best_available_instruction_set_is_chosen() {
    let best = available().pop().unwrap();
    assert_eq!(kolo_dtype::isa_name(), best.name());
    for (dtype, op) in pairs() {
        let wanted = kolo_dtype::fold_of(best, dtype, op).unwrap();
        let found = kolo_dtype::fold(dtype, op).unwrap();
        assert!(std::ptr::fn_addr_eq(found, wanted));
    }
    assert!(std::ptr::fn_addr_eq(
        kolo_dtype::copy(),
        kolo_dtype::copy_of(best).unwrap()
    ));
}
