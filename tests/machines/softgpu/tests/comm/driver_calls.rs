//! How many calls of the driver a call of kolo makes, when it was made before.

use super::graphs::Graphs;
use super::ranks::{Rank, library, ranks, sum};
use std::collections::BTreeMap;
use std::ffi::c_char;

/// Calls of the driver, by name.
type Counted = BTreeMap<String, u64>;

/// Those that this thread has made since it asked last.
fn counted() -> Counted {
    type Tell = unsafe extern "C" fn(*mut c_char, i32) -> i32;
    let mut text = [0u8; 4096];
    // SAFETY: the library is the software GPU, whose function has this type and writes a text that
    // ends with a zero.
    let code = unsafe {
        let library = libloading::Library::new(library()).expect("the driver");
        let tell: libloading::Symbol<'_, Tell> = library.get(b"koloSoftgpuCalls").expect("it");
        tell(text.as_mut_ptr().cast(), text.len() as i32)
    };
    assert_eq!(code, 0);
    let text = std::ffi::CStr::from_bytes_until_nul(&text).expect("a text");
    let lines = text.to_str().expect("names").lines();
    let count = |line: &str| {
        let (name, number) = line.split_once(' ').expect("a name and a number");
        (name.to_owned(), number.parse().expect("a number"))
    };
    lines.map(count).collect()
}

/// These calls, once each.
fn once(names: &[&str]) -> Counted {
    let mut counted = Counted::new();
    for name in names {
        *counted.entry((*name).to_owned()).or_default() += 1;
    }
    counted
}

/// Calls of the driver that `body` makes.
fn of(body: impl FnOnce()) -> Counted {
    counted();
    body();
    counted()
}

const EAGER: [&str; 8] = [
    "cuCtxPushCurrent_v2",
    "cuStreamIsCapturing",
    "cuStreamGetId",
    "cuPointerGetAttributes",
    "cuPointerGetAttributes",
    "cuLaunchKernel",
    "cuEventRecord",
    "cuCtxPopCurrent_v2",
];

/// An eager call of a size that was there before makes 8 calls, and one in place 7.
#[test]
fn a_call_makes_eight_calls_of_the_driver() {
    ranks(&[0, 1, 2], &[], |rank| {
        let (send, recv) = (rank.buffer(&[rank.number() as u8 + 1; 8]), rank.poisoned(8));
        let put = || rank.put(&sum(send.at(0), recv.at(0), 1)).expect("a call");
        // Marks of calls that have ended are there for the next ones.
        let rest = || {
            assert_eq!(rank.read(&recv), [6; 8]);
            rank.comm.async_error().expect("no fault");
        };
        (0..50).for_each(|_| put());
        rest();
        assert_eq!(of(put), once(&EAGER));
        let in_place = || rank.put(&sum(recv.at(0), recv.at(0), 1)).expect("a call");
        let mut wanted = once(&EAGER);
        wanted.insert("cuPointerGetAttributes".into(), 1);
        assert_eq!(of(in_place), wanted);
        assert_eq!(rank.read(&recv), [18; 8]);
        // In a long row some calls ask which of those before have ended.
        for _ in 0..20 {
            put();
            rest();
            let all = of(|| (0..50).for_each(|_| put()));
            let total: u64 = all.values().sum();
            assert!((400..=420).contains(&total), "{total}: {all:?}");
            rest();
        }
        has_order_between_streams(rank);
    });
}

/// On another stream than the call before, a call waits for that one; the stream is asked once for
/// what it is.
fn has_order_between_streams(rank: &Rank) {
    let (send, recv) = (rank.buffer(&[1; 8]), rank.poisoned(8));
    let other = kolo::cuda::OwnStream::new(&rank.context).expect("a stream");
    let call = sum(send.at(0), recv.at(0), 1);
    rank.put(&call).expect("a call");
    let first = of(|| rank.put_on(&call, other.id().0).expect("a call"));
    assert_eq!(
        (first["cuStreamWaitEvent"], first["cuStreamGetCtx"]),
        (1, 1)
    );
    let back = of(|| rank.put(&call).expect("a call"));
    assert_eq!(back["cuStreamWaitEvent"], 1);
    assert!(!back.contains_key("cuStreamGetCtx"), "{back:?}");
    let again = of(|| rank.put(&call).expect("a call"));
    assert_eq!(again, once(&EAGER));
    other.synchronize().expect("it ends");
    assert_eq!(rank.read(&recv), [3; 8]);
}

/// A captured call leaves a kernel and what keeps its memory in the graph, and no event.
#[test]
fn a_captured_call_makes_ten_calls_of_the_driver() {
    ranks(&[3, 4], &[], |rank| {
        let graphs = Graphs::load();
        let (send, recv) = (rank.buffer(&[4; 8]), rank.poisoned(8));
        let put = || rank.put(&sum(send.at(0), recv.at(0), 1)).expect("a call");
        put();
        let mut counted = Counted::new();
        let graph = graphs.capture(rank, || counted = of(put));
        let wanted = [
            "cuCtxPushCurrent_v2",
            "cuStreamIsCapturing",
            "cuStreamGetCaptureInfo_v2",
            "cuStreamGetCtx",
            "cuPointerGetAttributes",
            "cuPointerGetAttributes",
            "cuUserObjectCreate",
            "cuGraphRetainUserObject",
            "cuLaunchKernel",
            "cuCtxPopCurrent_v2",
        ];
        // The test holds the context for the length of the capture.
        counted.entry(wanted[0].into()).or_insert(1);
        counted.entry(wanted[9].into()).or_insert(1);
        assert_eq!(counted, once(&wanted));
        graphs.launch(rank, graph[1]);
        assert_eq!(rank.read(&recv), [8; 8]);
        graphs.destroy(graph);
    });
}
