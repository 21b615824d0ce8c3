//! Calls that a CUDA graph captures, and that run again each time it is launched.

use super::ranks::{Rank, library, ranks, software_gpu, sum};
use kolo::bootstrap::ThreadsBootstrap;
use kolo::cuda::copy_async;
use std::ffi::c_void;
use std::sync::{Barrier, Mutex};

/// The functions of the driver that a program needs for graphs.
pub struct Graphs {
    begin: unsafe extern "C" fn(u64, u32) -> i32,
    end: unsafe extern "C" fn(u64, *mut *mut c_void) -> i32,
    instantiate: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, u64) -> i32,
    launch: unsafe extern "C" fn(*mut c_void, u64) -> i32,
    destroy_run: unsafe extern "C" fn(*mut c_void) -> i32,
    destroy: unsafe extern "C" fn(*mut c_void) -> i32,
    _library: libloading::Library,
}

/// Capture so that other calls of the thread which might harm it are refused. (Globally those of
/// all threads would be, and the other ranks are threads here.)
const OF_THREAD: u32 = 1;

impl Graphs {
    /// From the software GPU.
    pub fn load() -> Graphs {
        // SAFETY: the library is the software GPU, whose functions are as the driver's.
        unsafe {
            let library = libloading::Library::new(library()).expect("the driver");
            Graphs {
                begin: *library.get(b"cuStreamBeginCapture_v2").expect("it"),
                end: *library.get(b"cuStreamEndCapture").expect("it"),
                instantiate: *library.get(b"cuGraphInstantiateWithFlags").expect("it"),
                launch: *library.get(b"cuGraphLaunch").expect("it"),
                destroy_run: *library.get(b"cuGraphExecDestroy").expect("it"),
                destroy: *library.get(b"cuGraphDestroy").expect("it"),
                _library: library,
            }
        }
    }

    /// Captures what `put` puts on the rank's stream.
    pub fn capture(&self, rank: &Rank, put: impl FnOnce()) -> [*mut c_void; 2] {
        self.capture_on(rank, rank.stream.id().0, put)
    }

    /// Captures what `put` puts on a stream of the rank's device.
    pub fn capture_on(&self, rank: &Rank, stream: u64, put: impl FnOnce()) -> [*mut c_void; 2] {
        let (mut graph, mut run) = (std::ptr::null_mut(), std::ptr::null_mut());
        let _current = rank.context.enter().expect("a context");
        // SAFETY: the stream lives.
        let begun = unsafe { (self.begin)(stream, OF_THREAD) };
        assert_eq!(begun, 0, "begins");
        put();
        // SAFETY: the stream lives, and the driver writes one address.
        let ended = unsafe { (self.end)(stream, &raw mut graph) };
        assert_eq!(ended, 0, "ends");
        // SAFETY: as above, with the graph that was captured.
        let made = unsafe { (self.instantiate)(&raw mut run, graph, 0) };
        assert_eq!(made, 0, "is made");
        [graph, run]
    }

    /// Puts it on the rank's stream.
    pub fn launch(&self, rank: &Rank, run: *mut c_void) {
        let _current = rank.context.enter().expect("a context");
        // SAFETY: the graph and the stream live.
        let launched = unsafe { (self.launch)(run, rank.stream.id().0) };
        assert_eq!(launched, 0, "is launched");
    }

    /// Ends both.
    pub fn destroy(&self, [graph, run]: [*mut c_void; 2]) {
        // SAFETY: both live, and nobody uses them again.
        assert_eq!(unsafe { (self.destroy_run)(run) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { (self.destroy)(graph) }, 0);
    }
}

fn words(first: u64, count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|i| (first + i as u64).to_le_bytes())
        .collect()
}

/// A graph of a copy, a small and a large all-reduce, and a copy: launched again and again, with
/// calls in between, on connections that were not there before the capture.
#[test]
fn graphs_replay_between_other_calls() {
    ranks(&[0, 1, 2], &[], |rank| replay(rank, 60));
}

/// Ranks that share a device capture, each on its own stream.
#[test]
fn ranks_of_a_device_are_captured() {
    ranks(&[4, 4, 5], &[], |rank| replay(rank, 12));
}

