//! The communicators of the program.
//!
//! A communicator is found by its handle, in a table that every thread may read without a lock. Its
//! entry is made at its first collective, and hangs on it as an attribute, so that MPI says when it
//! is freed. Entries are used again and never given back: a thread that looks at one while another
//! thread frees that communicator reads memory that is still there, and finds another handle in it.

use crate::alike::Alike;
use crate::decide::{Collective, Known, Reason, Span, Stage};
use crate::folding::Folding;
use crate::levels::Levels;
use crate::sys::{Comm, key, kolo_pmpi_no_copy, koloCommDestroy};
use crate::{memory, nodes, placement, places, report};
use mpi::ffi;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

/// One communicator.
pub struct Entry {
    /// 0: belongs to none.
    key: AtomicU64,
    state: UnsafeCell<State>,
}

// SAFETY: the state belongs to whoever is in a collective of the communicator, of which MPI allows
// one at a time; the rest is atomic.
unsafe impl Sync for Entry {}

/// The part that a collective on it changes.
pub struct State {
    pub handle: ffi::MPI_Comm,
    pub known: Known,
    pub rank: c_int,
    /// Null until it is attached; with levels that of this node, null where this rank is alone.
    pub kolo: Comm,
    /// Of a communicator on several nodes, whose calls MPI runs between them.
    pub levels: Option<Box<Levels>>,
    /// Of the last all-reduces that kolo folded by itself, on one node.
    pub alike: [Option<Alike>; 2],
    pub folding: Folding,
    /// Memory for what is packed, kept while it is small.
    pub spare: [Vec<u64>; 2],
}

const LINES: usize = 64;
static TABLE: [AtomicPtr<Entry>; LINES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; LINES];
static KEYVAL: AtomicI32 = AtomicI32::new(-1);
/// Entries that belong to no communicator now.
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());

fn line(key: u64) -> &'static AtomicPtr<Entry> {
    &TABLE[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize]
}

/// The state of a communicator on which a collective begins. None: MPI runs it. Of one that stays
/// with MPI no argument is looked at: between two groups they mean other things.
///
/// # Safety
/// No other thread is in a collective of it, as MPI has it.
#[inline]
pub unsafe fn of(handle: ffi::MPI_Comm, collective: Collective) -> Option<&'static mut State> {
    // SAFETY: the caller's promise.
    let state = unsafe { find(handle)? };
    if state.known.stage == Stage::Mpi {
        let reason = Reason::Communicator;
        report::passed(collective, reason);
        placement::passed(handle, collective, None, reason);
        return None;
    }
    Some(state)
}

/// The state of a communicator, of whatever stage.
///
/// # Safety
/// No other thread is in a collective of it.
#[inline]
pub unsafe fn find(handle: ffi::MPI_Comm) -> Option<&'static mut State> {
    let key = key(&handle);
    let found = line(key).load(Ordering::Acquire);
    // SAFETY: entries are never given back.
    if !found.is_null() && unsafe { &*found }.key.load(Ordering::Acquire) == key {
        // SAFETY: the caller's promise.
        return Some(unsafe { &mut *(*found).state.get() });
    }
    look(handle, key)
}

#[cold]
fn look(handle: ffi::MPI_Comm, key: u64) -> Option<&'static mut State> {
    // SAFETY: a constant of the MPI.
    if handle == unsafe { ffi::RSMPI_COMM_NULL } {
        return None;
    }
    let (mut value, mut there) = (std::ptr::null_mut::<c_void>(), 0);
    let keyval = KEYVAL.load(Ordering::Acquire);
    // SAFETY: MPI is initialised; it says whether the handle is a live communicator's.
    let code =
        unsafe { ffi::PMPI_Comm_get_attr(handle, keyval, (&raw mut value).cast(), &mut there) };
    if code != 0 {
        return None;
    }
    let entry: &'static Entry = match there {
        // SAFETY: the attribute is an entry of ours.
        1 => unsafe { &*value.cast::<Entry>() },
        _ => make(handle, key)?,
    };
    line(key).store((&raw const *entry).cast_mut(), Ordering::Release);
    // SAFETY: as in `find`.
    Some(unsafe { &mut *entry.state.get() })
}

