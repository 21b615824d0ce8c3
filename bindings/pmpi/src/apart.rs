//! How far two sums or products of the same floats may lie apart, and how values are written.
//!
//! Two orders of summing n numbers each err by at most (n - 1) eps times the sum of magnitudes
//! (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2), so they lie
//! within 2 (n - 1) eps of it; so do products, with the product of magnitudes. A product of complex
//! numbers errs by up to sqrt(5) eps a step (Brent, Percival, Zimmermann, doi:10.1090/
//! S0025-5718-07-01931-X), and has the triple of it.

use crate::decide::Class;
use crate::sys::{kolo_pmpi_wide_apart, kolo_pmpi_wide_magnitude};
use std::ffi::c_int;

/// Floats of one type.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Bytes of one float: of a part of a complex number.
    part: usize,
    complex: bool,
}

fn single(bytes: &[u8]) -> f32 {
    f32::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

fn double(bytes: &[u8]) -> f64 {
    f64::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

impl Numbers {
    /// Of elements of so many bytes.
    pub fn new(bytes: usize, complex: bool) -> Numbers {
        let part = if complex { bytes / 2 } else { bytes };
        Numbers { part, complex }
    }

    /// Makes each float its magnitude.
    pub fn magnitudes(&self, bytes: &mut [u8]) {
        for one in bytes.chunks_exact_mut(self.part) {
            match self.part {
                4 => one.copy_from_slice(&single(one).abs().to_ne_bytes()),
                8 => one.copy_from_slice(&double(one).abs().to_ne_bytes()),
                // SAFETY: a long double of the compiler's, wherever it lies.
                _ => unsafe { kolo_pmpi_wide_magnitude(one.as_mut_ptr().cast(), 0) },
            }
        }
    }

    /// Makes each number its length, with nothing imaginary.
    pub fn lengths(&self, bytes: &mut [u8]) {
        if !self.complex {
            return self.magnitudes(bytes);
        }
        let half = self.part;
        for one in bytes.chunks_exact_mut(2 * half) {
            match half {
                4 => {
                    let length = single(&one[..4]).hypot(single(&one[4..]));
                    one[..4].copy_from_slice(&length.to_ne_bytes());
                    one[4..].fill(0);
                }
                8 => {
                    let length = double(&one[..8]).hypot(double(&one[8..]));
                    one[..8].copy_from_slice(&length.to_ne_bytes());
                    one[8..].fill(0);
                }
                // SAFETY: two long doubles of the compiler's, wherever they lie.
                _ => unsafe { kolo_pmpi_wide_magnitude(one.as_mut_ptr().cast(), 1) },
            }
        }
    }

    /// Whether two results of `nranks` ranks are further apart than their order explains; the third
    /// is the sum or the product of magnitudes.
    pub fn are_apart(&self, all: [&[u8]; 3], nranks: usize, is_product: bool) -> bool {
        let factor = if self.complex && is_product { 6.0 } else { 2.0 };
        let steps = factor * nranks.saturating_sub(1) as f64;
        let parts = all[0].len() / self.part;
        (0..parts).any(|part| {
            let range = part * self.part..(part + 1) * self.part;
            // A product of complex numbers has one length, for both parts.
            let of = if is_product {
                0..self.part
            } else {
                range.clone()
            };
            let [got, wanted, magnitude] = [&all[0][range.clone()], &all[1][range], &all[2][of]];
            match self.part {
                4 => far(
                    [single(got), single(wanted), single(magnitude)].map(f64::from),
                    steps * f64::from(f32::EPSILON),
                    nranks as f64 * f64::from(f32::MIN_POSITIVE),
                ),
                8 => far(
                    [double(got), double(wanted), double(magnitude)],
                    steps * f64::EPSILON,
                    nranks as f64 * f64::MIN_POSITIVE,
                ),
                // SAFETY: long doubles of the compiler's, wherever they lie.
                _ => unsafe {
                    kolo_pmpi_wide_apart(
                        got.as_ptr().cast(),
                        wanted.as_ptr().cast(),
                        magnitude.as_ptr().cast(),
                        steps as c_int,
                        nranks as c_int,
                    ) != 0
                },
            }
        })
    }
}

/// Whether two values differ that are not the same bytes: those of a long double's gap may be any.
pub fn differ(class: Option<Class>, got: &[u8], wanted: &[u8]) -> bool {
    const WIDE: usize = 16;
    let apart = |complex, till: usize| {
        let none = &[0; 2 * WIDE][..till];
        Numbers::new(till, complex).are_apart([&got[..till], &wanted[..till], none], 0, false)
    };
    match (class, got.len()) {
        (Some(Class::Floating), WIDE) => apart(false, WIDE),
        (Some(Class::Complex), 32) => apart(true, 32),
        (Some(Class::Pair), 20) => apart(false, WIDE) || got[WIDE..] != wanted[WIDE..],
        _ => true,
    }
}

/// Whether two values of a maximum or minimum are the same but for what is promised of neither: the
/// sign of zero, and which number counts beside one that is none. `bytes` of each are the value.
pub fn are_same_extremes(bytes: usize, got: &[u8], wanted: &[u8]) -> bool {
    let same = |got: f64, wanted: f64| got == wanted || got.is_nan() || wanted.is_nan();
    let rest = got[bytes..] == wanted[bytes..];
    rest && match bytes {
        4 => same(single(&got[..4]).into(), single(&wanted[..4]).into()),
        8 => same(double(&got[..8]), double(&wanted[..8])),
        _ => false,
    }
}

/// `least`: what the smallest floats may lose, which have fewer digits.
fn far([got, wanted, magnitude]: [f64; 3], relative: f64, least: f64) -> bool {
    if got.is_nan() || wanted.is_nan() {
        // Another order may meet infinity on its way; only where magnitudes do, too.
        return got.is_nan() != wanted.is_nan() && magnitude.is_finite();
    }
    let distance = (got - wanted).abs();
    got != wanted && distance > magnitude * relative + least
}

/// A value as a line has it.
pub fn shown(class: Option<Class>, bytes: &[u8]) -> String {
    macro_rules! number {
        ($kind:ty) => {
            bytes
                .try_into()
                .map(<$kind>::from_ne_bytes)
                .map(|one| format!("{one:?}"))
        };
    }
    let text = match (class, bytes.len()) {
        (Some(Class::Integer), 1) => number!(i8),
        (Some(Class::Integer), 2) => number!(i16),
        (Some(Class::Integer), 4) => number!(i32),
        (Some(Class::Integer), 8) => number!(i64),
        (Some(Class::Unsigned), 1) => number!(u8),
        (Some(Class::Unsigned), 2) => number!(u16),
        (Some(Class::Unsigned), 4) => number!(u32),
        (Some(Class::Unsigned), 8) => number!(u64),
        (Some(Class::Floating), 4) => number!(f32),
        (Some(Class::Floating), 8) => number!(f64),
        (Some(Class::Complex), 8) => Ok(format!(
            "({}, {})",
            single(&bytes[..4]),
            single(&bytes[4..])
        )),
        (Some(Class::Complex), 16) => Ok(format!(
            "({}, {})",
            double(&bytes[..8]),
            double(&bytes[8..])
        )),
        _ => {
            const MOST: usize = 32;
            let digits: String = (bytes.iter().take(MOST))
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let more = if bytes.len() > MOST { ".." } else { "" };
            Ok(format!("0x{digits}{more}"))
        }
    };
    text.unwrap_or_default()
}
