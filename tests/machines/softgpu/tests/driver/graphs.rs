//! Graphs: what was captured runs with each launch, in its order; what graphs hold.

use super::alone::{code, ok, test};
use super::gate::close;
use super::ring::{self, Rank, Ring, call, judge};
use super::world::*;
use cudarc::driver::sys::{
    CUgraph, CUgraphExec, CUgraphNodeType as Kind, CUstream, CUstreamCaptureMode as Mode,
};
use kolo::plan::Protocol;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

/// Captures tasks from a stream.
fn captured(stream: CUstream, tasks: impl FnOnce()) -> CUgraph {
    ok!(cuStreamBeginCapture_v2(
        stream,
        Mode::CU_STREAM_CAPTURE_MODE_RELAXED
    ));
    tasks();
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(stream, &mut graph));
    graph
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut instance = null_mut();
    ok!(cuGraphInstantiateWithFlags(&mut instance, graph, 0));
    instance
}

fn kinds(graph: CUgraph) -> Vec<Kind> {
    let mut count = 0;
    ok!(cuGraphGetNodes(graph, null_mut(), &mut count));
    let mut nodes = vec![null_mut(); count];
    ok!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
    let kind = |node| {
        let mut kind = Kind::CU_GRAPH_NODE_TYPE_EMPTY;
        ok!(cuGraphNodeGetType(node, &mut kind));
        kind
    };
    nodes.into_iter().map(kind).collect()
}

static COUNT: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: *mut c_void) {
    COUNT.fetch_add(1, Ordering::AcqRel);
}

test!(
    /// A kernel, a copy, a fill and a function of the host run with each launch, and never before.
    every_kind_of_node, [], {
        primary(0);
        let stream = stream(1);
        let (call, part) = ring::alone();
        let copy = allocate(call.output_bytes());
        let mut source = pattern(1, 64);
        let target = allocate(64);
        let graph = captured(stream, || {
            ok!(cuMemsetD8Async(copy, 7, call.output_bytes(), stream));
            assert_eq!(part.launch_on(stream), 0);
            ok!(cuMemcpyDtoDAsync_v2(copy, part.output, call.output_bytes(), stream));
            ok!(cuMemcpyHtoDAsync_v2(target, source.as_ptr().cast(), 64, stream));
            ok!(cuLaunchHostFunc(stream, Some(count), null_mut()));
        });
        let wanted = [2, 0, 1, 1, 3].map(|kind| kind as u32);
        assert_eq!(kinds(graph).iter().map(|kind| *kind as u32).collect::<Vec<_>>(), wanted);
        assert_ne!(read(part.output, 4), ring::sums(&call)[..4], "nothing has run");
        let instance = instantiate(graph);
        ok!(cuGraphDestroy(graph));
        for launch in 1..=5 {
            write(part.output, &vec![0x5a; call.output_bytes()]);
            write(copy, &vec![launch as u8; call.output_bytes()]);
            // A copy from the host reads with each launch.
            source.fill(launch as u8);
            ok!(cuGraphLaunch(instance, stream));
            ok!(cuStreamSynchronize(stream));
            assert_eq!(read(copy, call.output_bytes()), ring::sums(&call));
            assert_eq!(read(target, 64), [launch as u8; 64]);
            assert_eq!(COUNT.load(Ordering::Acquire), launch);
        }
        ok!(cuGraphExecDestroy(instance));
        assert_eq!(code!(cuGraphLaunch(instance, stream)), INVALID_VALUE);
    }
);

test!(
    /// Nodes wait for those before them, and for no others; a launch waits for the one before it.
    order, [], {
        primary(0);
        let [a, b, free] = [stream(1), stream(1), stream(1)];
        let places = [holding(&[0; 64]), holding(&[0; 64]), holding(&[0; 64])];
        let (fork, join) = (event(), event());
        let mut gate = None;
        let graph = captured(a, || {
            ok!(cuEventRecord(fork, a));
            ok!(cuStreamWaitEvent(b, fork, 0));
            gate = Some(close(a));
            ok!(cuMemsetD8Async(places[0], 1, 64, a));
            ok!(cuMemsetD8Async(places[1], 1, 64, b));
            ok!(cuEventRecord(join, b));
            ok!(cuStreamWaitEvent(a, join, 0));
            ok!(cuMemsetD8Async(places[2], 1, 64, a));
        });
        let instance = instantiate(graph);
        let mut pinned = null_mut();
        ok!(cuMemHostAlloc(&mut pinned, 64, 0));
        let first = |place: u64| {
            ok!(cuMemcpyDtoHAsync_v2(pinned, place, 64, free));
            ok!(cuStreamSynchronize(free));
            // SAFETY: the memory has 64 bytes, and nothing writes there now.
            unsafe { pinned.cast::<u8>().read() }
        };
        ok!(cuGraphLaunch(instance, a));
        // On another stream, too, it waits for the first launch.
        ok!(cuGraphLaunch(instance, b));
        while first(places[1]) == 0 {
            std::thread::yield_now();
        }
        assert_eq!((first(places[0]), first(places[2])), (0, 0));
        ok!(cuMemsetD8Async(places[1], 0, 64, free));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(first(places[1]), 0, "the second launch has begun");
        assert_eq!([code!(cuStreamQuery(a)), code!(cuStreamQuery(b))], [NOT_READY; 2]);
        gate.expect("a gate").open();
        ok!(cuCtxSynchronize());
        assert_eq!(places.map(first), [1; 3]);
    }
);

