//! Inputs of ranks, and the results that they must get, for every operation of `-o`.
//!
//! [`super::data`] has the data of operations that fold elements. This adds exact sums.
//!
//! **Data of exact sums.** Terms are integers of very different magnitudes times 2^-[`POINT`], and
//! in every second element the largest ones cancel, so a sum that rounds on its way is wrong. The
//! expected value is the integer sum, rounded once.

use super::operation::{Operation, part};
use kolo::dtype::DataType;
use kolo::dtype::known::{Data, Pattern, mix};

/// Negative power of two that terms of exact sums are multiples of.
const POINT: i32 = 40;

/// Data of one checked call.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    data: Data,
    /// The operation, where the call reduces.
    op: Option<Operation>,
}

impl Inputs {
    /// Data of `nranks` ranks, other than that of another repetition.
    pub fn new(dtype: DataType, op: Option<Operation>, nranks: u32, repetition: u64) -> Inputs {
        let data = Data {
            dtype,
            op: match op {
                Some(Operation::Built(op)) => Some(op),
                Some(Operation::ExactSum) | None => None,
            },
            nranks,
            repetition,
        };
        Inputs { data, op }
    }

    /// Bytes of one element.
    pub fn unit(&self) -> usize {
        self.data.dtype.size_bytes()
    }

    /// The scalar of `rank` for a pre-multiplied sum, in the bytes of the type.
    pub fn scalar_bytes(&self, rank: u32) -> Vec<u8> {
        self.data.scalar_bytes(rank)
    }

    /// The bytes of `rank`'s data from its first element on, at most a period long.
    pub fn input(&self, rank: u32, elements: usize) -> Pattern {
        match self.op {
            Some(Operation::ExactSum) => Pattern::make(self.unit(), elements, |element, place| {
                encode_exact(self.data.dtype, self.terms(rank, element), place);
            }),
            _ => self.data.input(rank, elements),
        }
    }

    /// The bytes of the reduction of the data of the first `ranks` ranks (at least one).
    pub fn reduced(&self, ranks: u32, elements: usize) -> Pattern {
        match self.op {
            Some(Operation::ExactSum) => Pattern::make(self.unit(), elements, |element, place| {
                let sum = (0..ranks).fold([0; 2], |sum, rank| {
                    let terms = self.terms(rank, element);
                    [sum[0] + terms[0], sum[1] + terms[1]]
                });
                encode_exact(self.data.dtype, sum, place);
            }),
            Some(Operation::Built(op)) => self.data.reduced_of(op, ranks, elements),
            None => unreachable!("only collectives that reduce have reductions in their result"),
        }
    }

    /// Contribution of `rank` to an exact sum at `element`: the parts of the element.
    fn terms(&self, rank: u32, element: usize) -> [i128; 2] {
        let common = mix(self.data.repetition, element as u64);
        let own = mix(common, 1 + u64::from(rank));
        let ranks = u64::from(self.data.nranks);
        let turn = (common % ranks + u64::from(rank)) % ranks;
        [0, 1].map(|part| term(self.data.dtype, mix(own, part), mix(common, part), turn))
    }
}

/// A term of an exact sum, in units of 2^-[`POINT`]: one that the type has. `own` are random bits
/// of this rank, `common` those that all ranks have, and `turn` is another number from 0 on for
/// each rank.
fn term(dtype: DataType, own: u64, common: u64, turn: u64) -> i128 {
    // Together at most 2^114 times the number of ranks.
    let (digits, most) = match part(dtype) {
        Some(DataType::Float32) => (24, 90),
        _ => (53, 61),
    };
    let number = |bits: u64, shift: u64| {
        let magnitude = i128::from(bits >> (64 - digits)) << shift;
        if bits & 1 == 1 { -magnitude } else { magnitude }
    };
    match (common & 2, turn) {
        (2, 0) => number(common, most),
        (2, 1) => -number(common, most),
        _ => number(own, (own >> 1) % most),
    }
}

/// Writes numbers in units of 2^-[`POINT`] as the parts of an element, each rounded once.
fn encode_exact(dtype: DataType, numbers: [i128; 2], place: &mut [u8]) {
    let size = part(dtype).unwrap_or(dtype).size_bytes();
    for (number, place) in numbers.into_iter().zip(place.chunks_exact_mut(size)) {
        match size {
            4 => place.copy_from_slice(&(number as f32 * 2f32.powi(-POINT)).to_le_bytes()),
            _ => place.copy_from_slice(&(number as f64 * 2f64.powi(-POINT)).to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum that rounds on its way is found: in many elements it is wrong.
    #[test]
    fn plain_sums_of_the_data_are_wrong() {
        let data = Inputs::new(DataType::Float64, Some(Operation::ExactSum), 4, 1);
        let elements = 1000;
        let mut plain = vec![0f64; elements];
        for rank in 0..4 {
            let mut bytes = vec![0; elements * 8];
            data.input(rank, elements).fill(0, &mut bytes);
            for (sum, term) in plain.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *sum += f64::from_le_bytes(*term);
            }
        }
        let bytes: Vec<u8> = plain.into_iter().flat_map(f64::to_le_bytes).collect();
        let wrong = data.reduced(4, elements).wrong(0, &bytes);
        assert!(wrong > elements as u64 / 10, "{wrong}");
    }

    #[test]
    fn terms_are_numbers_of_their_type() {
        for bits in (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            for turn in 0..3 {
                let double = term(DataType::Float64, bits, !bits, turn);
                assert_eq!(double as f64 as i128, double);
                let float = term(DataType::Complex64, bits, !bits, turn);
                assert_eq!(float as f32 as i128, float);
            }
        }
    }
}
