//! The data types and the reduction operations a caller can name.

use std::fmt;

macro_rules! data_types {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $size:literal,
       $align:literal, $class:ident;)*) => {
        /// Type of the elements of a buffer. The discriminants are dense, for tables;
        /// [`DataType::number`] is the number of the C interface (`koloDataType_t`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DataType {
            $($(#[$doc])* $variant,)*
        }

        impl DataType {
            /// Every data type; entry `i` has discriminant `i`.
            pub const ALL: [DataType; [$($number),*].len()] = [$(DataType::$variant),*];

            const FACTS: [TypeFacts; DataType::ALL.len()] = [$(TypeFacts {
                number: $number,
                name: $name,
                size: $size,
                align: $align,
                class: Class::$class,
            }),*];
        }
    };
}

/// Facts about one type, in the table.
struct TypeFacts {
    number: i32,
    name: &'static str,
    size: usize,
    align: usize,
    class: Class,
}

data_types! {
    /// Signed integer of 8 bits.
    Int8 = 0, "int8", 1, 1, Integer;
    /// Unsigned integer of 8 bits.
    Uint8 = 1, "uint8", 1, 1, Integer;
    /// Signed integer of 32 bits.
    Int32 = 2, "int32", 4, 4, Integer;
    /// Unsigned integer of 32 bits.
    Uint32 = 3, "uint32", 4, 4, Integer;
    /// Signed integer of 64 bits.
    Int64 = 4, "int64", 8, 8, Integer;
    /// Unsigned integer of 64 bits.
    Uint64 = 5, "uint64", 8, 8, Integer;
    /// IEEE 754 binary16.
    Float16 = 6, "half", 2, 2, Float;
    /// IEEE 754 binary32.
    Float32 = 7, "float", 4, 4, Float;
    /// IEEE 754 binary64.
    Float64 = 8, "double", 8, 8, Float;
    /// The upper half of a binary32.
    Bfloat16 = 9, "bfloat16", 2, 2, Float;
    /// OCP 8-bit float with 4 exponent and 3 mantissa bits; it has NaN but no infinity.
    Float8e4m3 = 10, "f8e4m3", 1, 1, Float;
    /// OCP 8-bit float with 5 exponent and 2 mantissa bits; it has NaN and infinity.
    Float8e5m2 = 11, "f8e5m2", 1, 1, Float;
    /// Two binary32: real and imaginary part.
    Complex64 = 16, "complex64", 8, 4, Complex;
    /// Two binary64: real and imaginary part.
    Complex128 = 17, "complex128", 16, 8, Complex;
    /// Truth in 8 bits: 0 is false, everything else true.
    Logical8 = 20, "logical8", 1, 1, Logical;
    /// Truth in 16 bits.
    Logical16 = 21, "logical16", 2, 2, Logical;
    /// Truth in 32 bits.
    Logical32 = 22, "logical32", 4, 4, Logical;
    /// Truth in 64 bits.
    Logical64 = 23, "logical64", 8, 8, Logical;
    /// 8 bits without arithmetic.
    Byte = 26, "byte", 1, 1, Bytes;
    /// A character of 8 bits, ordered as an unsigned number.
    Character = 27, "char", 1, 1, Bytes;
    /// A float and a 32-bit index.
    FloatInt = 32, "float_int", 8, 4, Pair;
    /// A double, a 32-bit index and 4 bytes of padding.
    DoubleInt = 33, "double_int", 16, 8, Pair;
    /// A 32-bit integer and a 32-bit index.
    IntInt = 34, "int_int", 8, 4, Pair;
    /// A 64-bit integer, a 32-bit index and 4 bytes of padding.
    LongInt = 35, "long_int", 16, 8, Pair;
    /// A float and an index that is a float.
    FloatFloat = 36, "float_float", 8, 4, Pair;
    /// A double and an index that is a double.
    DoubleDouble = 37, "double_double", 16, 8, Pair;
}

/// Kinds of data types, by what can be done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Whole numbers.
    Integer,
    /// Real numbers.
    Float,
    /// Complex numbers.
    Complex,
    /// Truth values.
    Logical,
    /// Bytes and characters.
    Bytes,
    /// A value and where it was found.
    Pair,
}