/// A stream of a capture says nothing of where its graph runs: two ranks of a device are captured
/// on one stream in turn, and their graphs run on streams of their own.
#[test]
fn graphs_run_on_other_streams_than_those_that_were_captured() {
    let captured: Mutex<Option<u64>> = Mutex::new(None);
    // The stream is one of theirs, whose rank waits for it to read: not while it is captured.
    let both = Barrier::new(2);
    ranks(&[6, 6], &[], |rank| {
        let graphs = Graphs::load();
        let (send, recv) = (rank.buffer(&words(7, 90)), rank.poisoned(8 * 90));
        let graph = {
            // Both ranks use the stream of whoever comes first, which outlives both captures.
            let mut captured = captured.lock().expect("whole");
            let stream = *captured.get_or_insert(rank.stream.id().0);
            let put = || rank.put_on(&sum(send.at(0), recv.at(0), 90), stream);
            graphs.capture_on(rank, stream, || put().expect("captured"))
        };
        both.wait();
        for _ in 0..5 {
            graphs.launch(rank, graph[1]);
            let wanted: Vec<u8> = (0..90u64)
                .flat_map(|i| (2 * (7 + i)).to_le_bytes())
                .collect();
            assert!(rank.read(&recv) == wanted);
        }
        graphs.destroy(graph);
    });
}

/// In one capture, one stream is an order: the second rank would wait behind the first.
#[test]
fn ranks_of_a_device_are_not_captured_on_one_stream_together() {
    software_gpu();
    let members = ThreadsBootstrap::group(2).into_iter();
    let pair: Vec<Rank> = std::thread::scope(|scope| {
        let join = |member| scope.spawn(move || Rank::join(member, 7, &[]).expect("a rank"));
        let joined: Vec<_> = members.map(join).collect();
        let joined = joined.into_iter().map(|it| it.join().expect("no panic"));
        joined.collect()
    });
    let graphs = Graphs::load();
    let (send, recv) = (pair[0].buffer(&words(1, 20)), pair[0].poisoned(160));
    let stream = pair[0].stream.id().0;
    let graph = graphs.capture_on(&pair[0], stream, || {
        let call = sum(send.at(0), recv.at(0), 20);
        pair[0]
            .put_on(&call, stream)
            .expect("the first is captured");
        let error = pair[1]
            .put_on(&call, stream)
            .expect_err("the second is not");
        let text = error.to_string();
        assert!(
            text.contains("ranks 0 and 1") && text.contains("one stream"),
            "{text}"
        );
    });
    graphs.destroy(graph);
    std::thread::scope(|scope| {
        for rank in &pair {
            scope.spawn(|| rank.comm.destroy());
        }
    });
}

/// One rank's part of it, with so many replays.
pub fn replay(rank: &Rank, turns: u64) {
    let graphs = Graphs::load();
    let (me, count) = (u64::from(rank.number()), 2600);
    let source = rank.poisoned(8 * count);
    let (small, large) = (rank.poisoned(8 * 3), rank.poisoned(8 * count));
    let result = rank.poisoned(8 * count);
    let stream = rank.stream.id();
    let copy = |from: *mut u8, to: *mut u8, bytes| {
        // SAFETY: both are buffers of that length.
        unsafe { copy_async(&rank.context, to as u64, from as u64, bytes, stream) }
    };
    let graph = graphs.capture(rank, || {
        rank.put(&sum(source.at(0), small.at(0), 3))
            .expect("captured");
        rank.put(&sum(source.at(0), large.at(0), count))
            .expect("captured");
        copy(large.at(0), result.at(0), 8 * count).expect("captured");
    });
    let wanted = |first: u64, count: usize| -> Vec<u8> {
        let of = |i: usize| {
            (0..u64::from(rank.comm.nranks()))
                .map(|rank| first + 1000 * rank + i as u64)
                .sum::<u64>()
        };
        (0..count).flat_map(|i| of(i).to_le_bytes()).collect()
    };
    for turn in 0..turns {
        let first = 7 * turn + 1000 * me;
        let input = rank.buffer(&words(first, count));
        copy(input.at(0), source.at(0), 8 * count).expect("new data");
        graphs.launch(rank, graph[1]);
        if turn % 3 == 1 {
            // A call on its own uses the same connections.
            let own = rank.poisoned(8 * 50);
            rank.put(&sum(source.at(0), own.at(0), 50)).expect("a call");
            assert!(rank.read(&own) == wanted(7 * turn, 50), "turn {turn}");
        }
        if turn % 4 != 2 {
            assert!(rank.read(&result) == wanted(7 * turn, count), "turn {turn}");
            assert!(rank.read(&small) == wanted(7 * turn, 3), "turn {turn}");
        } else {
            rank.stream.synchronize().expect("it ends");
        }
    }
    graphs.destroy(graph);
}
