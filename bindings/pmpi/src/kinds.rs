//! Data types and operations of MPI, as far as kolo knows them.

use crate::counts::Whole;
use crate::decide::Class;
use crate::sys::{
    NamedOp, key, kolo_pmpi_made, kolo_pmpi_named, kolo_pmpi_named_count, kolo_pmpi_op_null,
    kolo_pmpi_ops, kolo_pmpi_ops_count,
};
use mpi::ffi;
use std::ffi::c_int;
use std::sync::OnceLock;

/// A data type.
#[derive(Clone, Copy)]
pub struct Kind {
    /// None: derived.
    pub class: Option<Class>,
    /// Kolo's type, whose elements it folds as MPI does; none: MPI folds.
    pub kolo: Option<c_int>,
    /// Bytes from one element to the next, padding included; negative where they go backwards.
    pub extent: isize,
    /// Data of one element.
    pub size: usize,
    /// Elements lie one behind the other without gaps, in the order in which MPI moves them.
    pub plain: bool,
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// MPI's own, by kolo's number.
    Named(c_int),
    /// The program's.
    Program,
}

const SLOTS: usize = 256;

/// Values by handles that never change.
struct Table<T> {
    slots: [Option<(u64, T)>; SLOTS],
}

impl<T: Copy> Table<T> {
    #[inline]
    fn place(key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    /// The first of equal keys stays.
    fn add(&mut self, key: u64, value: T) {
        let mut place = Self::place(key);
        while let Some((other, _)) = self.slots[place] {
            if other == key {
                return;
            }
            place = (place + 1) % SLOTS;
        }
        self.slots[place] = Some((key, value));
    }

    #[inline]
    fn find(&self, key: u64) -> Option<T> {
        let mut place = Self::place(key);
        while let Some((other, value)) = self.slots[place] {
            if other == key {
                return Some(value);
            }
            place = (place + 1) % SLOTS;
        }
        None
    }
}

struct Tables {
    kinds: Table<Kind>,
    ops: Table<c_int>,
}

static TABLES: OnceLock<Box<Tables>> = OnceLock::new();

const CLASSES: [Class; 8] = [
    Class::Integer,
    Class::Unsigned,
    Class::Floating,
    Class::Complex,
    Class::Logical,
    Class::Bytes,
    Class::Pair,
    Class::Other,
];

fn size_of_type(datatype: ffi::MPI_Datatype) -> Option<usize> {
    let mut size = 0;
    // SAFETY: MPI is initialised; a live type.
    let code = unsafe { ffi::PMPI_Type_size_x(datatype, &mut size) };
    // MPIs have different types for it.
    (code == 0).then(|| usize::try_from(size.whole()).ok())?
}

fn tables() -> Box<Tables> {
    let mut made = Box::new(Tables {
        kinds: Table {
            slots: [None; SLOTS],
        },
        ops: Table {
            slots: [None; SLOTS],
        },
    });
    // SAFETY: constants of the shim, as many as it says.
    let (named, ops): (_, &[NamedOp]) = unsafe {
        (
            std::slice::from_raw_parts((&raw const kolo_pmpi_named).cast(), kolo_pmpi_named_count),
            std::slice::from_raw_parts((&raw const kolo_pmpi_ops).cast(), kolo_pmpi_ops_count),
        )
    };
    // SAFETY: a constant of the MPI.
    let null = unsafe { ffi::RSMPI_DATATYPE_NULL };
    for row in named {
        let row: &crate::sys::Named = row;
        if row.datatype == null {
            continue;
        }
        let Some(size) = size_of_type(row.datatype) else {
            continue;
        };
        let class = CLASSES[row.class as usize];
        // A Fortran of other sizes: how its elements are folded is left to MPI.
        let expected = class == Class::Pair || size == row.bytes;
        let kind = Kind {
            class: Some(if expected { class } else { Class::Other }),
            kolo: (expected && row.kolo >= 0).then_some(row.kolo),
            extent: if expected { row.bytes } else { size } as isize,
            size,
            plain: !expected || size == row.bytes,
        };
        made.kinds.add(key(&row.datatype), kind);
    }
    for row in ops {
        made.ops.add(key(&row.op), row.kolo);
    }
    made
}

/// Makes the tables; MPI is initialised.
pub fn begin() {
    TABLES.get_or_init(tables);
}

/// The kind of a type. None: MPI itself does not take the handle.
#[inline]
pub fn kind(datatype: ffi::MPI_Datatype) -> Option<Kind> {
    match TABLES.get()?.kinds.find(key(&datatype)) {
        Some(kind) => Some(kind),
        None => derived(datatype),
    }
}

/// Whether a type is a constant of MPI, whose handle never means another one. (A copy of one is
/// freed, and its handle used again.)
pub fn is_constant(datatype: ffi::MPI_Datatype) -> bool {
    TABLES
        .get()
        .is_some_and(|tables| tables.kinds.find(key(&datatype)).is_some())
}

/// How a type was made, as far as it matters here. The order is that of the shim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// By nobody: MPI has it.
    Named,
    Duplicate,
    Contiguous,
    /// For a precision that a Fortran program has asked for; MPI has it too.
    OfIntegers,
    OfReals,
    OfComplex,
    Else,
}