impl DataType {
    #[inline]
    const fn facts(self) -> &'static TypeFacts {
        &DataType::FACTS[self as usize]
    }

    /// The number in the C interface.
    #[inline]
    pub const fn number(self) -> i32 {
        self.facts().number
    }

    /// Bytes of one element (1, 2, 4, 8 or 16).
    #[inline]
    pub const fn size_bytes(self) -> usize {
        self.facts().size
    }

    /// The alignment that a buffer needs, in bytes (at most 8).
    #[inline]
    pub const fn align_bytes(self) -> usize {
        self.facts().align
    }

    /// The class of the type.
    #[inline]
    pub const fn class(self) -> Class {
        self.facts().class
    }

    /// The name in tables and on command lines.
    #[inline]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The data type with this number of the C interface, if there is one.
    #[inline]
    pub fn from_number(number: i32) -> Option<DataType> {
        match DataType::ALL.get(usize::try_from(number).ok()?) {
            Some(&dense) if dense.number() == number => Some(dense),
            _ => DataType::ALL
                .into_iter()
                .find(|dtype| dtype.number() == number),
        }
    }

    /// The data type with this discriminant, if there is one.
    #[inline]
    pub fn from_index(index: usize) -> Option<DataType> {
        DataType::ALL.get(index).copied()
    }

    /// The data type with this [name](DataType::name), if there is one.
    pub fn from_name(name: &str) -> Option<DataType> {
        DataType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether the type is a real floating-point type.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// The types that NCCL has, and its tests mean by "all".
    pub const NCCL: [DataType; 12] = [
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

    /// The operations that elements of this type can be combined with.
    pub fn operations(self) -> impl Iterator<Item = ReduceOp> {
        ReduceOp::ALL
            .into_iter()
            .filter(move |op| op.combines(self))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// How contributions are combined. The discriminants are dense, for tables;
        /// [`ReduceOp::number`] is the number of the C interface (`koloRedOp_t`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ReduceOp {
            $($(#[$doc])* $variant,)*
        }

        impl ReduceOp {
            /// Every operation; entry `i` has discriminant `i`.
            pub const ALL: [ReduceOp; [$($number),*].len()] = [$(ReduceOp::$variant),*];

            /// Those that NCCL has, and its tests mean by "all".
            pub const NCCL: [ReduceOp; 6] = [
                ReduceOp::Sum,
                ReduceOp::Prod,
                ReduceOp::Max,
                ReduceOp::Min,
                ReduceOp::Avg,
                ReduceOp::PreMulSum,
            ];

            const FACTS: [(i32, &'static str); ReduceOp::ALL.len()] = [$(($number, $name)),*];
        }
    };
}

operations! {
    /// `a + b`.
    Sum = 0, "sum";
    /// `a * b`.
    Prod = 1, "prod";
    /// The larger one.
    Max = 2, "max";
    /// The smaller one.
    Min = 3, "min";
    /// The sum, divided by the number of ranks.
    Avg = 4, "avg";
    /// The sum of contributions that are each multiplied by a scalar first. Made by the caller, so
    /// without a number of its own.
    PreMulSum = -1, "mulsum";
    /// Bitwise and.
    Band = 16, "band";
    /// Bitwise or.
    Bor = 17, "bor";
    /// Bitwise exclusive or.
    Bxor = 18, "bxor";
    /// Whether both are true; every non-zero element is, and the result is 0 or 1.
    Land = 20, "land";
    /// Whether at least one is true.
    Lor = 21, "lor";
    /// Whether exactly one is true.
    Lxor = 22, "lxor";
    /// The pair with the smaller value; of equal values the one with the smaller index.
    Minloc = 24, "minloc";
    /// The pair with the larger value; of equal values the one with the smaller index.
    Maxloc = 25, "maxloc";
}

impl ReduceOp {
    /// The number in the C interface; `None` for a pre-multiplied sum.
    #[inline]
    pub const fn number(self) -> Option<i32> {
        let number = ReduceOp::FACTS[self as usize].0;
        if number < 0 { None } else { Some(number) }
    }

    /// The name in tables and on command lines.
    #[inline]
    pub const fn name(self) -> &'static str {
        ReduceOp::FACTS[self as usize].1
    }

    /// The built-in operation with this number of the C interface, if there is one.
    #[inline]
    pub fn from_number(number: i32) -> Option<ReduceOp> {
        match ReduceOp::ALL.get(usize::try_from(number).ok()?) {
            Some(&dense) if dense.number() == Some(number) => Some(dense),
            _ => ReduceOp::ALL
                .into_iter()
                .find(|op| op.number() == Some(number)),
        }
    }

    /// The operation with this [name](ReduceOp::name) (or `premulsum`), if there is one.
    pub fn from_name(name: &str) -> Option<ReduceOp> {
        if name == "premulsum" {
            return Some(ReduceOp::PreMulSum);
        }
        ReduceOp::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Whether elements of `dtype` can be combined with it.
    #[inline]
    pub const fn combines(self, dtype: DataType) -> bool {
        use ReduceOp::*;
        match dtype.class() {
            Class::Integer => !matches!(self, Minloc | Maxloc),
            Class::Float => matches!(self, Sum | Prod | Max | Min | Avg | PreMulSum),
            Class::Complex => matches!(self, Sum | Prod | Avg | PreMulSum),
            Class::Logical => matches!(self, Land | Lor | Lxor),
            Class::Bytes => matches!(self, Max | Min | Band | Bor | Bxor),
            Class::Pair => matches!(self, Minloc | Maxloc),
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
