//! Reduction operations as callers name them.
//!
//! A handle is a number: that of a built-in operation, or one from [`RedOp::FIRST_DYNAMIC`] on for
//! what the program made ([`MadeOp`]): sums of pre-multiplied contributions, and functions of its
//! own.

use super::summable;
use crate::base::{Error, Result};
use crate::dtype::{DataType, ReduceOp};
use crate::exec::combine::UserOp;

/// A reduction operation as a handle: a built-in one, or one that the program made on a
/// communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RedOp(pub i32);

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl RedOp {
            $($(#[$doc])* pub const $name: RedOp = match ReduceOp::$op.number() {
                Some(number) => RedOp(number),
                None => panic!("a built-in operation has a number"),
            };)*
        }
    };
}

handles! {
    /// Sum.
    SUM = Sum;
    /// Product.
    PROD = Prod;
    /// Maximum.
    MAX = Max;
    /// Minimum.
    MIN = Min;
    /// Sum divided by the number of ranks.
    AVG = Avg;
    /// Bitwise and.
    BAND = Band;
    /// Bitwise or.
    BOR = Bor;
    /// Bitwise exclusive or.
    BXOR = Bxor;
    /// Logical and.
    LAND = Land;
    /// Logical or.
    LOR = Lor;
    /// Logical exclusive or.
    LXOR = Lxor;
    /// Minimum and where it is.
    MINLOC = Minloc;
    /// Maximum and where it is.
    MAXLOC = Maxloc;
}

impl RedOp {
    /// The correctly rounded exact sum, in all-reduce and reduce of real and complex numbers in
    /// single and double precision: the same bits for every number of ranks, order and algorithm.
    pub const SUM_EXACT: RedOp = RedOp(10);

    /// Handles from here on are operations that the program made.
    #[doc(hidden)]
    pub const FIRST_DYNAMIC: i32 = 64;

    /// The built-in operation, unless the handle is one that the program made.
    ///
    /// # Errors
    /// A number that no operation has; an operation that does not combine elements of `dtype`.
    #[inline(always)]
    pub(in crate::comm) fn built_in(self, dtype: DataType) -> Result<Option<ReduceOp>> {
        if self.0 >= RedOp::FIRST_DYNAMIC {
            return Ok(None);
        }
        match ReduceOp::from_number(self.0) {
            Some(op) if op.combines(dtype) => Ok(Some(op)),
            Some(op) => Err(cannot_combine(op, dtype)),
            None if self == RedOp::SUM_EXACT => Err(summable::not_here()),
            None => Err(unknown(self)),
        }
    }
}

/// Operation number of exact sums in signatures.
pub(in crate::comm) const EXACT_CODE: u8 = 29;

/// Operation numbers of functions of the program in signatures. All functions are alike there, but
/// whether they commute decides the algorithm, so ranks must agree about it.
const COMMUTING_CODE: u8 = 30;
const ORDERED_CODE: u8 = 31;

/// An operation that the program made.
#[derive(Clone)]
pub(in crate::comm) enum MadeOp {
    /// A sum of contributions that are multiplied first.
    PreMulSum {
        /// The type of the scalar and of the elements.
        dtype: DataType,
        /// The scalar, in its first bytes.
        scalar: [u8; 16],
    },
    /// A function, and the only type it knows; `None` for all.
    User(UserOp, Option<DataType>),
}

impl MadeOp {
    /// Its number in signatures.
    pub(super) fn code(&self) -> u8 {
        match self {
            MadeOp::PreMulSum { .. } => ReduceOp::PreMulSum as u8,
            MadeOp::User(user, _) if user.commutes => COMMUTING_CODE,
            MadeOp::User(..) => ORDERED_CODE,
        }
    }
}

/// The name of an operation number in signatures.
pub(in crate::comm) fn name_of_code(code: u8) -> &'static str {
    match ReduceOp::ALL.get(usize::from(code)) {
        Some(ReduceOp::PreMulSum) => "premulsum",
        Some(op) => op.name(),
        None if code == EXACT_CODE => "exact sum",
        None if code == COMMUTING_CODE => "a function of the program that commutes",
        None if code == ORDERED_CODE => "a function of the program that does not commute",
        None => "an unknown operation",
    }
}

#[cold]
pub(super) fn unknown(op: RedOp) -> Error {
    Error::argument(
        format!("{} is not a reduction operation of this communicator", op.0),
        "use a built-in one (koloSum, koloProd, koloMax, koloMin, koloAvg, koloSumExact, \
         koloBand, koloLand, koloMinloc, ...) or one made on this communicator",
    )
}

#[cold]
pub(super) fn cannot_combine(op: ReduceOp, dtype: DataType) -> Error {
    let mut possible: Vec<&str> = dtype.operations().map(ReduceOp::name).collect();
    if summable::has_sum(dtype) {
        possible.push("the exact sum (koloSumExact, in AllReduce and Reduce)");
    }
    let types: Vec<&str> = DataType::ALL
        .into_iter()
        .filter(|&dtype| op.combines(dtype))
        .map(DataType::name)
        .collect();
    Error::argument(
        format!("the operation {op} does not combine elements of type {dtype}"),
        format!(
            "{dtype} has {}; {op} exists for {}; or make an operation of a function",
            possible.join(", "),
            types.join(", ")
        ),
    )
}
