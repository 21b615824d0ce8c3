//! Operations that can be measured: those that fold elements, and the exact sum, which folds
//! something else and is therefore none of them.

use kolo::comm::RedOp;
use kolo::dtype::{DataType, ReduceOp};
use std::fmt;

/// An operation of `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One that combines two elements.
    Built(ReduceOp),
    /// The correctly rounded exact sum.
    ExactSum,
}

use Operation::{Built, ExactSum};

impl Operation {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Operation> {
        ReduceOp::ALL.into_iter().map(Built).chain([ExactSum])
    }

    /// The operation of this name, however it is spelt.
    pub fn from_name(text: &str) -> Option<Operation> {
        match text.to_lowercase().replace(['_', '-'], "").as_str() {
            "exactsum" | "sumexact" => Some(ExactSum),
            _ => ReduceOp::from_name(text).map(Built),
        }
    }

    /// The name in the table and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Built(op) => op.name(),
            ExactSum => "exactsum",
        }
    }

    /// Whether it combines elements of this type.
    pub fn combines(self, dtype: DataType) -> bool {
        match self {
            Built(op) => op.combines(dtype),
            ExactSum => part(dtype).is_some(),
        }
    }

    /// kolo's handle, unless one has to be made on the communicator.
    pub fn handle(self) -> Option<RedOp> {
        match self {
            Built(op) => op.number().map(RedOp),
            ExactSum => Some(RedOp::SUM_EXACT),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The numbers that an element consists of, where it has exact sums.
pub fn part(dtype: DataType) -> Option<DataType> {
    match dtype {
        DataType::Float32 | DataType::Complex64 => Some(DataType::Float32),
        DataType::Float64 | DataType::Complex128 => Some(DataType::Float64),
        _ => None,
    }
}

/// Whether there is a kernel for it.
pub fn has_kernel(dtype: DataType, op: Option<Operation>) -> bool {
    let built = match op {
        None => None,
        Some(Operation::Built(op)) => Some(op),
        Some(Operation::ExactSum) => return false,
    };
    kolo::exec::cuda::names::fold(dtype, built).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for op in Operation::all() {
            assert_eq!(Operation::from_name(op.name()), Some(op));
        }
        assert_eq!(Operation::from_name("sum_exact"), Some(ExactSum));
        assert_eq!(Operation::from_name("exact"), None);
    }
}
