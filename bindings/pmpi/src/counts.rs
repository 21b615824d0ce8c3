//! Counts and displacements of MPI's functions, which have two forms: `int`, and `MPI_Count`.

use std::ffi::c_int;

/// Whole numbers of MPI.
pub trait Whole: Copy {
    fn whole(self) -> i64;
}

impl Whole for c_int {
    fn whole(self) -> i64 {
        i64::from(self)
    }
}

impl Whole for i64 {
    fn whole(self) -> i64 {
        self
    }
}

impl Whole for isize {
    fn whole(self) -> i64 {
        self as i64
    }
}

/// One of the two forms.
pub trait Form {
    type Count: Whole;
    type Displacement: Whole;
    const LARGE: bool;
}

/// `MPI_X`.
pub struct Int;
/// `MPI_X_c`.
pub struct Large;

impl Form for Int {
    type Count = c_int;
    type Displacement = c_int;
    const LARGE: bool = false;
}

impl Form for Large {
    type Count = i64;
    type Displacement = isize;
    const LARGE: bool = true;
}
