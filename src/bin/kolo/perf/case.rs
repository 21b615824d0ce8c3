//! The case that one line of the table measures.

use super::operation::Operation;
use kolo::dtype::DataType;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Size asked for, in bytes.
    pub bytes: u64,
    /// Type of the elements.
    pub dtype: DataType,
    /// The operation, where the call reduces.
    pub op: Option<Operation>,
    /// The root, where there is one.
    pub root: Option<u32>,
}
