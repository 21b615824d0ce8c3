//! How much memory of a node kolo may take for the communicators of a program.
//!
//! Each process counts its own communicators ([`footprint`]); as all processes of a node are alike,
//! it takes as its part that of one rank of the node.

use crate::decide::Known;
use crate::footprint;
use crate::mpi_calls::bytes;
use crate::settings;
use mpi::ffi;
use std::sync::atomic::{AtomicU64, Ordering};

/// Part of the node's memory that kolo may take, where the settings name no bytes.
const SHARE: u64 = 20;

/// The most communicators of several nodes: each takes connections, or two of the communicators
/// that an MPI has numbers for, of which there may be no more than 2,048.
const MOST_ACROSS: u64 = 64;

/// Communicators of several nodes.
static ACROSS: AtomicU64 = AtomicU64::new(0);
/// Of all communicators: what they take in any case, and their slots.
static HELD: AtomicU64 = AtomicU64::new(0);
static HELD_SLOTS: AtomicU64 = AtomicU64::new(0);
/// For each process.
static MOST: AtomicU64 = AtomicU64::new(u64::MAX);
/// The bound of the slots of a process.
static SLOTS: AtomicU64 = AtomicU64::new(0);

fn of(nranks: u32) -> u64 {
    footprint::HEAD + footprint::lines(nranks)
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

/// Whether one more communicator would take too much of this node, or is one too many of several
/// nodes.
pub fn would_pass(known: &Known) -> bool {
    if known.spans() && ACROSS.load(Ordering::Relaxed) >= MOST_ACROSS {
        return true;
    }
    let nranks = known.span.most;
    let slots = footprint::slots(nranks);
    let most = SLOTS.load(Ordering::Relaxed).saturating_add(slots);
    let slots = (HELD_SLOTS.load(Ordering::Relaxed) + slots).min(most);
    HELD.load(Ordering::Relaxed) + of(nranks) + slots > MOST.load(Ordering::Relaxed)
}

/// A communicator was attached.
pub fn taken(known: &Known) {
    ACROSS.fetch_add(u64::from(known.spans()), Ordering::Relaxed);
    let nranks = known.span.most;
    HELD.fetch_add(of(nranks), Ordering::Relaxed);
    HELD_SLOTS.fetch_add(footprint::slots(nranks), Ordering::Relaxed);
}

/// It has ended.
pub fn given_back(known: &Known) {
    ACROSS.fetch_sub(u64::from(known.spans()), Ordering::Relaxed);
    let nranks = known.span.most;
    HELD.fetch_sub(of(nranks), Ordering::Relaxed);
    HELD_SLOTS.fetch_sub(footprint::slots(nranks), Ordering::Relaxed);
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