test!(
    /// A graph in a graph: launching one into a capture makes it a node.
    graphs_in_graphs, [], {
        primary(0);
        let stream = stream(1);
        let inner = instantiate(captured(stream, || {
            ok!(cuLaunchHostFunc(stream, Some(count), null_mut()));
        }));
        let outer = captured(stream, || {
            ok!(cuGraphLaunch(inner, stream));
            ok!(cuGraphLaunch(inner, stream));
        });
        assert_eq!(kinds(outer), [Kind::CU_GRAPH_NODE_TYPE_GRAPH; 2]);
        let outer = instantiate(outer);
        ok!(cuGraphExecDestroy(inner));
        for launch in 1..=3 {
            ok!(cuGraphLaunch(outer, stream));
            ok!(cuStreamSynchronize(stream));
            assert_eq!(COUNT.load(Ordering::Acquire), 2 * launch);
        }
    }
);

test!(
    /// Sums over two devices from one graph, with sums between that are launched one by one on the
    /// same connections.
    sums_from_a_graph, [("KOLO_SOFTGPU_DEVICES", "2")], {
        let ranks = [0, 1].map(|device| {
            let context = primary(device);
            Rank::new(device, context, stream(1))
        });
        let ring = Ring::new(&ranks, 2048);
        let [again, eager] = [1, 2].map(|seed| call(seed, Protocol::Simple, 700));
        let prepare = |call| [0, 1].map(|rank| ring.prepare(call, rank, &ranks[rank]));
        let parts = prepare(&again);
        let events = [0, 1].map(|rank| {
            let who: &Rank = &ranks[rank];
            who.select();
            event()
        });
        ranks[0].select();
        let graph = captured(ranks[0].stream, || {
            ok!(cuEventRecord(events[0], ranks[0].stream));
            ok!(cuStreamWaitEvent(ranks[1].stream, events[0], 0));
            for (part, rank) in parts.iter().zip(&ranks) {
                rank.select();
                ok!(cuMemsetD8Async(part.output, 0x33, again.output_bytes(), rank.stream));
                ok!(cuMemsetD8Async(part.steps, 0, 8 * again.sizes.grid.0 as usize, rank.stream));
                part.launch(rank);
            }
            ok!(cuEventRecord(events[1], ranks[1].stream));
            ok!(cuStreamWaitEvent(ranks[0].stream, events[1], 0));
        });
        let instance = instantiate(graph);
        for round in 0..30 {
            ok!(cuGraphLaunch(instance, ranks[0].stream));
            ok!(cuStreamSynchronize(ranks[0].stream));
            if round % 3 == 0 {
                let parts = prepare(&eager);
                parts[0].launch(&ranks[0]);
                parts[1].launch(&ranks[1]);
                for (number, rank) in ranks.iter().enumerate() {
                    rank.select();
                    ok!(cuStreamSynchronize(rank.stream));
                    judge(&eager, number, &parts[number]);
                }
            }
            for (number, rank) in ranks.iter().enumerate() {
                rank.select();
                judge(&again, number, &parts[number]);
                write(parts[number].output, &[0; 16]);
            }
        }
    }
);

fn object(count_at_first: u32) -> cudarc::driver::sys::CUuserObject {
    let mut object = null_mut();
    ok!(cuUserObjectCreate(
        &mut object,
        null_mut(),
        Some(count),
        count_at_first,
        1
    ));
    object
}

fn destroyed() -> u32 {
    // The thread that destroys is another one.
    std::thread::sleep(std::time::Duration::from_millis(30));
    COUNT.load(Ordering::Acquire)
}

test!(
    /// An object goes when the last has let go: callers, graphs, instances, launches that run.
    objects_are_held, [], {
        primary(0);
        let stream = stream(1);
        let simple = object(2);
        ok!(cuUserObjectRetain(simple, 1));
        ok!(cuUserObjectRelease(simple, 2));
        assert_eq!(destroyed(), 0);
        assert_eq!(code!(cuUserObjectRelease(simple, 2)), INVALID_VALUE);
        ok!(cuUserObjectRelease(simple, 1));
        assert_eq!(destroyed(), 1);
        assert_eq!(code!(cuUserObjectRelease(simple, 1)), INVALID_VALUE);

        let mut gate = None;
        let graph = captured(stream, || gate = Some(close(stream)));
        let held = object(2);
        ok!(cuGraphRetainUserObject(graph, held, 1, 0));
        ok!(cuGraphRetainUserObject(graph, held, 2, 1));
        // Of the caller's two none is left; the graph has three.
        ok!(cuGraphReleaseUserObject(graph, held, 2));
        assert_eq!(code!(cuGraphReleaseUserObject(graph, held, 2)), INVALID_VALUE);
        let instance = instantiate(graph);
        ok!(cuGraphDestroy(graph));
        ok!(cuGraphLaunch(instance, stream));
        ok!(cuGraphExecDestroy(instance));
        assert_eq!(destroyed(), 1);
        gate.expect("a gate").open();
        ok!(cuStreamSynchronize(stream));
        assert_eq!(destroyed(), 2);
    }
);
