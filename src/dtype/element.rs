//! Rust types that may lie in a buffer.

use super::DataType;
use super::minifloat::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use num_complex::Complex;

mod sealed {
    /// Keeps the set of element types closed.
    pub trait Sealed {}
}

/// A Rust type that may lie in a buffer: the memory form of a [`DataType`].
///
/// These are `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, `f32`, `f64`, and of `kolo::types`:
/// `f16`, `bf16`, `F8E4M3`, `F8E5M2`; `Complex<f32>`, `Complex<f64>`; `Byte`, `Character`; the
/// truth values `Logical8` to `Logical64`; the pairs of a value and an index `FloatInt`,
/// `DoubleInt`, `IntInt`, `LongInt`, `FloatFloat` and `DoubleDouble`.
///
/// A struct or an array is no element. What is only moved (broadcast, gather, send) goes as bytes:
/// cast a slice of it to `&[u8]`, for example with `bytemuck::cast_slice`, which checks that it has
/// no padding. What is reduced goes flattened: `as_flattened()` makes one slice of `&[[f64; 3]]`.
///
/// # Safety
/// Sealed: implemented here only. Every bit pattern of [`DataType::size_bytes`] bytes is a value
/// of the type, the type has no padding, and its alignment is [`DataType::align_bytes`] (or less);
/// so buffers of it may be read and written as bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of elements that kolo knows",
    note = "structs and arrays of numbers: cast a slice to `&[u8]` (bytemuck::cast_slice) to move \
            it, or flatten it (as_flattened) to reduce its numbers",
    note = "`usize` differs between machines: use `u64`; for `bool` there is `types::Logical8`"
)]
pub unsafe trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The data type whose memory form this is.
    const DTYPE: DataType;
}

macro_rules! wrappers {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);
    )*};
}

wrappers! {
    /// Truth in 8 bits, as a Fortran `logical(1)` or a C `bool` has it: 0 is false.
    Logical8(u8);
    /// Truth in 16 bits, as a Fortran `logical(2)` has it.
    Logical16(u16);
    /// Truth in 32 bits, as a Fortran `logical(4)` has it.
    Logical32(u32);
    /// Truth in 64 bits, as a Fortran `logical(8)` has it.
    Logical64(u64);
    /// 8 bits without arithmetic; ordered as an unsigned number.
    Byte(u8);
    /// A character of 8 bits; ordered as an unsigned number.
    Character(u8);
}

macro_rules! truths {
    ($($name:ident)*) => {$(
        impl From<bool> for $name {
            fn from(value: bool) -> $name {
                $name(value.into())
            }
        }
        impl From<$name> for bool {
            fn from(value: $name) -> bool {
                value.0 != 0
            }
        }
    )*};
}

truths!(Logical8 Logical16 Logical32 Logical64);

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident { $value:ty, $index:ty $(, $padding:ident)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        #[repr(C)]
        pub struct $name {
            /// Value that is compared.
            pub value: $value,
            /// Where it was found.
            pub index: $index,
            $(
                /// Fills the size of the C structure; its content means nothing, as in C, and
                /// comparisons do not look at it.
                pub $padding: u32,
            )?
        }

        impl $name {
            /// A value and where it was found.
            pub const fn new(value: $value, index: $index) -> $name {
                $name { value, index $(, $padding: 0)? }
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                (self.value, self.index) == (other.value, other.index)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<std::cmp::Ordering> {
                (self.value, self.index).partial_cmp(&(other.value, other.index))
            }
        }
    )*};
}

pairs! {
    /// C's `struct { float; int; }`: a `value` and the `index` where it was found.
    FloatInt { f32, i32 }
    /// C's `struct { double; int; }` of 16 bytes: the last 4 are `padding`, whose content means
    /// nothing (`DoubleInt::new(value, index)` makes it 0, and comparisons do not look at it).
    DoubleInt { f64, i32, padding }
    /// C's `struct { int; int; }`, and two Fortran integers.
    IntInt { i32, i32 }
    /// C's `struct { long; int; }` with a long of 64 bits: 16 bytes with `padding`, as in
    /// `DoubleInt`.
    LongInt { i64, i32, padding }
    /// Two Fortran reals: the index is one too.
    FloatFloat { f32, f32 }
    /// Two Fortran double precision numbers: the index is one too.
    DoubleDouble { f64, f64 }
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        // SAFETY: plain numbers (or a transparent wrapper of one) without padding or niches.
        unsafe impl Element for $rust {
            const DTYPE: DataType = DataType::$dtype;
        }
        const _: () = assert!(size_of::<$rust>() == DataType::$dtype.size_bytes());
        const _: () = assert!(align_of::<$rust>() <= DataType::$dtype.align_bytes());
    )*};
}

elements! {
    i8 => Int8,
    u8 => Uint8,
    i32 => Int32,
    u32 => Uint32,
    i64 => Int64,
    u64 => Uint64,
    f16 => Float16,
    f32 => Float32,
    f64 => Float64,
    bf16 => Bfloat16,
    F8E4M3 => Float8e4m3,
    F8E5M2 => Float8e5m2,
    Complex<f32> => Complex64,
    Complex<f64> => Complex128,
    Logical8 => Logical8,
    Logical16 => Logical16,
    Logical32 => Logical32,
    Logical64 => Logical64,
    Byte => Byte,
    Character => Character,
    FloatInt => FloatInt,
    DoubleInt => DoubleInt,
    IntInt => IntInt,
    LongInt => LongInt,
    FloatFloat => FloatFloat,
    DoubleDouble => DoubleDouble,
}
