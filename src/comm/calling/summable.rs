//! Types and collectives that have an exact sum.

use crate::base::{Error, Result};
use crate::dtype::DataType;
use crate::plan::Collective;

/// Refuses what has no exact sum.
///
/// # Errors
/// For other types than [`part_type`] has, and for other collectives than all-reduce and reduce.
pub(in crate::comm) fn check(collective: Collective, dtype: DataType) -> Result<()> {
    if !matches!(collective, Collective::AllReduce | Collective::Reduce) {
        return Err(not_here());
    }
    if part_type(dtype).is_none() {
        return Err(Error::argument(
            format!("there is no exact sum of {}", dtype.name()),
            match dtype.is_float() {
                true => "convert to float or double, or use koloSum",
                false => "use koloSum: sums of integers do not depend on the order",
            },
        ));
    }
    Ok(())
}

/// An exact sum in a collective that has none.
#[cold]
pub(in crate::comm) fn not_here() -> Error {
    Error::argument(
        "only AllReduce and Reduce have exact sums",
        "all-reduce or reduce with koloSumExact; for a block of a reduce-scatter take it from the \
         all-reduce, for a scan sum over smaller communicators",
    )
}

/// Whether elements of this type have an exact sum.
pub(in crate::comm) fn has_sum(dtype: DataType) -> bool {
    part_type(dtype).is_some()
}

/// Returns the type of the numbers that an exact sum adds, and how many of them an element has.
pub(in crate::comm) fn part_type(dtype: DataType) -> Option<(DataType, usize)> {
    match dtype {
        DataType::Float32 | DataType::Float64 => Some((dtype, 1)),
        DataType::Complex64 => Some((DataType::Float32, 2)),
        DataType::Complex128 => Some((DataType::Float64, 2)),
        _ => None,
    }
}
