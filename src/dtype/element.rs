//! Rust types that may lie in a buffer.

use super::DataType;
use super::minifloat::{F8E4M3, F8E5M2};
use half::{bf16, f16};

mod sealed {
    /// Keeps the set of element types closed.
    pub trait Sealed {}
}

/// A Rust type that is the memory form of a [`DataType`].
///
/// # Safety
/// Sealed: implemented here only. Every bit pattern of [`DataType::size_bytes`] bytes is a value
/// of the type, the type has no padding, and its alignment is at most its size; so buffers of it
/// may be read and written as bytes.
pub unsafe trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The data type whose memory form this is.
    const DTYPE: DataType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        // SAFETY: a plain number (or a transparent wrapper of one) without padding or niches.
        unsafe impl Element for $rust {
            const DTYPE: DataType = DataType::$dtype;
        }
        const _: () = assert!(size_of::<$rust>() == DataType::$dtype.size_bytes());
        const _: () = assert!(align_of::<$rust>() <= size_of::<$rust>());
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
}
