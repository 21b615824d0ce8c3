//! Calls of communicators on several nodes: kolo on each node, the program's MPI between the nodes.
//!
//! Between nodes MPI has networks that kolo has not. The first rank of each node is its *leader*:
//! the leaders have a communicator of MPI's, and the ranks of each node one of kolo's. Data go up
//! to the leader, across, and down again:
//!
//! - barrier: kolo's, MPI's, kolo's;
//! - bcast: from the root to its node, between the leaders, to the other nodes;
//! - reduce, allreduce: to the leader, between the leaders, down to the root or to all;
//! - allgather: to the leader, between the leaders, and all of it down.
//!
//! All of MPI's part is in the program's own blocking call, so no thread level is needed. The other
//! collectives move different data between each two ranks, and gain nothing by two levels.

use crate::alike::ByKolo;
use crate::comms::{State, in_this_world};
use crate::errors;
use crate::levels::{Fault, Levels, Step};
use crate::nodes;
use crate::places::ranks_of;
use crate::printed;
use crate::say;
use crate::sys::{
    BYTE, Comm, NO_STREAM, koloBarrier, koloBcast, koloCommAbort, koloGather, koloRecv, koloReduce,
    koloSend,
};
use crate::together::{made_of, on_any};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// The data of a reduction on levels.
#[derive(Clone, Copy)]
pub struct OnLevels {
    pub send: *const c_void,
    pub recv: *mut c_void,
    pub count: usize,
    /// Bytes of an element, its padding included.
    pub bytes: usize,
    pub by_kolo: ByKolo,
    /// MPI's.
    pub by_mpi: (ffi::MPI_Datatype, ffi::MPI_Op),
}

impl OnLevels {
    fn all_bytes(&self) -> usize {
        self.count * self.bytes
    }
}

/// Makes the communicators of both levels. None: it failed on this rank. Every rank makes all
/// calls of MPI, whatever fails, and so lets go of nothing before all have heard of it.
#[cold]
pub fn make(state: &mut State) -> Option<()> {
    let nranks = state.known.nranks as c_int;
    let nodes = in_this_world(state.handle, nranks).and_then(|ranks| nodes::of(&ranks));
    if on_any(state, nodes.is_none())? {
        return None;
    }
    let nodes = nodes?;
    let ranks = ranks_of(&nodes);
    let mut seen = vec![0; ranks.len()];
    let place = |&node: &u32| {
        seen[node as usize] += 1;
        (node, seen[node as usize] - 1)
    };
    let places: Vec<(u32, u32)> = nodes.iter().map(place).collect();
    let (own, mine) = places[state.rank as usize];
    // SAFETY: constants of the MPI.
    let (null, undefined) = unsafe { (ffi::RSMPI_COMM_NULL, ffi::RSMPI_UNDEFINED) };
    let mut levels = Levels {
        node: null,
        leaders: null,
        own: own as usize,
        places,
        ranks,
    };
    let leads = if mine == 0 { 0 } else { undefined };
    // SAFETY: a live communicator, in a collective of it on all ranks.
    let failed = unsafe {
        let (handle, node) = (state.handle, &mut levels.node);
        let split = ffi::PMPI_Comm_split(handle, own as c_int, state.rank, node);
        split | ffi::PMPI_Comm_split(handle, leads, state.rank, &mut levels.leaders)
    };
    if on_any(state, failed != 0)? {
        return None;
    }
    for comm in [levels.node, levels.leaders] {
        // SAFETY: null, or a live communicator of ours: its errors are told by the program's.
        unsafe {
            if comm != null {
                ffi::PMPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN);
            }
        }
    }
    let (node, is_alone) = (levels.node, levels.ranks[levels.own] == 1);
    state.levels = Some(Box::new(levels));
    if !is_alone {
        state.kolo = made_of(node)?;
    }
    Some(())
}

/// The end of a call of kolo's.
fn kolo(code: c_int) -> Step {
    match code {
        0 => Ok(()),
        _ => Err(Fault::Kolo),
    }
}

/// Runs a call of kolo's on this node, where there is another rank.
fn within(node: Comm, call: impl FnOnce(Comm) -> c_int) -> Step {
    if node.is_null() {
        Ok(())
    } else {
        kolo(call(node))
    }
}

