//! The cells of the table: one for each collective and size class.

use super::allowed::COLLECTIVES;
use super::decided::Decided;
use super::protocol::ProtocolChoice;
use crate::plan::{Algorithm, Collective};

/// Size class k holds the sizes from 2^k bytes up to, not including, 2^(k+1); class 0 also 0.
pub const CLASSES: usize = 48;

/// The class of a size.
#[inline]
pub fn class_of(bytes: usize) -> usize {
    let highest = usize::BITS - 1 - (bytes | 1).leading_zeros();
    (highest as usize).min(CLASSES - 1)
}

/// One choice with the time that is expected of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol of its tokens.
    pub protocol: ProtocolChoice,
    /// Its channels; 0 takes them by size ...
    pub channels: u16,
    /// ... in multiples of this.
    pub multiple: u16,
    /// Run as two collectives in a row instead.
    pub composed: bool,
    /// Chosen because the table contradicted itself.
    pub mended: bool,
    /// Whether the time comes from a measurement.
    pub measured: bool,
    /// Expected time in nanoseconds; infinite where nothing computes the collective.
    pub time_ns: f64,
    /// The rule by which it was chosen.
    pub decided: Decided,
}

/// All cells.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) rows: Vec<[Cell; CLASSES]>,
}

pub(super) const NOTHING: Cell = Cell {
    algorithm: Algorithm::Bundle,
    protocol: ProtocolChoice::Simple,
    channels: 1,
    multiple: 1,
    composed: false,
    mended: false,
    measured: false,
    time_ns: f64::INFINITY,
    decided: Decided::Least,
};

impl Grid {
    pub fn new() -> Grid {
        Grid {
            rows: vec![[NOTHING; CLASSES]; COLLECTIVES],
        }
    }

    pub fn row(&self, collective: Collective) -> [Cell; CLASSES] {
        self.rows[collective as usize]
    }

    pub fn set_row(&mut self, collective: Collective, row: [Cell; CLASSES]) {
        self.rows[collective as usize] = row;
    }

    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [Cell; CLASSES]> {
        self.rows.iter_mut()
    }
}
