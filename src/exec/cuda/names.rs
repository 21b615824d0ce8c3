//! Which kernel runs a call: the names of `kernels/kernels.def`. They begin with the number of the
//! layout, so a file of kernels of another version lacks them, and nobody launches what would read
//! other places.

use crate::dtype::{DataType, ReduceOp};
use crate::plan::Protocol;

/// Kernels of a protocol: each type with each operation.
const OF_PROTOCOL: usize = DataType::NCCL.len() * OPERATIONS.len();
/// How many kernels there are.
pub const KERNELS: usize = 3 * OF_PROTOCOL;
/// Operations in the names of kernels.
const OPERATIONS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];

/// The place of a type among those of kernels, and its name in theirs.
fn element(dtype: DataType) -> Option<(usize, &'static str)> {
    Some(match dtype {
        DataType::Int8 => (0, "Int8"),
        DataType::Uint8 => (1, "Uint8"),
        DataType::Int32 => (2, "Int32"),
        DataType::Uint32 => (3, "Uint32"),
        DataType::Int64 => (4, "Int64"),
        DataType::Uint64 => (5, "Uint64"),
        DataType::Float16 => (6, "Float16"),
        DataType::Float32 => (7, "Float"),
        DataType::Float64 => (8, "Double"),
        DataType::Bfloat16 => (9, "Bfloat16"),
        DataType::Float8e4m3 => (10, "Float8e4m3"),
        DataType::Float8e5m2 => (11, "Float8e5m2"),
        _ => return None,
    })
}

/// The place of an operation among [`OPERATIONS`], and its name. A copy, an average and a
/// pre-multiplied sum are run by the sum of the type.
fn operation(op: Option<ReduceOp>) -> Option<(usize, &'static str)> {
    Some(match op {
        None | Some(ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PreMulSum) => (0, "Sum"),
        Some(ReduceOp::Prod) => (1, "Prod"),
        Some(ReduceOp::Max) => (2, "Max"),
        Some(ReduceOp::Min) => (3, "Min"),
        Some(_) => return None,
    })
}

/// The type and operation in a kernel's name; `None` where there is no kernel.
pub fn fold(dtype: DataType, op: Option<ReduceOp>) -> Option<String> {
    let ((_, element), (_, operation)) = (element(dtype)?, operation(op)?);
    Some(format!("{element}_{operation}"))
}

/// The number of a call's kernel among those of its protocol; `None` where there is none.
pub fn fold_number(dtype: DataType, op: Option<ReduceOp>) -> Option<usize> {
    let ((element, _), (operation, _)) = (element(dtype)?, operation(op)?);
    Some(element * OPERATIONS.len() + operation)
}

/// The number of a kernel among all, below [`KERNELS`].
pub fn number(protocol: Protocol, fold_number: usize) -> usize {
    protocol as usize * OF_PROTOCOL + fold_number
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

/// The names of all kernels, in the order of the alphabet.
pub fn all() -> Vec<String> {
    let mut names = numbered();
    names.sort_unstable();
    names
}

/// The names of all kernels, each at the place of its number.
pub fn numbered() -> Vec<String> {
    let mut names = Vec::with_capacity(KERNELS);
    for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
        for dtype in DataType::NCCL {
            names.extend(
                OPERATIONS
                    .into_iter()
                    .filter_map(|op| kernel(protocol, dtype, Some(op))),
            );
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_its_name_at_its_number() {
        let names = numbered();
        assert_eq!(names.len(), KERNELS);
        for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
            for dtype in DataType::NCCL {
                for op in ReduceOp::NCCL.map(Some).into_iter().chain([None]) {
                    let fold = fold_number(dtype, op).expect("a kernel");
                    let name = kernel(protocol, dtype, op).expect("a kernel");
                    assert_eq!(names[number(protocol, fold)], name);
                }
            }
        }
        assert_eq!(fold_number(DataType::Complex64, None), None);
    }
}