/// The end of a call: its code. Where MPI failed, the others of the node must not wait. Where kolo
/// failed, leaders of other nodes wait in a call of MPI that this node does not make any more, and
/// nothing but the end of the job reaches them there.
fn end(state: &State, step: Step) -> c_int {
    match step {
        Ok(()) => 0,
        Err(Fault::Kolo) => {
            let code = errors::raise(state);
            say(
                "kolo: the job ends, for other nodes wait in MPI for the one of this call. Remedy: \
                 see the error before; KOLO_PMPI_NODES=off leaves such communicators to MPI",
            );
            printed::wait_until_read(std::thread::sleep);
            // SAFETY: the program's communicator.
            unsafe { ffi::PMPI_Abort(state.handle, 1) };
            code
        }
        Err(Fault::Mpi(code)) => {
            // SAFETY: a live communicator of kolo's; the program's communicator.
            unsafe {
                if !state.kolo.is_null() {
                    koloCommAbort(state.kolo);
                }
                errors::call_handler(state, code);
            }
            code
        }
    }
}

/// # Safety
/// The communicator has `levels`.
pub unsafe fn barrier(state: &State, levels: &Levels) -> c_int {
    // SAFETY: live communicators.
    let on_node = || within(state.kolo, |node| unsafe { koloBarrier(node, NO_STREAM) });
    let across = || {
        // SAFETY: a live communicator.
        levels.across(|leaders| unsafe { ffi::PMPI_Barrier(leaders) })
    };
    end(
        state,
        on_node().and_then(|()| across()).and_then(|()| on_node()),
    )
}

/// Moves bytes from the leader to its node.
///
/// # Safety
/// `at` has so many bytes.
unsafe fn down(state: &State, at: *mut c_void, bytes: usize, from: u32) -> Step {
    within(state.kolo, |node| {
        // SAFETY: the caller's promise.
        unsafe { koloBcast(at, bytes, BYTE, from as c_int, node, NO_STREAM) }
    })
}

/// # Safety
/// The communicator has `levels`, `at` so many bytes, and `root` is a rank.
pub unsafe fn bcast(
    state: &State,
    levels: &Levels,
    (at, bytes): (*mut c_void, usize),
    root: c_int,
) -> c_int {
    let (node, place) = levels.places[root as usize];
    let is_of_root = levels.own == node as usize;
    // SAFETY: the caller's promise.
    let down = |from| unsafe { down(state, at, bytes, from) };
    let across = || {
        levels.in_pieces(bytes, |first, count, leaders| {
            // SAFETY: the caller's promise.
            unsafe {
                let (at, byte) = (at.byte_add(first), ffi::RSMPI_UINT8_T);
                ffi::PMPI_Bcast(at, count, byte, node as c_int, leaders)
            }
        })
    };
    let moved = if is_of_root {
        down(place).and_then(|()| across())
    } else {
        across().and_then(|()| down(0))
    };
    end(state, moved)
}

