//! How much memory of a node kolo may take for the communicators of a program.
//!
//! What one takes is the formula of docs/memory.md, for calls up to 64 KiB. Each process counts its
//! own communicators; as all processes of a node are alike, it multiplies by how many they are.

use crate::lists::bytes;
use crate::settings;
use mpi::ffi;
use std::sync::atomic::{AtomicU64, Ordering};

/// The head of a communicator for each rank.
const HEAD: u64 = 288 << 10;
/// The lines of a pair.
const LINES: u64 = 4 << 10;
/// Part of the node's memory that kolo may take, where the settings name no bytes.
const SHARE: u64 = 20;

static HELD: AtomicU64 = AtomicU64::new(0);
/// For each process.
static MOST: AtomicU64 = AtomicU64::new(u64::MAX);
/// The most that slots take in a process.
static SLOTS: AtomicU64 = AtomicU64::new(0);

fn of(nranks: u32) -> u64 {
    HEAD + LINES * u64::from(nranks.saturating_sub(1))
}

/// Begins with so many bytes for each node, 0: a share of what it has. All ranks of the world are
/// here.
pub fn begin(given: u64) {
    let all = if given == 0 {
        of_the_node() / SHARE
    } else {
        given
    };
    MOST.store(all / of_this_node(), Ordering::Relaxed);
    let slots = settings::text("slot_memory")
        .ok()
        .and_then(|text| bytes(&text));
    SLOTS.store(slots.unwrap_or(64 << 20), Ordering::Relaxed);
}

/// Whether one more communicator of so many ranks would take too much.
pub fn would_pass(nranks: u32) -> bool {
    let all = HELD.load(Ordering::Relaxed).saturating_add(of(nranks));
    all.saturating_add(SLOTS.load(Ordering::Relaxed)) > MOST.load(Ordering::Relaxed)
}

/// A communicator was attached.
pub fn taken(nranks: u32) {
    HELD.fetch_add(of(nranks), Ordering::Relaxed);
}

/// It has ended.
pub fn given_back(nranks: u32) {
    HELD.fetch_sub(of(nranks), Ordering::Relaxed);
}

/// Ranks of the job on this node; all ranks of the world are here.
fn of_this_node() -> u64 {
    let mut size = 1;
    // SAFETY: MPI is initialised, and what is made is given back.
    unsafe {
        let (mut node, world) = (ffi::RSMPI_COMM_NULL, ffi::RSMPI_COMM_WORLD);
        let (shared, none) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
        if ffi::PMPI_Comm_split_type(world, shared, 0, none, &mut node) == 0 {
            ffi::PMPI_Comm_size(node, &mut size);
            ffi::PMPI_Comm_free(&mut node);
        }
    }
    size.max(1) as u64
}

/// Memory of this node. A control group that leaves less is seen when a communicator is made, which
/// then fails on all ranks.
fn of_the_node() -> u64 {
    // SAFETY: numbers of the system.
    let [pages, page] =
        [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    (pages.max(0) as u64).saturating_mul(page.max(0) as u64)
}
