//! The order of streams: events, the rules of the default stream, functions of the host, calls
//! that wait.

use super::alone::{code, ok, test};
use super::gate::{close, close_now};
use super::world::*;
use cudarc::driver::sys::{CUresult, CUstream};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// 1 MiB of one byte, by a fill on a stream.
fn fill(at: u64, value: u8, stream: CUstream) {
    ok!(cuMemsetD8Async(at, value, 1 << 20, stream));
}

fn is_busy(stream: CUstream) -> bool {
    match code!(cuStreamQuery(stream)) {
        0 => false,
        NOT_READY => true,
        code => panic!("{code}"),
    }
}

/// Time in which something that is not held up would happen.
fn a_moment() {
    std::thread::sleep(Duration::from_millis(30));
}

/// A call to make in another thread.
type Call = Box<dyn FnOnce() + Send>;

const LEGACY: CUstream = null_mut();

fn per_thread() -> CUstream {
    std::ptr::without_provenance_mut(2)
}

test!(
    /// Tasks of a stream run in order, those of another one beside them.
    a_stream_is_in_order, [], {
        primary(0);
        let (at, other) = (allocate(1 << 20), allocate(1 << 20));
        let streams = [stream(1), stream(1)];
        let gate = close(streams[0]);
        for value in 1..=5 {
            fill(at, value, streams[0]);
        }
        fill(other, 9, streams[1]);
        ok!(cuStreamSynchronize(streams[1]));
        assert!(is_busy(streams[0]));
        gate.open();
        ok!(cuStreamSynchronize(streams[0]));
        assert_eq!(read(at, 1 << 20), vec![5; 1 << 20]);
        assert_eq!(read(other, 1 << 20), vec![9; 1 << 20]);
    }
);

test!(
    /// An event holds other streams up to where it was when they were told, not later.
    events_join_streams, [], {
        primary(0);
        let [a, b, c] = [stream(1), stream(1), stream(1)];
        let (first, never) = (event(), event());
        ok!(cuStreamWaitEvent(c, never, 0));
        ok!(cuEventQuery(never));
        let gate = close(a);
        ok!(cuEventRecord(first, a));
        assert_eq!(code!(cuEventQuery(first)), NOT_READY);
        let at = allocate_async(1 << 20, c);
        ok!(cuStreamWaitEvent(b, first, 0));
        fill(at, 3, b);
        // Recorded anew elsewhere: who waits already still waits for the old place.
        ok!(cuEventRecord(first, c));
        ok!(cuEventSynchronize(first));
        a_moment();
        assert!(is_busy(b) && is_busy(a) && !is_busy(c));
        gate.open();
        ok!(cuStreamSynchronize(b));
        assert_eq!(read(at, 1 << 20), vec![3; 1 << 20]);
        ok!(cuEventDestroy_v2(first));
        assert_eq!(code!(cuEventQuery(first)), INVALID_HANDLE);
    }
);

fn allocate_async(bytes: usize, stream: CUstream) -> u64 {
    let mut at = 0;
    ok!(cuMemAllocAsync(&mut at, bytes, stream));
    at
}

test!(
    /// Events know when they were passed, if they may.
    events_have_times, [], {
        primary(0);
        let (other, stream) = (stream(1), stream(1));
        let mut timeless = null_mut();
        ok!(cuEventCreate(&mut timeless, 2));
        let (first, second) = (event(), event());
        let mut time = -1.0;
        assert_eq!(code!(cuEventElapsedTime(&mut time, first, second)), INVALID_HANDLE);
        ok!(cuEventRecord(first, stream));
        let gate = close(stream);
        ok!(cuEventRecord(second, stream));
        ok!(cuEventRecord(timeless, stream));
        ok!(cuEventSynchronize(first));
        assert_eq!(code!(cuEventElapsedTime(&mut time, first, second)), NOT_READY);
        a_moment();
        gate.open();
        ok!(cuEventSynchronize(second));
        ok!(cuEventElapsedTime(&mut time, first, second));
        assert!(time >= 30.0, "{time} ms");
        ok!(cuEventSynchronize(timeless));
        assert_eq!(code!(cuEventElapsedTime(&mut time, first, timeless)), INVALID_HANDLE);
        // Recorded anew, it has no time until it is passed there, whatever passes the old place.
        let gates = [close_now(stream), close(other)];
        ok!(cuEventRecord(second, stream));
        ok!(cuEventRecord(second, other));
        gates[0].open();
        ok!(cuStreamSynchronize(stream));
        assert_eq!(code!(cuEventElapsedTime(&mut time, first, second)), NOT_READY);
        gates[1].open();
        ok!(cuStreamSynchronize(other));
        ok!(cuEventElapsedTime(&mut time, first, second));
    }
);

test!(
    /// The default stream waits for blocking streams, and they for it; others do neither.
    the_default_stream_waits_for_blocking_ones, [], {
        primary(0);
        let (blocking, free) = (stream(0), stream(1));
        let gate = close(blocking);
        let later = event();
        ok!(cuEventRecord(later, LEGACY));
        a_moment();
        assert_eq!(code!(cuEventQuery(later)), NOT_READY);
        // Behind the default stream, also in a stream that was idle.
        let (behind, beside) = (stream(0), event());
        ok!(cuEventRecord(beside, free));
        ok!(cuEventSynchronize(beside));
        ok!(cuEventRecord(beside, behind));
        a_moment();
        assert!(is_busy(behind) && is_busy(LEGACY));
        // The default stream of a thread is a blocking one.
        ok!(cuEventRecord(beside, per_thread()));
        a_moment();
        assert!(is_busy(per_thread()));
        gate.open();
        ok!(cuCtxSynchronize());
        let gate = close(per_thread());
        ok!(cuEventRecord(beside, LEGACY));
        a_moment();
        assert!(is_busy(LEGACY));
        gate.open();
        for stream in [behind, per_thread(), LEGACY] {
            ok!(cuStreamSynchronize(stream));
        }
        ok!(cuEventQuery(later));
    }
);