/// An entry for a communicator that has none. Only its members' numbers are asked for.
fn make(handle: ffi::MPI_Comm, key: u64) -> Option<&'static Entry> {
    let (mut nranks, mut rank, mut inter) = (0, 0, 0);
    // SAFETY: a live communicator.
    let code = unsafe {
        ffi::PMPI_Comm_size(handle, &mut nranks)
            | ffi::PMPI_Comm_rank(handle, &mut rank)
            | ffi::PMPI_Comm_test_inter(handle, &mut inter)
    };
    if code != 0 {
        return None;
    }
    let ranks = if inter != 0 || nranks < 2 {
        None
    } else {
        in_this_world(handle, nranks)
    };
    let stage = match ranks {
        None => Stage::Mpi,
        Some(_) => Stage::Counted,
    };
    let nodes = ranks.and_then(|ranks| nodes::of(&ranks));
    let state = State {
        handle,
        known: Known {
            stage,
            nranks: nranks as u32,
            span: nodes.map_or(
                Span {
                    most: nranks as u32,
                    in_order: true,
                },
                |nodes| places::span(&nodes),
            ),
            begun: 0,
            spent: 0,
        },
        rank,
        kolo: std::ptr::null_mut(),
        levels: None,
        alike: [None, None],
        folding: Folding::default(),
        spare: [Vec::new(), Vec::new()],
    };
    let free = FREE.lock().ok()?.pop();
    let entry: &'static Entry = match free {
        Some(entry) => {
            // SAFETY: it belongs to nobody.
            unsafe { *entry.state.get() = state };
            entry
        }
        None => Box::leak(Box::new(Entry {
            key: AtomicU64::new(0),
            state: UnsafeCell::new(state),
        })),
    };
    let value = (&raw const *entry).cast_mut().cast();
    // SAFETY: a live communicator, a keyval of ours.
    let code = unsafe { ffi::PMPI_Comm_set_attr(handle, KEYVAL.load(Ordering::Acquire), value) };
    if code != 0 {
        FREE.lock().ok()?.push(entry);
        return None;
    }
    entry.key.store(key, Ordering::Release);
    Some(entry)
}

/// The members' ranks in the world, if all were started together with this rank, and so have agreed
/// with it. Where one was not, none of them finds all others in its own world.
pub fn in_this_world(handle: ffi::MPI_Comm, nranks: c_int) -> Option<Vec<c_int>> {
    let ranks: Vec<c_int> = (0..nranks).collect();
    let mut there = vec![0; ranks.len()];
    // SAFETY: live communicators, and room for as many ranks; the groups are given back.
    unsafe {
        let (mut members, mut world) = (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_GROUP_NULL);
        let code = ffi::PMPI_Comm_group(handle, &mut members)
            | ffi::PMPI_Comm_group(ffi::RSMPI_COMM_WORLD, &mut world)
            | ffi::PMPI_Group_translate_ranks(
                members,
                nranks,
                ranks.as_ptr(),
                world,
                there.as_mut_ptr(),
            );
        ffi::PMPI_Group_free(&mut members);
        ffi::PMPI_Group_free(&mut world);
        let are_known = there.iter().all(|&rank| rank != ffi::RSMPI_UNDEFINED);
        (code == 0 && are_known).then_some(there)
    }
}

/// MPI frees the communicator: what hangs on it ends.
unsafe extern "C" fn freed(
    _comm: ffi::MPI_Comm,
    _keyval: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    crate::contained(0, || {
        // SAFETY: the attribute is an entry of ours.
        let entry: &'static Entry = unsafe { &*value.cast::<Entry>() };
        entry.key.store(0, Ordering::Release);
        // SAFETY: nobody is in a collective of a communicator that is being freed.
        let state = unsafe { &mut *entry.state.get() };
        state.folding.end(state.kolo);
        let kolo = std::mem::replace(&mut state.kolo, std::ptr::null_mut());
        if !kolo.is_null() {
            // SAFETY: a live communicator of kolo's.
            unsafe { koloCommDestroy(kolo) };
        }
        drop(state.levels.take());
        if state.known.stage == Stage::Attached {
            memory::given_back(&state.known);
        }
        if let Ok(mut free) = FREE.lock() {
            free.push(entry);
        }
        0
    })
}

/// Makes the attribute. Whether MPI did.
pub fn begin() -> bool {
    let mut keyval = 0;
    // SAFETY: MPI is initialised; the function lives as long as the library, which stays.
    let code = unsafe {
        ffi::PMPI_Comm_create_keyval(
            kolo_pmpi_no_copy,
            Some(freed),
            &mut keyval,
            std::ptr::null_mut(),
        )
    };
    KEYVAL.store(keyval, Ordering::Release);
    code == 0
}
