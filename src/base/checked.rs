//! Arithmetic on sizes that comes from callers: overflow is an error with a sentence, never a wrap.

use super::error::{Error, Result};

/// `count * unit_bytes`, or an error that names both.
#[inline(always)]
pub fn bytes(count: usize, unit_bytes: usize) -> Result<usize> {
    match count.checked_mul(unit_bytes) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
        _ => Err(too_many(count, unit_bytes)),
    }
}

#[cold]
fn too_many(count: usize, unit_bytes: usize) -> Error {
    Error::argument(
        format!("{count} elements of {unit_bytes} bytes do not fit into the address space"),
        "check the count argument (is it an uninitialised or negative number?)",
    )
}

/// `a / b` rounded up; `b` must not be 0.
pub const fn div_up(a: usize, b: usize) -> usize {
    a.div_ceil(b)
}

/// The least multiple of `unit` that is at least `value`.
pub const fn round_up(value: usize, unit: usize) -> usize {
    value.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_an_error() {
        assert_eq!(bytes(3, 8).unwrap(), 24);
        assert!(
            bytes(usize::MAX, 8)
                .unwrap_err()
                .what
                .contains("address space")
        );
        assert!(
            bytes(usize::MAX / 4, 3)
                .unwrap_err()
                .what
                .contains("address space")
        );
    }

    #[test]
    fn rounding() {
        assert_eq!(round_up(0, 64), 0);
        assert_eq!(round_up(1, 64), 64);
        assert_eq!(round_up(128, 64), 128);
        assert_eq!(div_up(9, 4), 3);
    }
}
