//! The data types and the reduction operations a caller can name.

use std::fmt;

/// Type of the elements of a buffer. The numbers are those of the C interface (`koloDataType_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum DataType {
    /// Signed integer of 8 bits.
    Int8 = 0,
    /// Unsigned integer of 8 bits.
    Uint8 = 1,
    /// Signed integer of 32 bits.
    Int32 = 2,
    /// Unsigned integer of 32 bits.
    Uint32 = 3,
    /// Signed integer of 64 bits.
    Int64 = 4,
    /// Unsigned integer of 64 bits.
    Uint64 = 5,
    /// IEEE 754 binary16.
    Float16 = 6,
    /// IEEE 754 binary32.
    Float32 = 7,
    /// IEEE 754 binary64.
    Float64 = 8,
    /// The upper half of a binary32.
    Bfloat16 = 9,
    /// OCP 8-bit float with 4 exponent and 3 mantissa bits; it has NaN but no infinity.
    Float8e4m3 = 10,
    /// OCP 8-bit float with 5 exponent and 2 mantissa bits; it has NaN and infinity.
    Float8e5m2 = 11,
}

impl DataType {
    /// Every data type; entry `i` has number `i`.
    pub const ALL: [DataType; 12] = [
        DataType::Int8,
        DataType::Uint8,
        DataType::Int32,
        DataType::Uint32,
        DataType::Int64,
        DataType::Uint64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Bfloat16,
        DataType::Float8e4m3,
        DataType::Float8e5m2,
    ];

    /// Bytes of one element (1, 2, 4 or 8); also the alignment that a buffer needs.
    pub const fn size_bytes(self) -> usize {
        match self {
            DataType::Int8 | DataType::Uint8 | DataType::Float8e4m3 | DataType::Float8e5m2 => 1,
            DataType::Float16 | DataType::Bfloat16 => 2,
            DataType::Int32 | DataType::Uint32 | DataType::Float32 => 4,
            DataType::Int64 | DataType::Uint64 | DataType::Float64 => 8,
        }
    }

    /// The name in tables and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Int8 => "int8",
            DataType::Uint8 => "uint8",
            DataType::Int32 => "int32",
            DataType::Uint32 => "uint32",
            DataType::Int64 => "int64",
            DataType::Uint64 => "uint64",
            DataType::Float16 => "half",
            DataType::Float32 => "float",
            DataType::Float64 => "double",
            DataType::Bfloat16 => "bfloat16",
            DataType::Float8e4m3 => "f8e4m3",
            DataType::Float8e5m2 => "f8e5m2",
        }
    }

    /// The data type with this number, if there is one.
    pub fn from_number(number: i32) -> Option<DataType> {
        DataType::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The data type with this [name](DataType::name), if there is one.
    pub fn from_name(name: &str) -> Option<DataType> {
        DataType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether the type is a floating-point type.
    pub const fn is_float(self) -> bool {
        self as i32 >= DataType::Float16 as i32
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How contributions are combined. `Sum` to `Avg` have the numbers of the C interface
/// (`koloRedOp_t`); a pre-multiplied sum is made by the caller and has a number of its own there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum ReduceOp {
    /// `a + b`.
    Sum = 0,
    /// `a * b`.
    Prod = 1,
    /// The larger one.
    Max = 2,
    /// The smaller one.
    Min = 3,
    /// The sum, divided by the number of ranks.
    Avg = 4,
    /// The sum of contributions that are each multiplied by a scalar first.
    PreMulSum = 5,
}

impl ReduceOp {
    /// Every operation; entry `i` has number `i`.
    pub const ALL: [ReduceOp; 6] = [
        ReduceOp::Sum,
        ReduceOp::Prod,
        ReduceOp::Max,
        ReduceOp::Min,
        ReduceOp::Avg,
        ReduceOp::PreMulSum,
    ];

    /// The name in tables and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::Avg => "avg",
            ReduceOp::PreMulSum => "mulsum",
        }
    }

    /// The operation with this number, if there is one.
    pub fn from_number(number: i32) -> Option<ReduceOp> {
        ReduceOp::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The operation with this [name](ReduceOp::name) (or `premulsum`), if there is one.
    pub fn from_name(name: &str) -> Option<ReduceOp> {
        if name == "premulsum" {
            return Some(ReduceOp::PreMulSum);
        }
        ReduceOp::ALL.into_iter().find(|op| op.name() == name)
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_round_trip() {
        for (number, dtype) in DataType::ALL.into_iter().enumerate() {
            assert_eq!(dtype as usize, number);
            assert_eq!(DataType::from_number(number as i32), Some(dtype));
            assert_eq!(DataType::from_name(dtype.name()), Some(dtype));
        }
        for (number, op) in ReduceOp::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, number);
            assert_eq!(ReduceOp::from_number(number as i32), Some(op));
            assert_eq!(ReduceOp::from_name(op.name()), Some(op));
        }
        assert_eq!(ReduceOp::from_name("premulsum"), Some(ReduceOp::PreMulSum));
    }

    #[test]
    fn unknown_numbers_and_names_are_refused() {
        for number in [-1, 12, i32::MAX, i32::MIN] {
            assert_eq!(DataType::from_number(number), None);
            assert_eq!(ReduceOp::from_number(number), None);
        }
        for name in ["", "Float", "float32", "sum "] {
            assert_eq!(DataType::from_name(name), None);
            assert_eq!(ReduceOp::from_name(name), None);
        }
    }

    #[test]
    fn floats_are_known() {
        let floats: Vec<_> = DataType::ALL.into_iter().filter(|d| d.is_float()).collect();
        assert_eq!(floats[0], DataType::Float16);
        assert_eq!(floats.len(), 6);
    }
}
