//! Data types and operations of MPI, as far as kolo knows them.

use crate::decide::Class;
use crate::sys::{
    NamedOp, key, kolo_pmpi_combiner_dup, kolo_pmpi_named, kolo_pmpi_named_count,
    kolo_pmpi_op_null, kolo_pmpi_ops, kolo_pmpi_ops_count,
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
    /// From one element to the next, padding included.
    pub extent: usize,
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
    let code = unsafe { ffi::PMPI_Type_size(datatype, &mut size) };
    (code == 0 && size >= 0).then_some(size as usize)
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
            extent: if expected { row.bytes } else { size },
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

/// Of a type that the program made. Nothing is kept: its handle may be another type's soon.
#[cold]
fn derived(datatype: ffi::MPI_Datatype) -> Option<Kind> {
    // SAFETY: a constant of the MPI.
    if datatype == unsafe { ffi::RSMPI_DATATYPE_NULL } {
        return None;
    }
    let (mut integers, mut addresses, mut types, mut combiner) = (0, 0, 0, 0);
    // SAFETY: a live type, or MPI says that it is none.
    let code = unsafe {
        ffi::PMPI_Type_get_envelope(
            datatype,
            &mut integers,
            &mut addresses,
            &mut types,
            &mut combiner,
        )
    };
    // SAFETY: a constant of the shim.
    if code == 0 && combiner == unsafe { kolo_pmpi_combiner_dup } {
        let (mut no_int, mut no_address, mut of) = (0, 0, datatype);
        // SAFETY: such a type is made of one type and nothing else.
        let code = unsafe {
            ffi::PMPI_Type_get_contents(datatype, 0, 0, 1, &mut no_int, &mut no_address, &mut of)
        };
        if code == 0 {
            return match TABLES.get()?.kinds.find(key(&of)) {
                Some(kind) => Some(kind),
                None => {
                    let found = derived(of);
                    // SAFETY: MPI gave a reference to a derived type.
                    unsafe { ffi::PMPI_Type_free(&mut of) };
                    found
                }
            };
        }
    }
    let size = size_of_type(datatype)?;
    let (mut bound, mut extent) = (0, 0);
    // SAFETY: a live type.
    unsafe { ffi::PMPI_Type_get_extent(datatype, &mut bound, &mut extent) };
    Some(Kind {
        class: None,
        kolo: None,
        extent: extent.max(0) as usize,
        size,
        plain: false,
    })
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
