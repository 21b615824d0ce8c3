//! Tests of what a capture allows, forbids and tells.

use super::alone::{code, ok, test};
use super::world::*;
use cudarc::driver::sys::{
    CUgraph, CUgraphNode, CUstream, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status,
};
use std::ptr::{null, null_mut};

const GLOBAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD: Mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: Mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
const UNSUPPORTED: i32 = 900;
const INVALIDATED: i32 = 901;
const LEGACY: CUstream = null_mut();

fn begin(stream: CUstream, mode: Mode) {
    ok!(cuStreamBeginCapture_v2(stream, mode));
}

fn end(stream: CUstream) -> i32 {
    let mut graph = null_mut();
    let code = code!(cuStreamEndCapture(stream, &mut graph));
    assert_eq!(code == 0, !graph.is_null());
    code
}

fn status(stream: CUstream) -> Status {
    let mut status = Status::CU_STREAM_CAPTURE_STATUS_NONE;
    ok!(cuStreamIsCapturing(stream, &mut status));
    status
}

fn fill(at: u64, stream: CUstream) -> i32 {
    code!(cuMemsetD8Async(at, 1, 64, stream))
}

test!(
    /// Calls that may synchronise are refused, and make the capture invalid.
    forbidden_calls, [], {
        primary(0);
        let (stream, other) = (stream(1), stream(1));
        let (at, mark) = (allocate(64), event());
        ok!(cuEventRecord(mark, other));
        ok!(cuStreamSynchronize(other));
        let image = kolo_softgpu::image();
        let (mut more, mut host, mut module) = (0, null_mut(), null_mut());
        let (mut memory, mut flags) = ([0u8; 64], 7);
        let calls: [(&str, &mut dyn FnMut() -> i32); 14] = [
            ("allocate", &mut || code!(cuMemAlloc_v2(&mut more, 64))),
            ("free", &mut || code!(cuMemFree_v2(at))),
            ("pinned", &mut || code!(cuMemAllocHost_v2(&mut host, 64))),
            ("load", &mut || code!(cuModuleLoadData(&mut module, image.as_ptr().cast()))),
            ("context", &mut || code!(cuCtxSynchronize())),
            ("stream", &mut || code!(cuStreamSynchronize(stream))),
            ("another stream", &mut || code!(cuStreamSynchronize(other))),
            ("query of another one", &mut || code!(cuStreamQuery(other))),
            ("query", &mut || code!(cuStreamQuery(stream))),
            ("flags", &mut || code!(cuStreamGetFlags(stream, &mut flags))),
            ("event", &mut || code!(cuEventQuery(mark))),
            ("copy", &mut || code!(cuMemcpyDtoH_v2(memory.as_mut_ptr().cast(), at, 64))),
            ("fill", &mut || code!(cuMemsetD8_v2(at, 1, 64))),
            ("memory node", &mut || code!(cuMemFreeAsync(at, stream))),
        ];
        for (name, call) in calls {
            begin(stream, GLOBAL);
            assert_eq!(fill(at, stream), 0);
            assert_eq!(call(), UNSUPPORTED, "{name}");
            assert_eq!(status(stream), Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
            assert_eq!(fill(at, stream), INVALIDATED);
            assert_eq!(end(stream), INVALIDATED, "{name}");
            assert_eq!(status(stream), Status::CU_STREAM_CAPTURE_STATUS_NONE);
        }
        // Flags of a captured stream are told in no mode; those of another one are.
        begin(stream, RELAXED);
        ok!(cuStreamGetFlags(other, &mut flags));
        assert_eq!(flags, 1);
        assert_eq!(code!(cuStreamGetFlags(stream, &mut flags)), UNSUPPORTED);
        assert_eq!(end(stream), INVALIDATED);
        // What cannot synchronise is allowed.
        begin(stream, GLOBAL);
        let mapped = mapped(0, PAGE, &[0]);
        assert_eq!(fill(mapped, other), 0);
        assert_eq!(end(stream), 0);
    }
);

/// Whether a capture in this mode, of this thread or of another one, forbids a call to a thread
/// with a mode of its own.
fn forbids(captured: Mode, here: bool, mine: Mode) -> bool {
    let context = primary(0).expose_provenance();
    let stream = stream(1);
    begin(stream, captured);
    let call = || {
        ok!(cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(
            context
        )));
        let mut mode = mine;
        ok!(cuThreadExchangeStreamCaptureMode(&mut mode));
        assert_eq!(mode, GLOBAL, "as threads begin");
        let code = code!(cuCtxSynchronize());
        ok!(cuThreadExchangeStreamCaptureMode(&mut mode));
        assert_eq!(mode, mine);
        code
    };
    let code = match here {
        true => call(),
        false => std::thread::scope(|scope| scope.spawn(call).join().expect("a code")),
    };
    let is_invalid = status(stream) == Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    assert_eq!(
        (code, is_invalid),
        if is_invalid {
            (UNSUPPORTED, true)
        } else {
            (0, false)
        }
    );
    assert_eq!(end(stream), if is_invalid { INVALIDATED } else { 0 });
    is_invalid
}

