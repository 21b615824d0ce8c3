//! How the elements of a call combine, as every engine understands it: a data type, an operation
//! and what scales. An engine turns it into functions or kernels of its own device.

use crate::dtype::{Behalf, DataType, ReduceOp, UserCall};
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// How the elements of one call combine.
#[derive(Clone, Debug)]
pub struct Combine {
    /// Type of the elements.
    pub dtype: DataType,
    /// Operation that makes one element of several.
    pub operator: Operator,
}

/// An operation that makes one element of several.
#[derive(Clone, Debug)]
pub enum Operator {
    /// Nothing: data are only moved.
    Copy,
    /// A built-in operation; of [`ReduceOp::Avg`] the result is divided by the number of ranks.
    BuiltIn(ReduceOp),
    /// A sum of contributions that each rank multiplies first.
    PreMulSum {
        /// This rank's factor, in the first bytes.
        scalar: [u8; 16],
    },
    /// A function of the program, and on whose behalf it is called.
    Function(UserOp, Behalf),
}

/// A function of the program that combines elements.
#[derive(Clone, Debug)]
pub struct UserOp {
    /// The function.
    pub call: UserCall,
    /// Passed on as its last argument.
    pub context: SendPointer,
    /// The order of contributions does not matter to it.
    pub commutes: bool,
    /// Keeps a Rust closure alive while calls use it.
    pub owner: Option<Arc<dyn Any + Send + Sync>>,
}

/// An address that the program answers for.
#[derive(Clone, Copy, Debug)]
pub struct SendPointer(*mut c_void);

// SAFETY: whoever makes one promises that ([`SendPointer::new`]).
unsafe impl Send for SendPointer {}
// SAFETY: as above.
unsafe impl Sync for SendPointer {}

impl SendPointer {
    /// An address that is only handed back to its owner's functions.
    ///
    /// # Safety
    /// These may be called with it from any thread, and from several at once.
    pub unsafe fn new(address: *mut c_void) -> SendPointer {
        SendPointer(address)
    }

    /// The address.
    pub fn address(self) -> *mut c_void {
        self.0
    }
}

impl Combine {
    /// Elements of this type that are only moved.
    pub fn copy(dtype: DataType) -> Combine {
        Combine::built_in(dtype, None)
    }

    /// A built-in operation; `None` where data are only moved.
    pub fn built_in(dtype: DataType, op: Option<ReduceOp>) -> Combine {
        let operator = op.map_or(Operator::Copy, Operator::BuiltIn);
        Combine { dtype, operator }
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        self.dtype.size_bytes()
    }

    /// Whether the order of contributions does not matter.
    pub fn commutes(&self) -> bool {
        match &self.operator {
            Operator::Function(function, _) => function.commutes,
            _ => true,
        }
    }

    /// Whether contributions are multiplied as they are read.
    pub fn is_pre_scaled(&self) -> bool {
        matches!(self.operator, Operator::PreMulSum { .. })
    }

    /// Whether a function of the program combines them, which only its own threads call.
    pub fn is_by_program(&self) -> bool {
        matches!(self.operator, Operator::Function(..))
    }
}