test!(
    /// The default stream of a context knows nothing of other contexts.
    default_streams_are_of_contexts, [("KOLO_SOFTGPU_DEVICES", "2")], {
        primary(0);
        let gate = close(stream(0));
        primary(1);
        let mark = event();
        ok!(cuEventRecord(mark, LEGACY));
        ok!(cuEventSynchronize(mark));
        primary(0);
        assert_eq!(code!(cuEventRecord(mark, LEGACY)), INVALID_HANDLE);
        ok!(cuStreamQuery(LEGACY));
        let mark = event();
        ok!(cuEventRecord(mark, LEGACY));
        assert!(is_busy(LEGACY));
        gate.open();
        ok!(cuEventSynchronize(mark));
    }
);

static COUNT: AtomicU32 = AtomicU32::new(0);
static REFUSED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: *mut c_void) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let mut at = 0;
    REFUSED.fetch_add(code!(cuMemAlloc_v2(&mut at, 16)) as u32, Ordering::Relaxed);
}

test!(
    /// Functions of the host run once each, in order, and may not call the driver.
    functions_of_the_host_may_not_call, [], {
        primary(0);
        let stream = stream(1);
        for done in 1..=20 {
            ok!(cuLaunchHostFunc(stream, Some(count), null_mut()));
            ok!(cuStreamSynchronize(stream));
            assert_eq!(COUNT.load(Ordering::Relaxed), done);
        }
        assert_eq!(REFUSED.load(Ordering::Relaxed), 20 * 800);
    }
);

test!(
    /// A stream that is destroyed ends its work; its handle is gone at once.
    a_destroyed_stream_ends_its_work, [], {
        primary(0);
        let at = allocate(1 << 20);
        let stream = stream(1);
        let done = event();
        let gate = close(stream);
        fill(at, 4, stream);
        ok!(cuEventRecord(done, stream));
        ok!(cuStreamDestroy_v2(stream));
        assert_eq!(code!(cuStreamQuery(stream)), INVALID_HANDLE);
        assert_eq!(code!(cuStreamDestroy_v2(stream)), INVALID_HANDLE);
        assert_eq!(code!(cuEventQuery(done)), NOT_READY);
        gate.open();
        ok!(cuEventSynchronize(done));
        assert_eq!(read(at, 1 << 20), vec![4; 1 << 20]);
    }
);

test!(
    /// Calls that may synchronise a device wait for work that was issued before; those that a
    /// library makes while kernels run do not.
    calls_that_wait, [("KOLO_SOFTGPU_DEVICES", "2")], {
        let context = primary(0);
        let (old, kept) = (allocate(64), allocate(64));
        let (mut host, image) = (null_mut(), Arc::new(kolo_softgpu::image()));
        ok!(cuMemAllocHost_v2(&mut host, 64));
        let (old_host, pair) = (host.expose_provenance(), Arc::clone(&image));
        let waiting: [(&str, Call); 7] = [
            ("allocate", Box::new(|| _ = allocate(64))),
            ("free", Box::new(move || ok!(cuMemFree_v2(old)))),
            ("free pinned", Box::new(move || {
                ok!(cuMemFreeHost(std::ptr::with_exposed_provenance_mut(old_host)));
            })),
            ("load", Box::new(move || {
                let mut module = null_mut();
                ok!(cuModuleLoadData(&mut module, pair.as_ptr().cast()));
            })),
            ("synchronize", Box::new(|| ok!(cuCtxSynchronize()))),
            ("copy", Box::new(move || drop(read(kept, 64)))),
            ("fill", Box::new(move || ok!(cuMemsetD8_v2(kept, 1, 64)))),
        ];
        let context = context.expose_provenance();
        for (name, call) in waiting {
            let held = stream(1);
            let gate = close(held);
            let thread = std::thread::spawn(move || {
                ok!(cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
                call();
            });
            // None of these waits, nor does another device.
            let at = mapped(0, PAGE, &[0]);
            fill(at, 1, stream(1));
            let free = stream(1);
            ok!(cuMemFreeAsync(allocate_async(64, free), free));
            ok!(cuStreamSynchronize(free));
            primary(1);
            ok!(cuCtxSynchronize());
            allocate(64);
            primary(0);
            assert!(is_busy(held));
            a_moment();
            assert!(!thread.is_finished(), "{name} does not wait");
            gate.open();
            thread.join().expect(name);
        }
    }
);

static CALLED_BACK: Mutex<Vec<(usize, u32)>> = Mutex::new(Vec::new());

unsafe extern "C" fn called_back(stream: CUstream, code: CUresult, data: *mut c_void) {
    let _ = data;
    CALLED_BACK
        .lock()
        .expect("no panic")
        .push((stream.addr(), code as u32));
}

test!(
    /// A callback gets its stream, as it was written, and the result.
    callbacks, [], {
        primary(0);
        let stream = stream(0);
        for given in [stream, LEGACY, per_thread()] {
            ok!(cuStreamAddCallback(given, Some(called_back), null_mut(), 0));
            ok!(cuStreamSynchronize(given));
        }
        let wanted = [(stream.addr(), 0), (0, 0), (2, 0)];
        assert_eq!(*CALLED_BACK.lock().expect("no panic"), wanted);
    }
);