test!(
    /// Whom a capture forbids what, by both modes.
    modes, [], {
        for (captured, here, mine, wanted) in [
            (GLOBAL, true, GLOBAL, true),
            (GLOBAL, true, THREAD, true),
            (GLOBAL, true, RELAXED, false),
            (GLOBAL, false, GLOBAL, true),
            (GLOBAL, false, THREAD, false),
            (GLOBAL, false, RELAXED, false),
            (THREAD, true, GLOBAL, true),
            (THREAD, true, THREAD, true),
            (THREAD, false, GLOBAL, false),
            (RELAXED, true, GLOBAL, false),
            (RELAXED, false, GLOBAL, false),
        ] {
            assert_eq!(forbids(captured, here, mine), wanted, "{captured:?} {here} {mine:?}");
        }
    }
);

test!(
    /// Streams join by events and must be led back; nothing else leads in or out.
    joining, [], {
        primary(0);
        let (at, [a, b, c]) = (allocate(64), [stream(1), stream(1), stream(1)]);
        let (fork, join, outside) = (event(), event(), event());
        let fork_into = |stream| {
            ok!(cuEventRecord(fork, a));
            ok!(cuStreamWaitEvent(stream, fork, 0));
        };
        begin(a, RELAXED);
        fork_into(b);
        assert_eq!(status(b), Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_eq!(fill(at, b), 0);
        assert_eq!(end(b), 903, "it began on the other stream");
        assert_eq!(end(a), INVALIDATED);

        begin(a, RELAXED);
        fork_into(b);
        assert_eq!(fill(at, b), 0);
        assert_eq!(end(a), 904, "not led back");
        assert_eq!(status(b), Status::CU_STREAM_CAPTURE_STATUS_NONE);

        begin(a, RELAXED);
        fork_into(b);
        assert_eq!(fill(at, b), 0);
        ok!(cuEventRecord(join, b));
        ok!(cuStreamWaitEvent(a, join, 0));
        assert_eq!(end(a), 0);
        // The events are those of a capture that has ended.
        assert_eq!(code!(cuEventQuery(join)), 907);
        assert_eq!(code!(cuStreamWaitEvent(c, join, 0)), 907);

        ok!(cuEventRecord(outside, c));
        begin(a, RELAXED);
        assert_eq!(code!(cuStreamWaitEvent(a, outside, 0)), 905, "from outside");
        assert_eq!(end(a), INVALIDATED);

        begin(a, RELAXED);
        begin(b, RELAXED);
        ok!(cuEventRecord(fork, a));
        assert_eq!(code!(cuStreamWaitEvent(b, fork, 0)), 902, "two captures");
        assert_eq!((end(a), end(b)), (INVALIDATED, INVALIDATED));

        begin(a, RELAXED);
        ok!(cuEventRecord(fork, a));
        assert_eq!(code!(cuEventSynchronize(fork)), 907);
        assert_eq!(end(a), INVALIDATED);
        assert_eq!(code!(cuStreamEndCapture(a, null_mut())), INVALID_VALUE);
        assert_eq!(end(a), INVALID_VALUE, "no capture");

        begin(a, RELAXED);
        fork_into(b);
        ok!(cuStreamDestroy_v2(b));
        assert_eq!(end(a), INVALIDATED);
    }
);

test!(
    /// The default stream is captured by nobody, and cannot wait for a stream that is.
    the_default_stream, [], {
        primary(0);
        let (at, blocking, free) = (allocate(64), stream(0), stream(1));
        assert_eq!(code!(cuStreamBeginCapture_v2(LEGACY, RELAXED)), UNSUPPORTED);
        begin(free, RELAXED);
        assert_eq!(fill(at, LEGACY), 0);
        assert_eq!(end(free), 0);
        begin(blocking, RELAXED);
        assert_eq!(code!(cuStreamBeginCapture_v2(blocking, RELAXED)), INVALID_VALUE);
        assert_eq!(fill(at, LEGACY), 906);
        assert_eq!(end(blocking), INVALIDATED);
        begin(blocking, GLOBAL);
        let here = blocking.expose_provenance();
        std::thread::scope(|scope| {
            let end = || end(std::ptr::with_exposed_provenance_mut(here));
            assert_eq!(scope.spawn(end).join().expect("a code"), 908);
        });
        assert_eq!(end(blocking), 0);
    }
);

/// Where a capture stands.
struct Told {
    id: u64,
    graph: CUgraph,
    nodes: Vec<CUgraphNode>,
}

fn told(stream: CUstream) -> Told {
    let mut status = Status::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph, mut nodes, mut count) = (0, null_mut(), null(), 0);
    let to = (&mut id, &mut graph, &mut nodes, &mut count);
    ok!(cuStreamGetCaptureInfo_v2(
        stream,
        &mut status,
        to.0,
        to.1,
        to.2,
        to.3
    ));
    assert_eq!(status, Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    // SAFETY: the driver says how many there are, until the next call with the stream.
    let nodes = (0..count).map(|at| unsafe { *nodes.add(at) }).collect();
    Told { id, graph, nodes }
}

test!(
    /// A capture tells where it stands, and can be told that it stands elsewhere.
    what_a_capture_tells, [], {
        primary(0);
        let (at, [a, b]) = (allocate(64), [stream(1), stream(1)]);
        begin(a, RELAXED);
        begin(b, RELAXED);
        let (first, other) = (told(a), told(b));
        assert!(first.nodes.is_empty() && first.id != other.id && first.graph != other.graph);
        fill(at, a);
        let one = told(a);
        assert_eq!((one.id, one.graph, one.nodes.len()), (first.id, first.graph, 1));
        // The next task waits for nothing, then for both.
        ok!(cuStreamUpdateCaptureDependencies(a, null_mut(), 0, 1));
        assert!(told(a).nodes.is_empty());
        fill(at, a);
        let two = told(a);
        let mut nodes = one.nodes.clone();
        ok!(cuStreamUpdateCaptureDependencies(a, nodes.as_mut_ptr(), 1, 0));
        assert_eq!(told(a).nodes, [two.nodes[0], one.nodes[0]]);
        let mut stranger = [LEGACY.cast()];
        let update = code!(cuStreamUpdateCaptureDependencies(a, stranger.as_mut_ptr(), 1, 1));
        assert_eq!(update, INVALID_VALUE);
        assert_eq!(code!(cuGraphDestroy(one.graph)), INVALID_VALUE, "it is not ended");
        let mut graph = null_mut();
        ok!(cuStreamEndCapture(a, &mut graph));
        assert_eq!(graph, one.graph);
        let mut seen = [null_mut(); 3];
        let mut count = 3;
        ok!(cuGraphGetNodes(graph, seen.as_mut_ptr(), &mut count));
        assert_eq!((count, seen), (2, [one.nodes[0], two.nodes[0], null_mut()]));
        ok!(cuGraphDestroy(graph));
        assert_eq!(code!(cuGraphDestroy(graph)), INVALID_VALUE);
    }
);
