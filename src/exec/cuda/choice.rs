//! Which kernel a call runs with, and what it multiplies and divides by.

use super::names;
use crate::base::{Error, Result};
use crate::dtype::{DataType, ReduceOp};
use crate::exec::combine::{Combine, Operator};
use crate::plan::Protocol;

/// How a kernel combines the elements of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelChoice {
    dtype: DataType,
    /// The kernel among those of its protocol.
    fold_number: usize,
    /// Elements of the kernel in one of the call: bytes, where data are only moved.
    pub scale: usize,
    /// The factor of a pre-multiplied sum.
    pub scalar: u64,
    /// Inputs are multiplied by it.
    pub is_pre_scaled: bool,
    /// The result is divided by the number of ranks.
    pub is_average: bool,
}

impl KernelChoice {
    /// The kernel for elements that combine so.
    ///
    /// # Errors
    /// `InvalidUsage`: there is none.
    pub fn of(combine: &Combine) -> Result<KernelChoice> {
        let dtype = combine.dtype;
        let folded = |op| match names::fold_number(dtype, Some(op)) {
            Some(fold_number) => Ok(KernelChoice {
                dtype,
                fold_number,
                ..KernelChoice::bytes()
            }),
            None => Err(unknown(dtype, op)),
        };
        match &combine.operator {
            Operator::Copy => Ok(KernelChoice {
                scale: dtype.size_bytes(),
                ..KernelChoice::bytes()
            }),
            Operator::BuiltIn(op) => Ok(KernelChoice {
                is_average: *op == ReduceOp::Avg,
                ..folded(*op)?
            }),
            Operator::PreMulSum { scalar } => {
                let (low, _) = scalar.split_at(8);
                Ok(KernelChoice {
                    scalar: u64::from_le_bytes(low.try_into().unwrap_or([0; 8])),
                    is_pre_scaled: true,
                    ..folded(ReduceOp::PreMulSum)?
                })
            }
            Operator::Function(..) => Err(Error::usage(
                "an operation of the program runs on the host, and a GPU cannot call it",
                "reduce in host memory with a communicator on the host",
            )),
        }
    }

    /// The kernel that moves bytes.
    pub fn bytes() -> KernelChoice {
        KernelChoice {
            dtype: DataType::Int8,
            // Int8 is the first type, and a sum the first operation.
            fold_number: 0,
            scale: 1,
            scalar: 0,
            is_pre_scaled: false,
            is_average: false,
        }
    }

    /// Bytes of an element of the kernel.
    pub fn element_bytes(&self) -> usize {
        self.dtype.size_bytes()
    }

    /// The number of the kernel among all.
    pub fn number(&self, protocol: Protocol) -> usize {
        names::number(protocol, self.fold_number)
    }
}

fn unknown(dtype: DataType, op: ReduceOp) -> Error {
    Error::usage(
        format!("the kernels have no {} of {}", op.name(), dtype.name()),
        "reduce one of the 12 types of docs/gpu.md with sum, prod, max, min or avg, or use a \
         communicator on the host",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_moves_and_twelve_are_folded() {
        for dtype in DataType::ALL {
            let moved = KernelChoice::of(&Combine::copy(dtype)).expect("bytes");
            assert_eq!(
                (moved.scale, moved.element_bytes()),
                (dtype.size_bytes(), 1)
            );
            let number = moved.number(Protocol::Ll);
            assert_eq!(names::numbered()[number], "kolo2_Ll_Int8_Sum");
            let sum = Combine::built_in(dtype, Some(ReduceOp::Sum));
            let is_there = DataType::NCCL.contains(&dtype);
            assert_eq!(KernelChoice::of(&sum).is_ok(), is_there, "{dtype:?}");
        }
    }

    #[test]
    fn what_scales_reaches_the_launch() {
        let average = Combine::built_in(DataType::Float32, Some(ReduceOp::Avg));
        let average = KernelChoice::of(&average).expect("a kernel");
        assert!(average.is_average && !average.is_pre_scaled);
        let mut scalar = [0; 16];
        scalar[..8].copy_from_slice(&2.5f64.to_le_bytes());
        let scaled = Combine {
            dtype: DataType::Float64,
            operator: Operator::PreMulSum { scalar },
        };
        let scaled = KernelChoice::of(&scaled).expect("a kernel");
        assert_eq!(f64::from_bits(scaled.scalar), 2.5);
        assert!(scaled.is_pre_scaled && !scaled.is_average);
        let number = scaled.number(Protocol::Simple);
        assert_eq!(names::numbered()[number], "kolo2_Simple_Double_Sum");
    }
}
