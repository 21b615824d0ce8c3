//! Graphs, in a process with the software GPU.

use kolo::base::{Code, Error};
use kolo::cuda::{
    Context, DeviceGraph, DeviceMemory, OwnStream, PinnedMemory, copy_async, copy_from_device,
    exchange_capture_mode_relaxed, fill_async,
};
use std::sync::Arc;

const BYTES: usize = 5000;

fn content(context: &Arc<Context>, memory: &DeviceMemory, stream: &OwnStream) -> Vec<u8> {
    let mut content = vec![0; BYTES];
    // SAFETY: the memory has these bytes.
    unsafe { copy_from_device(context, &mut content, memory.address(), stream.id()) }.unwrap();
    content
}

#[test]
#[ignore = "started by the tests of cuda.rs, with a driver"]
fn what_is_captured_runs_at_each_launch() {
    let context = Context::of(1).unwrap();
    let stream = OwnStream::new(&context).unwrap();
    let memory = || DeviceMemory::new(&context, "a test", BYTES, &[]).unwrap();
    let (source, target) = (memory(), memory());
    let fill = |at: &DeviceMemory, byte: u8| {
        // SAFETY: the memory has these bytes.
        unsafe { fill_async(&context, at.address(), byte, BYTES, stream.id()) }.unwrap();
    };
    fill(&target, 7);
    let graph = DeviceGraph::capture(&context, stream.id(), || {
        assert!(stream.id().is_capturing(&context)?);
        let (to, from) = (target.address(), source.address());
        // SAFETY: both have these bytes whenever the graph is launched.
        unsafe { copy_async(&context, to, from, BYTES, stream.id()) }
    });
    let graph = graph.unwrap();
    assert!(!stream.id().is_capturing(&context).unwrap());
    assert_eq!(content(&context, &target, &stream), [7; BYTES]);
    for round in 20..25 {
        fill(&source, round);
        graph.launch(stream.id()).unwrap();
        assert_eq!(content(&context, &target, &stream), [round; BYTES]);
    }
}

#[test]
#[ignore = "started by the tests of cuda.rs, with a driver"]
fn a_capture_that_fails_says_why_and_leaves_the_stream() {
    let context = Context::of(0).unwrap();
    let stream = OwnStream::new(&context).unwrap();
    let capture = |body: &dyn Fn() -> kolo::Result<()>| {
        let made = DeviceGraph::capture(&context, stream.id(), body);
        made.map(|_| ())
    };
    let error = capture(&|| Err(Error::usage("no", "never"))).unwrap_err();
    assert_eq!(
        (error.code, error.what.as_str()),
        (Code::InvalidUsage, "no")
    );
    // A stream that is captured cannot be waited for.
    let error = capture(&|| stream.synchronize()).unwrap_err().to_string();
    assert!(
        error.contains("cuStreamSynchronize on device 0: CUDA_ERROR_STREAM_CAPTURE_"),
        "{error}"
    );
    assert!(error.contains("a graph is being captured"), "{error}");
    // What a capture forbids is allowed to kolo itself.
    let forbidden = || PinnedMemory::new(77_000).map(|_| ());
    let error = capture(&forbidden).unwrap_err().to_string();
    assert!(error.contains("cuMemHostAlloc"), "{error}");
    let relaxed = || {
        let relaxed = exchange_capture_mode_relaxed()?;
        forbidden()?;
        drop(relaxed);
        PinnedMemory::new(770_000).map(|_| ())
    };
    let error = capture(&relaxed).unwrap_err().to_string();
    assert!(error.contains("cuMemHostAlloc of 770048 bytes"), "{error}");
    stream.synchronize().unwrap();
    capture(&|| exchange_capture_mode_relaxed().and_then(|_relaxed| forbidden())).unwrap();
}
