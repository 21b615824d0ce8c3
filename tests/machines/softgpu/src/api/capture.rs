//! Captures of streams.

use super::entry::{driver, enter, live};
use crate::abi::{In, Out};
use crate::error::{Answer, Code};
use crate::graph::capture::{Mode, exchange_mode};
use crate::state::Turn;
use std::ffi::c_void;

// CU_STREAM_CAPTURE_STATUS_*
const NONE: i32 = 0;
const ACTIVE: i32 = 1;
const INVALIDATED: i32 = 2;

fn status(turn: &mut Turn, stream: u64) -> Answer<(u64, i32)> {
    let stream = turn.stream(stream)?;
    let status = match turn.captures.of(stream) {
        None => {
            turn.forbid_implicit(stream)?;
            NONE
        }
        Some((capture, _)) if capture.is_invalid => INVALIDATED,
        Some(_) => ACTIVE,
    };
    Ok((stream, status))
}

/// Where a caller wants to be told of a capture; what is null is not asked for.
struct Asked {
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<u64>,
    nodes: Out<*const u64>,
    count: Out<usize>,
}

fn tell(stream: u64, to: &Asked) -> Answer {
    let mut turn = live()?;
    let (stream, status) = status(&mut turn, stream)?;
    to.status.set(status)?;
    let Some((capture, end)) = turn.captures.of(stream).filter(|_| status == ACTIVE) else {
        return Ok(());
    };
    let (id, handle) = (end.capture, capture.graph);
    let graph = turn.graphs.get(handle)?;
    let told: Vec<u64> = end
        .after
        .iter()
        .map(|node| graph.nodes[*node].handle)
        .collect();
    to.id.set_if_asked(id);
    to.graph.set_if_asked(handle);
    to.count.set_if_asked(told.len());
    if let Some(end) = turn.captures.end_mut(stream) {
        // The caller may read them until its next call with the stream.
        end.told = told;
        to.nodes.set_if_asked(end.told.as_ptr());
    }
    Ok(())
}

/// `CU_STREAM_SET_CAPTURE_DEPENDENCIES`; without it, nodes are added.
const SET: u32 = 1;

fn update(stream: u64, nodes: In<u64>, count: usize, flags: u32) -> Answer {
    let mut turn = live()?;
    let (stream, status) = status(&mut turn, stream)?;
    if flags > SET {
        return Err(Code::INVALID_VALUE);
    }
    let graph = match turn.captures.of(stream) {
        None => return Err(Code::INVALID_VALUE),
        Some(_) if status == INVALIDATED => return Err(Code::STREAM_CAPTURE_INVALIDATED),
        Some((capture, _)) => turn.graphs.get(capture.graph)?,
    };
    let place = |node: u64| graph.place(node).ok_or(Code::INVALID_VALUE);
    let places: Vec<usize> = nodes
        .list(count)?
        .into_iter()
        .map(place)
        .collect::<Answer<_>>()?;
    if let Some(end) = turn.captures.end_mut(stream) {
        if flags == SET {
            end.after.clear();
        }
        for place in places {
            if !end.after.contains(&place) {
                end.after.push(place);
            }
        }
    }
    Ok(())
}

driver! {
    10_010 cuStreamBeginCapture_v2(stream: u64, mode: i32) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        let state = &mut *turn.state;
        state.captures.begin(&state.streams, &mut state.graphs, stream, Mode::new(mode)?)
    }

    10_000 cuStreamEndCapture(stream: u64, to: Out<u64>) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        let state = &mut *turn.state;
        let ended = state.captures.end(&mut state.graphs, stream);
        to.set(*ended.as_ref().unwrap_or(&0))?;
        ended.map(|_| ())
    }

    10_000 cuStreamIsCapturing(stream: u64, to: Out<i32>) {
        let mut turn = live()?;
        to.set(status(&mut turn, stream)?.1)
    }

    10_010 cuStreamGetCaptureInfo(stream: u64, status: Out<i32>, id: Out<u64>) {
        let (graph, nodes, count) = (Out::none(), Out::none(), Out::none());
        tell(stream, &Asked { status, id, graph, nodes, count })
    }

    11_030 cuStreamGetCaptureInfo_v2(
        stream: u64,
        status: Out<i32>,
        id: Out<u64>,
        graph: Out<u64>,
        nodes: Out<*const u64>,
        count: Out<usize>,
    ) {
        tell(stream, &Asked { status, id, graph, nodes, count })
    }

    12_030 cuStreamGetCaptureInfo_v3(
        stream: u64,
        status: Out<i32>,
        id: Out<u64>,
        graph: Out<u64>,
        nodes: Out<*const u64>,
        edges: Out<*const c_void>,
        count: Out<usize>,
    ) {
        // All edges are plain ones.
        edges.set_if_asked(std::ptr::null());
        tell(stream, &Asked { status, id, graph, nodes, count })
    }

    11_030 cuStreamUpdateCaptureDependencies(
        stream: u64,
        nodes: In<u64>,
        count: usize,
        flags: u32,
    ) {
        update(stream, nodes, count, flags)
    }

    12_030 cuStreamUpdateCaptureDependencies_v2(
        stream: u64,
        nodes: In<u64>,
        edges: *const c_void,
        count: usize,
        flags: u32,
    ) {
        match edges.is_null() {
            true => update(stream, nodes, count, flags),
            false => Err(Code::NOT_SUPPORTED),
        }
    }

    10_010 cuThreadExchangeStreamCaptureMode(mode: Out<i32>) {
        let _turn = enter()?;
        let wanted = Mode::new(mode.get()?)?;
        mode.set(exchange_mode(wanted) as i32)
    }
}