const MADE: [Made; 7] = [
    Made::Named,
    Made::Duplicate,
    Made::Contiguous,
    Made::OfIntegers,
    Made::OfReals,
    Made::OfComplex,
    Made::Else,
];

/// How it was made, and of which type a duplicate or a contiguous one is. None: MPI itself does not
/// take the handle.
fn how_made(datatype: ffi::MPI_Datatype) -> Option<(Made, ffi::MPI_Datatype)> {
    // SAFETY: a constant of the MPI.
    if datatype == unsafe { ffi::RSMPI_DATATYPE_NULL } {
        return None;
    }
    let (mut made, mut of) = (0, datatype);
    // SAFETY: a live type, or MPI says that it is none.
    let code = unsafe { kolo_pmpi_made(datatype, &mut made, &mut of) };
    (code == 0).then(|| (MADE[made as usize], of))
}

/// The kind of a type that MPI has told what another one is made of.
fn inner(mut of: ffi::MPI_Datatype) -> Option<Kind> {
    let found = kind(of);
    if let Some((Made::Duplicate | Made::Contiguous | Made::Else, _)) = how_made(of) {
        // SAFETY: MPI gave a reference to a type that the program made; to its own it gives none.
        unsafe { ffi::PMPI_Type_free(&mut of) };
    }
    found
}

/// Of a type that is not in the table. Nothing is kept: its handle may be another type's soon.
#[cold]
fn derived(datatype: ffi::MPI_Datatype) -> Option<Kind> {
    let (made, of) = how_made(datatype)?;
    if made == Made::Duplicate {
        return inner(of);
    }
    let (mut bound, mut extent) = (0, 0);
    // SAFETY: a live type.
    let code = unsafe { ffi::PMPI_Type_get_extent(datatype, &mut bound, &mut extent) };
    // Of many in a row the elements are asked whether there are gaps.
    let no_gaps = made == Made::Contiguous && inner(of).is_some_and(|of| of.plain);
    let size = size_of_type(datatype)?;
    if code != 0 {
        return None;
    }
    // MPIs have different types for it.
    let extent = extent.whole() as isize;
    let filled = bound == 0 && size > 0 && extent == size as isize;
    let class = match made {
        Made::OfIntegers => Some(Class::Integer),
        Made::OfReals => Some(Class::Floating),
        Made::OfComplex => Some(Class::Complex),
        Made::Named => Some(Class::Other),
        Made::Duplicate | Made::Contiguous | Made::Else => None,
    };
    if let Some(like) = class
        .filter(|_| filled)
        .and_then(|class| alike(class, size))
    {
        return Some(like);
    }
    Some(Kind {
        class: class.map(|_| Class::Other),
        kolo: None,
        extent,
        size,
        plain: filled && (no_gaps || class.is_some()),
    })
}

/// The kind of such elements in the table.
fn alike(class: Class, size: usize) -> Option<Kind> {
    let slots = TABLES.get()?.kinds.slots.iter().flatten();
    let mut kinds = slots.map(|(_, kind)| *kind);
    kinds.find(|kind| kind.class == Some(class) && kind.size == size && kind.kolo.is_some())
}

/// The kind of an operation. None: MPI itself does not take the handle.
#[inline]
pub fn op(op: ffi::MPI_Op) -> Option<Op> {
    match TABLES.get()?.ops.find(key(&op)) {
        Some(kolo) => Some(Op::Named(kolo)),
        // SAFETY: a constant of the MPI.
        None => (op != unsafe { kolo_pmpi_op_null }).then_some(Op::Program),
    }
}

/// `koloSum` and `koloProd`.
pub fn sums(op: Op) -> bool {
    matches!(op, Op::Named(0 | 1))
}

/// Whether it is the program's, and does not commute: MPI's own all do.
pub fn is_ordered(op: Op, handle: ffi::MPI_Op) -> bool {
    let mut commutes = 1;
    // SAFETY: a live operation.
    op == Op::Program
        && unsafe { ffi::PMPI_Op_commutative(handle, &mut commutes) } == 0
        && commutes == 0
}

/// Whether kolo folds elements of its type `kolo` by its operation `op`, with MPI's results.
pub fn folds(class: Class, op: c_int) -> bool {
    match class {
        Class::Integer | Class::Unsigned => op < 24,
        Class::Floating => op < 4,
        Class::Complex => op < 2,
        Class::Pair => op == 24 || op == 25,
        Class::Logical | Class::Bytes | Class::Other => false,
    }
}

/// The type of kolo that carries elements of so many bytes where MPI folds them.
pub fn carrier(bytes: usize) -> Option<c_int> {
    match bytes {
        1 => Some(1),
        2 => Some(6),
        4 => Some(3),
        8 => Some(5),
        16 => Some(17),
        _ => None,
    }
}
