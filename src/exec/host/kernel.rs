//! Fold functions of the processor for each type and operation.

use crate::base::{Error, Result};
use crate::dtype::{self, DataType, FoldFn, FoldParams, ReduceOp, UserFunction};
use crate::exec::combine::{Combine, Operator};
use crate::exec::operation;
use std::any::Any;
use std::num::NonZeroU32;
use std::sync::Arc;

/// How data is folded and copied.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Folds sources of the call's type with the call's operation.
    pub fold: FoldFn,
    /// Copies one source of bytes.
    pub copy: FoldFn,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Scalar and divisor.
    pub params: FoldParams,
    /// Inputs are multiplied as they are read.
    pub pre_scaled: bool,
    /// Final results are divided by this.
    pub divisor: Option<NonZeroU32>,
    /// Keeps a function of the program alive.
    pub owner: Option<Arc<dyn Any + Send + Sync>>,
}

/// The kernels of one communicator.
pub struct Kernels {
    kernels: Vec<Kernel>,
    /// Position of each kernel by type and operation; the last column is for copies.
    slots: [[u8; COLUMNS]; DataType::ALL.len()],
}

const COLUMNS: usize = ReduceOp::ALL.len() + 1;
const COPY: usize = ReduceOp::ALL.len();

impl Kernels {
    /// All types, each with a copy and its built-in operations.
    pub fn new(nranks: u32) -> Kernels {
        let mut kernels = Vec::new();
        let mut slots = [[u8::MAX; COLUMNS]; DataType::ALL.len()];
        for dtype in DataType::ALL {
            slots[dtype as usize][COPY] = kernels.len() as u8;
            kernels.push(plain(dtype, dtype::copy()));
            for op in dtype.operations().filter(|op| op.number().is_some()) {
                let Some(fold) = dtype::fold(dtype, op) else {
                    continue;
                };
                slots[dtype as usize][op as usize] = kernels.len() as u8;
                let mut kernel = plain(dtype, fold);
                kernel.divisor = NonZeroU32::new(nranks).filter(|_| op == ReduceOp::Avg);
                kernels.push(kernel);
            }
        }
        debug_assert!(kernels.len() < usize::from(u8::MAX), "a slot is a byte");
        Kernels { kernels, slots }
    }

    /// The kernel of a built-in operation that combines the type, or of a copy.
    #[inline(always)]
    pub fn get(&self, dtype: DataType, op: Option<ReduceOp>) -> &Kernel {
        let column = op.map_or(COPY, |op| op as usize);
        &self.kernels[usize::from(self.slots[dtype as usize][column])]
    }

    /// The kernel of any way to combine.
    ///
    /// # Errors
    /// `InternalError` if the operation does not combine the type, which is refused before.
    pub fn of(&self, combine: &Combine) -> Result<Kernel> {
        let dtype = combine.dtype;
        match &combine.operator {
            Operator::Copy => Ok(self.get(dtype, None).clone()),
            Operator::BuiltIn(op) => Ok(self.get(dtype, Some(*op)).clone()),
            Operator::PreMulSum { scalar } => {
                let fold = dtype::fold(dtype, ReduceOp::PreMulSum);
                let fold = fold.ok_or_else(|| {
                    Error::internal(format!("contributions of {dtype} cannot be multiplied"))
                })?;
                let mut kernel = plain(dtype, fold);
                kernel.params.scalar = *scalar;
                kernel.pre_scaled = true;
                Ok(kernel)
            }
            Operator::Function(function, behalf) => {
                let mut kernel = plain(dtype, operation::fold);
                kernel.params.user = Some(UserFunction {
                    call: function.call,
                    context: function.context.address(),
                    number: dtype.number(),
                    element_bytes: dtype.size_bytes(),
                    behalf: *behalf,
                });
                kernel.owner.clone_from(&function.owner);
                Ok(kernel)
            }
        }
    }
}

fn plain(dtype: DataType, fold: dtype::FoldFn) -> Kernel {
    Kernel {
        fold,
        copy: dtype::copy(),
        element_bytes: dtype.size_bytes(),
        params: FoldParams::default(),
        pre_scaled: false,
        divisor: None,
        owner: None,
    }
}