/// Folds what the ranks of this node send, at its leader, into `to`.
///
/// # Safety
/// The buffers hold what the call says; `to` is that of a leader.
unsafe fn up(state: &State, data: &OnLevels, to: *mut c_void) -> Step {
    let ByKolo { datatype, op } = data.by_kolo;
    if state.kolo.is_null() {
        if !std::ptr::eq(data.send, to) {
            // SAFETY: the caller's promise; memory that overlaps was copied before.
            unsafe { std::ptr::copy(data.send.cast::<u8>(), to.cast(), data.all_bytes()) };
        }
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let reduce =
        |node| unsafe { koloReduce(data.send, to, data.count, datatype, op, 0, node, NO_STREAM) };
    within(state.kolo, reduce)
}

/// # Safety
/// The communicator has `levels`; the buffers hold what the call says.
pub unsafe fn allreduce(state: &State, levels: &Levels, data: &OnLevels) -> c_int {
    let (datatype, op) = data.by_mpi;
    let across = || {
        levels.in_pieces(data.count, |first, count, leaders| {
            // SAFETY: the caller's promise.
            unsafe {
                let (inside, at) = (in_place(), data.recv.byte_add(first * data.bytes));
                ffi::PMPI_Allreduce(inside, at, count, datatype, op, leaders)
            }
        })
    };
    // SAFETY: the caller's promise. Only the leader receives on the way up.
    let folded = unsafe {
        let to = if levels.is_leader() {
            data.recv
        } else {
            null_mut()
        };
        up(state, data, to)
            .and_then(|()| across())
            .and_then(|()| down(state, data.recv, data.all_bytes(), 0))
    };
    end(state, folded)
}

/// # Safety
/// The communicator has `levels`; the buffers hold what the call says, and `spare` so many times as
/// much as [`Levels::room`] says; `root` is a rank.
pub unsafe fn reduce(state: &State, data: &OnLevels, (root, spare): (c_int, *mut c_void)) -> c_int {
    let Some(levels) = &state.levels else {
        return 0;
    };
    let (node, place) = levels.places[root as usize];
    let (is_root, is_of_root) = (state.rank == root, levels.own == node as usize);
    // Not in place: MPICH 4.0 reads from MPI_IN_PLACE where there are many elements.
    // SAFETY: the caller's promise.
    let result = match (is_of_root, is_root) {
        (false, _) => null_mut(),
        (true, true) => data.recv,
        (true, false) => spare.wrapping_byte_add(data.all_bytes()),
    };
    let at_leader = if levels.is_leader() {
        spare
    } else {
        null_mut()
    };
    let across = || {
        let (datatype, op) = data.by_mpi;
        levels.in_pieces(data.count, |first, count, leaders| {
            // SAFETY: the caller's promise.
            unsafe {
                let skipped = first * data.bytes;
                let recv = if result.is_null() {
                    result
                } else {
                    result.byte_add(skipped)
                };
                let send = spare.byte_add(skipped);
                ffi::PMPI_Reduce(send, recv, count, datatype, op, node as c_int, leaders)
            }
        })
    };
    // The root that is no leader has it from its leader.
    let hand_over = || {
        let bytes = data.all_bytes();
        within(state.kolo, |node| match (is_of_root, place) {
            (false, _) | (_, 0) => 0,
            // SAFETY: the caller's promise.
            (true, place) if levels.is_leader() => unsafe {
                koloSend(result, bytes, BYTE, place as c_int, node, NO_STREAM)
            },
            // SAFETY: the caller's promise.
            (true, _) if is_root => unsafe { koloRecv(data.recv, bytes, BYTE, 0, node, NO_STREAM) },
            (true, _) => 0,
        })
    };
    // SAFETY: the caller's promise.
    let folded = unsafe { up(state, data, at_leader) };
    end(
        state,
        folded.and_then(|()| across()).and_then(|()| hand_over()),
    )
}

/// # Safety
/// The communicator has `levels` and its nodes follow each other; `recv` has `bytes` bytes of each
/// rank, `send` those of this one, which may lie at their place in `recv`.
pub unsafe fn allgather(
    state: &State,
    levels: &Levels,
    (send, recv, bytes): (*const c_void, *mut c_void, usize),
) -> c_int {
    let mut blocks = Vec::with_capacity(levels.ranks.len());
    let mut first = 0;
    for &ranks in &levels.ranks {
        blocks.push((first, ranks as usize * bytes));
        first += ranks as usize * bytes;
    }
    let own = blocks[levels.own].0;
    // SAFETY: the caller's promise.
    let up = || unsafe {
        let to = recv.byte_add(own);
        if state.kolo.is_null() {
            if !std::ptr::eq(send, to) {
                std::ptr::copy(send.cast::<u8>(), to.cast(), bytes);
            }
            return Ok(());
        }
        let gather = |node| koloGather(send, to, bytes, BYTE, 0, node, NO_STREAM);
        within(state.kolo, gather)
    };
    let across = || {
        let column = |of: fn(&(usize, usize)) -> usize| -> Vec<c_int> {
            blocks.iter().map(|block| of(block) as c_int).collect()
        };
        let (displacements, counts) = (column(|block| block.0), column(|block| block.1));
        // SAFETY: the caller's promise; the decision has seen that the numbers are no larger.
        levels.across(|leaders| unsafe {
            let byte = ffi::RSMPI_UINT8_T;
            let (counts, from) = (counts.as_ptr(), displacements.as_ptr());
            ffi::PMPI_Allgatherv(in_place(), 0, byte, recv, counts, from, byte, leaders)
        })
    };
    // SAFETY: the caller's promise.
    let down = || unsafe { down(state, recv, first, 0) };
    end(state, up().and_then(|()| across()).and_then(|()| down()))
}

/// MPI_IN_PLACE.
fn in_place() -> *const c_void {
    // SAFETY: a constant of the shim.
    unsafe { crate::sys::kolo_pmpi_in_place }
}
