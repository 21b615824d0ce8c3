//! Which kernel runs a call: the names of `kernels/kernels.def`. They begin with the number of the
//! layout, so a file of kernels of another version lacks them, and nobody launches what would read
//! other places.

use crate::dtype::{DataType, ReduceOp};
use crate::plan::Protocol;
use std::collections::BTreeSet;

/// The type and operation in a kernel's name; `None` where there is no kernel. A copy, an average
/// and a pre-multiplied sum are run by the sum of the type.
pub fn fold(dtype: DataType, op: Option<ReduceOp>) -> Option<String> {
    let element = match dtype {
        DataType::Int8 => "Int8",
        DataType::Uint8 => "Uint8",
        DataType::Int32 => "Int32",
        DataType::Uint32 => "Uint32",
        DataType::Int64 => "Int64",
        DataType::Uint64 => "Uint64",
        DataType::Float16 => "Float16",
        DataType::Float32 => "Float",
        DataType::Float64 => "Double",
        DataType::Bfloat16 => "Bfloat16",
        DataType::Float8e4m3 => "Float8e4m3",
        DataType::Float8e5m2 => "Float8e5m2",
        _ => return None,
    };
    let operation = match op {
        None | Some(ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PreMulSum) => "Sum",
        Some(ReduceOp::Prod) => "Prod",
        Some(ReduceOp::Max) => "Max",
        Some(ReduceOp::Min) => "Min",
        Some(_) => return None,
    };
    Some(format!("{element}_{operation}"))
}

/// The name of the kernel of a call; `None` where there is none.
pub fn kernel(protocol: Protocol, dtype: DataType, op: Option<ReduceOp>) -> Option<String> {
    let protocol = match protocol {
        Protocol::Simple => "Simple",
        Protocol::Ll => "Ll",
        Protocol::Ll128 => "Ll128",
    };
    Some(format!("kolo2_{protocol}_{}", fold(dtype, op)?))
}

/// The names of all kernels.
pub fn all() -> Vec<String> {
    let mut names = BTreeSet::new();
    for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
        for dtype in DataType::NCCL {
            let of = |op| kernel(protocol, dtype, Some(op));
            names.extend(ReduceOp::NCCL.into_iter().filter_map(of));
        }
    }
    names.into_iter().collect()
}
