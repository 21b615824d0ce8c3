//! Graphs: the neighbours of a rank.

use crate::comm::null;
use crate::guard::{guard, guard_comm};
use crate::handle::Registry;
use crate::types::*;
use kolo_core::base::{Error, Result};
use kolo_core::comm::{Graph, NO_RANK, group};
use std::ffi::c_int;

/// A graph and the handle of its communicator.
pub(crate) struct Member {
    pub(crate) graph: Graph,
    pub(crate) comm: usize,
}

/// All live graphs of this process.
pub(crate) static GRAPHS: Registry<Member> = Registry::new(0x61c9_3b7d_d20f_84a7, "graph");

/// Makes the graph of the neighbours: the `indegree` ranks of `sources` send to this rank, the
/// `outdegree` ranks of `destinations` receive from it. Every rank calls it. A rank may occur
/// several times and may be the own one: the k-th edge from a to b among a's destinations is the
/// k-th among b's sources. KOLO_NO_RANK makes a block that is not exchanged, and so does
/// MPI_PROC_NULL on communicators of koloCommInitMPI. Edges have no weights.
/// End it with koloGraphDestroy, before its communicator.
/// Errors: koloInvalidArgument (handle, NULL, a neighbour that is no rank, an edge that only one of
/// its ends lists; then on all ranks), koloInvalidUsage (inside a group), those of koloAllReduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGraphCreate(
    comm: koloComm_t,
    indegree: c_int,
    sources: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    graph: *mut koloGraph_t,
) -> koloResult_t {
    guard_comm("GraphCreate", comm, |member| {
        // SAFETY: kolo.h asks for so many ranks.
        let sources = unsafe { ranks(member, "sources", indegree, sources) }?;
        // SAFETY: as above.
        let destinations = unsafe { ranks(member, "destinations", outdegree, destinations) }?;
        let make = || member.communicator.graph(&sources, &destinations);
        // SAFETY: a valid pointer or NULL, by the contract of kolo.h.
        unsafe { keep(graph, comm, make) }
    })
}

/// Makes the symmetric graph of a grid of `ndims` dimensions: for each dimension the neighbour
/// below and the one above, none (KOLO_NO_RANK) beyond the end of a dimension whose `periods` is 0.
/// Ranks are numbered row by row, the last dimension fastest. In a periodic dimension of one or two
/// ranks, what goes down arrives from above. Every rank calls it with the same grid.
/// Errors: koloInvalidArgument (handle, NULL, a grid that has not as many places as the
/// communicator ranks), koloInvalidUsage (inside a group), those of koloAllReduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCartCreate(
    comm: koloComm_t,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    graph: *mut koloGraph_t,
) -> koloResult_t {
    guard_comm("CartCreate", comm, |member| {
        // SAFETY: kolo.h asks for so many numbers.
        let (dims, periods) =
            unsafe { (list("dims", ndims, dims)?, list("periods", ndims, periods)?) };
        // A negative length becomes too large for any communicator.
        let dims: Vec<u32> = dims.iter().map(|&length| length as u32).collect();
        let periods: Vec<bool> = periods.iter().map(|&period| period != 0).collect();
        let make = || member.communicator.cartesian(&dims, &periods);
        // SAFETY: a valid pointer or NULL, by the contract of kolo.h.
        unsafe { keep(graph, comm, make) }
    })
}

/// Ends a graph; calls that use it may still be pending. Errors: koloInvalidArgument (handle).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGraphDestroy(graph: koloGraph_t) -> koloResult_t {
    guard("GraphDestroy", || {
        GRAPHS.remove(graph as usize)?;
        Ok(koloResult_t::koloSuccess)
    })
}

/// The numbers of blocks that come in and that go out, missing neighbours included.
/// Errors: koloInvalidArgument (handle, NULL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGraphDegrees(
    graph: koloGraph_t,
    indegree: *mut c_int,
    outdegree: *mut c_int,
) -> koloResult_t {
    guard("GraphDegrees", || {
        let member = GRAPHS.get(graph as usize)?;
        if indegree.is_null() || outdegree.is_null() {
            return Err(null(if indegree.is_null() {
                "indegree"
            } else {
                "outdegree"
            }));
        }
        let (outs, ins) = member.graph.degrees();
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { (*indegree, *outdegree) = (ins as c_int, outs as c_int) };
        Ok(koloResult_t::koloSuccess)
    })
}

/// The neighbours, block by block, KOLO_NO_RANK for missing ones: as many as koloGraphDegrees says.
/// Errors: koloInvalidArgument (handle, NULL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGraphNeighbors(
    graph: koloGraph_t,
    sources: *mut c_int,
    destinations: *mut c_int,
) -> koloResult_t {
    guard("GraphNeighbors", || {
        let member = GRAPHS.get(graph as usize)?;
        let lists = [
            ("sources", sources, member.graph.sources()),
            ("destinations", destinations, member.graph.destinations()),
        ];
        for (name, place, ranks) in lists {
            if place.is_null() && !ranks.is_empty() {
                return Err(null(name));
            }
            for (index, rank) in ranks.iter().enumerate() {
                let number = rank.map_or(KOLO_NO_RANK, |rank| rank as c_int);
                // SAFETY: kolo.h asks for as many places as there are neighbours.
                unsafe { *place.add(index) = number };
            }
        }
        Ok(koloResult_t::koloSuccess)
    })
}

/// Gives a graph a handle.
///
/// # Safety
/// `place` is NULL or valid.
unsafe fn keep(
    place: *mut koloGraph_t,
    comm: koloComm_t,
    make: impl FnOnce() -> Result<Graph>,
) -> Result<koloResult_t> {
    if place.is_null() {
        return Err(null("graph"));
    }
    if group::active() {
        return Err(Error::usage(
            "a graph cannot be made inside a group: it needs the other ranks at once",
            "make it before koloGroupStart",
        ));
    }
    let graph = make()?;
    let member = Member {
        graph,
        comm: comm as usize,
    };
    let handle = GRAPHS.insert(member)?;
    // SAFETY: not null, valid by our caller's promise.
    unsafe { *place = handle as koloGraph_t };
    Ok(koloResult_t::koloSuccess)
}

/// An array of numbers that the program gave.
///
/// # Safety
/// `place` is NULL or has `length` numbers.
unsafe fn list<'a>(name: &str, length: c_int, place: *const c_int) -> Result<&'a [c_int]> {
    match (usize::try_from(length), place.is_null()) {
        (Err(_), _) => Err(Error::argument(
            format!("{length} is no length of {name}"),
            "give a length of at least 0",
        )),
        (Ok(0), _) => Ok(&[]),
        (Ok(_), true) => Err(null(name)),
        // SAFETY: our caller's promise.
        (Ok(length), false) => Ok(unsafe { std::slice::from_raw_parts(place, length) }),
    }
}

/// A list of neighbours.
///
/// # Safety
/// As [`list`].
unsafe fn ranks(
    of: &crate::seat::Member,
    name: &str,
    length: c_int,
    place: *const c_int,
) -> Result<Vec<Option<u32>>> {
    // SAFETY: our caller's promise.
    let list = unsafe { list(name, length, place) }?;
    let rank = |&rank: &c_int| Some(of.peer(rank)).filter(|rank| *rank != NO_RANK);
    Ok(list.iter().map(rank).collect())
}
