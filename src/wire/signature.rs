//! The signature of a call, packed into the 8 bytes that travel with every token.
//!
//! Two ranks that disagree about collective, count, type, operation or root publish different
//! signatures, and the reader can say in words what each side called.
//!
//! | bits | field |
//! |---|---|
//! | 0..35 | count, in elements; larger counts keep their low bits and set bit 34 |
//! | 35..49 | root, modulo 16,384 |
//! | 49..54 | operation |
//! | 54..59 | data type |
//! | 59..64 | collective; 0 is never used |

/// A packed signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(pub u64);

/// The fields, as numbers: the wire knows no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Number of the collective, 1..=31.
    pub collective: u8,
    /// Number of the data type, 0..=31.
    pub dtype: u8,
    /// Number of the operation, 0..=31.
    pub op: u8,
    /// Root or 0.
    pub root: u32,
    /// Elements.
    pub count: u64,
}

const COUNT_BITS: u32 = 35;
const ROOT_BITS: u32 = 14;
const OP_AT: u32 = COUNT_BITS + ROOT_BITS;
const DTYPE_AT: u32 = OP_AT + 5;
const COLLECTIVE_AT: u32 = DTYPE_AT + 5;
const _: () = assert!(COLLECTIVE_AT + 5 == 64);

impl Signature {
    /// Packs the fields.
    #[inline]
    pub fn pack(fields: Fields) -> Signature {
        let top = 1u64 << (COUNT_BITS - 1);
        let count = if fields.count < top {
            fields.count
        } else {
            top | fields.count & (top - 1)
        };
        let root = u64::from(fields.root) & ((1 << ROOT_BITS) - 1);
        Signature(
            count
                | root << COUNT_BITS
                | u64::from(fields.op & 31) << OP_AT
                | u64::from(fields.dtype & 31) << DTYPE_AT
                | u64::from(fields.collective & 31) << COLLECTIVE_AT,
        )
    }

    /// The fields of a packed signature.
    pub fn unpack(self) -> Fields {
        Fields {
            collective: (self.0 >> COLLECTIVE_AT) as u8 & 31,
            dtype: (self.0 >> DTYPE_AT) as u8 & 31,
            op: (self.0 >> OP_AT) as u8 & 31,
            root: (self.0 >> COUNT_BITS) as u32 & ((1 << ROOT_BITS) - 1),
            count: self.0 & ((1 << COUNT_BITS) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_and_each_one_matters() {
        let fields = Fields {
            collective: 22,
            dtype: 25,
            op: 31,
            root: 77,
            count: 123_456_789,
        };
        let packed = Signature::pack(fields);
        assert_eq!(packed.unpack(), fields);
        let others = [
            Fields {
                collective: 6,
                ..fields
            },
            Fields { dtype: 7, ..fields },
            Fields { op: 4, ..fields },
            Fields { root: 78, ..fields },
            Fields {
                count: 123_456_788,
                ..fields
            },
            Fields {
                count: 1 << 40,
                ..fields
            },
        ];
        for other in others {
            assert_ne!(Signature::pack(other), packed, "{other:?}");
        }
    }

    #[test]
    fn huge_counts_stay_apart_from_small_ones() {
        let of = |count| {
            Signature::pack(Fields {
                collective: 1,
                dtype: 0,
                op: 0,
                root: 0,
                count,
            })
        };
        assert_ne!(of(1 << 35), of(0));
        assert_ne!(of((1 << 35) + 1), of(1 << 35));
    }
}
