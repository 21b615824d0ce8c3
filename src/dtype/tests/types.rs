//! The tables of data types and operations.

use kolo_dtype::{DataType, ReduceOp};

#[test]
fn numbers_and_names_round_trip() {
    for (index, dtype) in DataType::ALL.into_iter().enumerate() {
        assert_eq!(dtype as usize, index);
        assert_eq!(DataType::from_index(index), Some(dtype));
        assert_eq!(DataType::from_number(dtype.number()), Some(dtype));
        assert_eq!(DataType::from_name(dtype.name()), Some(dtype));
        assert_eq!(dtype.size_bytes() % dtype.align_bytes(), 0, "{dtype}");
    }
    for (index, op) in ReduceOp::ALL.into_iter().enumerate() {
        assert_eq!(op as usize, index);
        assert_eq!(
            op.number().and_then(ReduceOp::from_number),
            op.number().map(|_| op)
        );
        assert_eq!(ReduceOp::from_name(op.name()), Some(op));
    }
    assert_eq!(ReduceOp::from_name("premulsum"), Some(ReduceOp::PreMulSum));
}

#[test]
fn unknown_numbers_and_names_are_refused() {
    for number in [-1, 12, 19, 31, 38, i32::MAX, i32::MIN] {
        assert_eq!(DataType::from_number(number), None, "{number}");
        assert_eq!(ReduceOp::from_number(number), None, "{number}");
    }
    assert_eq!(
        ReduceOp::from_number(5),
        None,
        "a made operation has no fixed number"
    );
    for name in ["", "Float", "float32", "sum "] {
        assert_eq!(DataType::from_name(name), None);
        assert_eq!(ReduceOp::from_name(name), None);
    }
}

#[test]
fn every_type_has_operations_and_every_operation_types() {
    for dtype in DataType::ALL {
        assert!(dtype.operations().count() >= 2, "{dtype}");
    }
    for op in ReduceOp::ALL {
        assert!(
            DataType::ALL.into_iter().any(|dtype| op.combines(dtype)),
            "{op}"
        );
    }
}

#[test]
fn floats_are_known() {
    let floats: Vec<_> = DataType::ALL.into_iter().filter(|d| d.is_float()).collect();
    assert_eq!(floats[0], DataType::Float16);
    assert_eq!(floats.len(), 6);
}
