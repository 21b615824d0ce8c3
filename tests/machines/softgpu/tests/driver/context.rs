//! Contexts: stacks of threads, primary ones, others, what goes with them.

use super::alone::{code, ok, test};
use super::world::*;
use cudarc::driver::sys::CUcontext;
use std::ptr::null_mut;

fn current() -> CUcontext {
    let mut context = null_mut();
    ok!(cuCtxGetCurrent(&mut context));
    context
}

fn device() -> i32 {
    let mut device = -1;
    ok!(cuCtxGetDevice(&mut device));
    device
}

test!(
    /// Each thread has a stack of its own.
    threads_have_stacks, [("KOLO_SOFTGPU_DEVICES", "2")], {
        let (second, first) = (primary(1), primary(0));
        assert_eq!((current(), device()), (first, 0));
        ok!(cuCtxPushCurrent_v2(second));
        assert_eq!((current(), device()), (second, 1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(current().is_null());
                let mut device = 0;
                assert_eq!(code!(cuCtxGetDevice(&mut device)), INVALID_CONTEXT);
                assert_eq!(code!(cuCtxPopCurrent_v2(null_mut())), INVALID_CONTEXT);
            });
        });
        let mut popped = null_mut();
        ok!(cuCtxPopCurrent_v2(&mut popped));
        assert_eq!((popped, current()), (second, first));
        // The top is replaced, and taken away.
        ok!(cuCtxSetCurrent(second));
        assert_eq!(device(), 1);
        ok!(cuCtxSetCurrent(null_mut()));
        assert!(current().is_null());
        let wrong = std::ptr::without_provenance_mut(4711);
        assert_eq!(code!(cuCtxSetCurrent(wrong)), INVALID_CONTEXT);
        let (mut version, mut least, mut greatest) = (0, 7, 7);
        ok!(cuCtxGetApiVersion(first, &mut version));
        assert_eq!(version, 3020);
        ok!(cuCtxSetCurrent(first));
        ok!(cuCtxGetStreamPriorityRange(&mut least, &mut greatest));
        assert!(greatest < least);
    }
);

test!(
    /// A primary context lives as long as somebody has retained it, and so does its memory.
    primary_contexts_are_counted, [], {
        let state = || {
            let (mut flags, mut active) = (9, 9);
            ok!(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
            (flags, active)
        };
        ok!(cuInit(0));
        assert_eq!(state(), (0, 0));
        ok!(cuDevicePrimaryCtxSetFlags_v2(0, 4));
        let context = primary(0);
        assert_eq!(primary(0), context);
        assert_eq!(state(), (4, 1));
        let (at, stream) = (allocate(64), stream(0));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(read(at, 64).len(), 64);
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(state(), (4, 0));
        let mut more = 0;
        assert_eq!(code!(cuMemAlloc_v2(&mut more, 64)), 709);
        assert_eq!(code!(cuStreamQuery(stream)), INVALID_HANDLE);
        assert_eq!(code!(cuDevicePrimaryCtxRelease_v2(0)), INVALID_CONTEXT);
        assert_eq!(primary(0), context);
        let mut copy = [0u8; 64];
        assert_eq!(code!(cuMemcpyDtoH_v2(copy.as_mut_ptr().cast(), at, 64)), INVALID_VALUE);
        ok!(cuMemAlloc_v2(&mut more, 64));
        ok!(cuDevicePrimaryCtxReset_v2(0));
        assert_eq!(code!(cuMemFree_v2(more)), INVALID_VALUE);
        allocate(64);
    }
);

test!(
    /// An own context has streams and modules of its own, and goes with them.
    own_contexts, [], {
        let first = primary(0);
        let mut own = null_mut();
        ok!(cuCtxCreate_v2(&mut own, 0, 0));
        assert_eq!(current(), own);
        let (at, stream, kernel) = (allocate(64), stream(1), function("kolo2_Ll_Int8_Max"));
        let mut of = null_mut();
        ok!(cuStreamGetCtx(stream, &mut of));
        assert_eq!(of, own);
        ok!(cuCtxPopCurrent_v2(null_mut()));
        assert_eq!(current(), first);
        // A function runs on streams of its own context only.
        assert_eq!(launch(kernel, (1, 64), null_mut(), &[0; 4096]), INVALID_HANDLE);
        assert_eq!(code!(cuCtxDestroy_v2(first)), INVALID_CONTEXT);
        ok!(cuCtxDestroy_v2(own));
        assert_eq!(current(), first);
        assert_eq!(code!(cuCtxPushCurrent_v2(own)), 709);
        assert_eq!(code!(cuStreamQuery(stream)), INVALID_HANDLE);
        assert_eq!(code!(cuMemFree_v2(at)), INVALID_VALUE);
    }
);
