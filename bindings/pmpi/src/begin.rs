//! The start and the end: what the front calls at the end of MPI_Init, and MPI when it ends.

use crate::settings::{self, Settings};
use crate::sys::kolo_pmpi_no_copy;
use crate::{Function, agree, alone, comms, contained, forms, front, kinds, report, say, verify};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// `KOLO_PMPI_VERSION` of `front/front.h`.
const VERSION: u32 = 1;

/// `struct kolo_pmpi_begin` of the front.
#[repr(C)]
pub struct Table {
    size: usize,
    version: u32,
    count: u32,
    native: *const Function,
    taken: *mut Function,
    off: Option<unsafe extern "C" fn()>,
}

/// In the world.
static RANK: AtomicI32 = AtomicI32::new(0);
/// All ranks have agreed that kolo takes calls.
static TAKES: AtomicBool = AtomicBool::new(false);
/// Of the world.
static NRANKS: AtomicI32 = AtomicI32::new(0);
static OFF: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// 0: kolo takes calls.
///
/// # Safety
/// The front's table, whose arrays stay as long as the process. MPI is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kolo_pmpi_begin(table: *mut Table) -> c_int {
    contained(1, || {
        // SAFETY: the caller's promise.
        let table = unsafe { &mut *table };
        let functions = forms::all();
        if table.size < size_of::<Table>()
            || table.version != VERSION
            || table.count as usize != functions.len()
        {
            say(
                "kolo: libkolo_pmpi.so and libkolo_pmpi_calls.so are of different versions. \
                 Remedy: install kolo anew",
            );
            return 1;
        }
        front::begin(table.native);
        kinds::begin();
        let (mut rank, mut nranks) = (0, 0);
        // SAFETY: MPI is initialised.
        unsafe {
            ffi::PMPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank);
            ffi::PMPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut nranks);
        }
        let settings = Settings::read(rank, nranks);
        if settings.on && alone::by_mistake() {
            return 1;
        }
        let wanted = settings.on && settings.wrong.is_none();
        let ready = wanted && comms::begin() && ends_last(table.off);
        if wanted && !ready {
            say(&format!(
                "kolo: the collectives of this program stay with MPI: on rank {rank} MPI gives no \
                 key for an attribute. Remedy: look whether the program or a tool in front of it \
                 makes keys before MPI_Init ends"
            ));
        }
        if !agree::agree(&settings, ready) {
            return 1;
        }
        TAKES.store(true, Ordering::Relaxed);
        // SAFETY: the function stays, as this library does.
        unsafe { libc::atexit(at_exit) };
        RANK.store(rank, Ordering::Relaxed);
        NRANKS.store(nranks, Ordering::Relaxed);
        for (place, &function) in functions.iter().enumerate() {
            // SAFETY: both have as many places.
            unsafe {
                if !(*table.native.add(place)).is_null() {
                    *table.taken.add(place) = function;
                }
            }
        }
        0
    })
}

/// Hangs on MPI_COMM_SELF what is to happen when MPI ends. It is the first attribute there, so its
/// function is the last that MPI calls.
fn ends_last(off: Option<unsafe extern "C" fn()>) -> bool {
    let Some(off) = off else {
        return false;
    };
    OFF.store(off as *mut c_void, Ordering::Relaxed);
    let mut keyval = 0;
    // SAFETY: MPI is initialised; the function stays.
    unsafe {
        ffi::PMPI_Comm_create_keyval(
            kolo_pmpi_no_copy,
            Some(ending),
            &mut keyval,
            std::ptr::null_mut(),
        ) == 0
            && ffi::PMPI_Comm_set_attr(ffi::RSMPI_COMM_SELF, keyval, std::ptr::null_mut()) == 0
    }
}

unsafe extern "C" fn ending(
    _comm: ffi::MPI_Comm,
    _keyval: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    contained(0, || {
        if !TAKES.load(Ordering::Relaxed) {
            return 0;
        }
        front::end();
        let off = OFF.load(Ordering::Relaxed);
        if !off.is_null() {
            // SAFETY: the front's function, with no arguments.
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(off)() };
        }
        tell();
        0
    })
}

/// A program that ends without MPI_Finalize is told of, too.
extern "C" fn at_exit() {
    contained((), tell);
}

/// Tells once what there is to tell.
fn tell() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let rank = RANK.load(Ordering::Relaxed);
    if settings::text("report").is_ok_and(|value| value == "true") {
        let saved = settings::saved(NRANKS.load(Ordering::Relaxed));
        report::tell(rank, saved.as_ref());
    }
    verify::tell(rank);
}
