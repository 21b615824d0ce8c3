//! Kernels on devices: sums over two devices, and what must not be.

use super::alone::{code, ok, test};
use super::ring::{Rank, Ring, call, judge};
use super::world::*;
use cudarc::driver::sys::{
    CUdriverProcAddressQueryResult_enum as Found, CUfunction, CUmemAccess_flags, CUmemAccessDesc,
};
use kolo::plan::Protocol;
use std::ptr::null_mut;

const TWO: (&str, &str) = ("KOLO_SOFTGPU_DEVICES", "2");

fn two_ranks() -> [Rank; 2] {
    [0, 1].map(|device| {
        let context = primary(device);
        Rank::new(device, context, stream(1))
    })
}

test!(
    /// Sums by every protocol, one after the other on the same streams.
    a_ring_of_two_devices_sums, [TWO], {
        let ranks = two_ranks();
        for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
            let ring = Ring::new(&ranks, 2048);
            for (seed, count) in [(1, 5000), (2, 33), (3, 1)] {
                let call = call(seed, protocol, count);
                let parts = [0, 1].map(|rank| ring.prepare(&call, rank, &ranks[rank]));
                parts[0].launch(&ranks[0]);
                parts[1].launch(&ranks[1]);
                for (number, rank) in ranks.iter().enumerate() {
                    rank.select();
                    ok!(cuStreamSynchronize(rank.stream));
                    judge(&call, number, &parts[number]);
                }
            }
        }
    }
);

/// Offset and bytes of a parameter, by a function that came later than cudarc is asked for.
fn parameter(function: CUfunction, index: usize) -> Result<(usize, usize), i32> {
    let (mut at, mut found) = (null_mut(), Found::CU_GET_PROC_ADDRESS_SUCCESS);
    let name = c"cuFuncGetParamInfo";
    ok!(cuGetProcAddress_v2(
        name.as_ptr(),
        &mut at,
        13_000,
        0,
        &mut found
    ));
    let (mut offset, mut bytes) = (7, 7);
    // SAFETY: the driver's function of this name has this type.
    let code = unsafe {
        type Function = extern "C" fn(CUfunction, usize, *mut usize, *mut usize) -> i32;
        let ask: Function = std::mem::transmute(at);
        ask(function, index, &mut offset, &mut bytes)
    };
    match code {
        0 => Ok((offset, bytes)),
        code => Err(code),
    }
}

test!(
    /// Names and images that are unknown are refused, and so are grids that cannot be.
    images_and_names, [], {
        let context = primary(0);
        let image = kolo_softgpu::image();
        let (mut module, mut function) = (null_mut(), null_mut());
        let fatbin: [u8; 16] = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut other = image.clone();
        let last = other.len() - 3;
        other[last] ^= 1;
        for bad in [&fatbin[..], &other[..]] {
            assert_eq!(code!(cuModuleLoadData(&mut module, bad.as_ptr().cast())), 209);
        }
        ok!(cuModuleLoadData(&mut module, image.as_ptr().cast()));
        for (name, wanted) in [(c"kolo2_Ll_Int8_Max", 0), (c"kolo2_Ll_Int8_Mix", NOT_FOUND)] {
            assert_eq!(code!(cuModuleGetFunction(&mut function, module, name.as_ptr())), wanted);
        }
        use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;
        let mut most = 0;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        ok!(cuFuncGetAttribute(&mut most, attribute, function));
        assert_eq!(most, 640);
        let mut blocks = 0;
        ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, 640, 0));
        assert_eq!(blocks, 1);
        let bytes = [0; 4096];
        for (grid, wanted) in [((1, 33), 1), ((0, 64), 1), ((1, 672), 701)] {
            assert_eq!(launch(function, grid, null_mut(), &bytes), wanted, "{grid:?}");
        }
        assert_eq!([0, 1].map(|index| parameter(function, index)), [Ok((0, 4096)), Err(1)]);
        ok!(cuModuleUnload(module));
        assert_eq!(launch(function, (1, 64), null_mut(), &bytes), INVALID_HANDLE);
        ok!(cuCtxSetCurrent(context));
    }
);

test!(
    /// A fault of a kernel's with memory is told once and sticks to everything.
    an_illegal_access_is_sticky, [TWO], says "which was freed", {
        let ranks = two_ranks();
        let ring = Ring::new(&ranks, 2048);
        let call = call(1, Protocol::Simple, 100);
        let parts = [0, 1].map(|rank| ring.prepare(&call, rank, &ranks[rank]));
        ok!(cuMemFree_v2(parts[1].output));
        parts[0].launch(&ranks[0]);
        parts[1].launch(&ranks[1]);
        assert_eq!(code!(cuStreamSynchronize(ranks[1].stream)), ILLEGAL_ADDRESS);
        let mut at = 0;
        assert_eq!(code!(cuMemAlloc_v2(&mut at, 16)), ILLEGAL_ADDRESS);
        ranks[0].select();
        assert_eq!(code!(cuStreamQuery(ranks[0].stream)), ILLEGAL_ADDRESS);
        assert_eq!(code!(cuStreamDestroy_v2(ranks[0].stream)), ILLEGAL_ADDRESS);
        let mut count = 0;
        ok!(cuDeviceGetCount(&mut count));
        assert_eq!(count, 2);
    }
);

test!(
    /// Memory of `cuMemAlloc` is for its own device until a context enables its peer.
    peers_must_be_enabled, [TWO], says "where device 1 may not do it", {
        let ranks = two_ranks();
        let ring = Ring::new(&ranks, 2048);
        let sums = |seed, output| {
            let call = call(seed, Protocol::Simple, 64);
            let mut parts = [0, 1].map(|rank| ring.prepare(&call, rank, &ranks[rank]));
            parts[1].set_output(output);
            parts[0].launch(&ranks[0]);
            parts[1].launch(&ranks[1]);
            let code = code!(cuStreamSynchronize(ranks[1].stream));
            (call, parts, code)
        };
        ranks[0].select();
        let theirs = allocate(256);
        ranks[1].select();
        ok!(cuCtxEnablePeerAccess(ranks[0].context, 0));
        assert_eq!(code!(cuCtxEnablePeerAccess(ranks[0].context, 0)), 704);
        let (call, parts, code) = sums(1, theirs);
        assert_eq!(code, 0);
        judge(&call, 1, &parts[1]);
        ok!(cuCtxDisablePeerAccess(ranks[0].context));
        assert_eq!(code!(cuCtxDisablePeerAccess(ranks[0].context)), 705);
        assert_eq!(sums(2, theirs).2, ILLEGAL_ADDRESS);
    }
);

test!(
    /// Memory of a pool is for its own device until another one is let in, also what was there
    /// before.
    pools_let_devices_in, [TWO], says "`memory of a pool", says "where device 1 may not do it", {
        let ranks = two_ranks();
        let ring = Ring::new(&ranks, 2048);
        ranks[0].select();
        let (mut pool, mut theirs) = (null_mut(), 0);
        ok!(cuDeviceGetDefaultMemPool(&mut pool, 0));
        ok!(cuMemAllocAsync(&mut theirs, 256, ranks[0].stream));
        let access = |flags| {
            let description = CUmemAccessDesc { location: location(1), flags };
            ok!(cuMemPoolSetAccess(pool, &description, 1));
        };
        for (seed, flags, wanted) in [
            (1, BOTH_WAYS, 0),
            (2, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE, ILLEGAL_ADDRESS),
        ] {
            access(flags);
            let call = call(seed, Protocol::Simple, 64);
            let mut parts = [0, 1].map(|rank| ring.prepare(&call, rank, &ranks[rank]));
            parts[1].set_output(theirs);
            parts[0].launch(&ranks[0]);
            parts[1].launch(&ranks[1]);
            assert_eq!(code!(cuStreamSynchronize(ranks[1].stream)), wanted);
            if wanted == 0 {
                ranks[0].select();
                judge(&call, 1, &parts[1]);
            }
        }
    }
);

test!(
    /// Where devices are no peers, neither form of shared memory can be had.
    without_peers, [TWO, ("KOLO_SOFTGPU_PEERS", "0")], {
        let contexts = [primary(1), primary(0)];
        let mut can = 7;
        ok!(cuDeviceCanAccessPeer(&mut can, 0, 1));
        assert_eq!(can, 0);
        assert_eq!(code!(cuCtxEnablePeerAccess(contexts[0], 0)), 217);
        let at = mapped(0, PAGE, &[0]);
        assert_eq!(set_access(at, PAGE, 1, BOTH_WAYS), INVALID_DEVICE);
    }
);

test!(
    /// A kernel that waits for a rank which never comes ends when the host says so, by a word in
    /// pinned memory; meanwhile the driver answers.
    the_host_ends_a_kernel, [TWO], {
        let ranks = two_ranks();
        let ring = Ring::new(&ranks, 2048);
        for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
            let call = call(1, protocol, 5000);
            let mut part = ring.prepare(&call, 0, &ranks[0]);
            let mut flag = null_mut();
            ok!(cuMemAllocHost_v2(&mut flag, 8));
            part.set_abort(flag.expose_provenance() as u64);
            // SAFETY: the memory has 8 bytes, and only atomics use it.
            let flag = unsafe { &*flag.cast::<std::sync::atomic::AtomicU32>() };
            part.launch(&ranks[0]);
            for _ in 0..50 {
                assert_eq!(code!(cuStreamQuery(ranks[0].stream)), NOT_READY);
            }
            flag.store(1, std::sync::atomic::Ordering::Release);
            ok!(cuStreamSynchronize(ranks[0].stream));
        }
    }
);

test!(
    /// A grid of more blocks than a device has room for runs in turns.
    blocks_beyond_the_limit_wait, [("KOLO_SOFTGPU_BLOCKS", "1")], {
        primary(0);
        let (call, part) = super::ring::alone();
        assert!(call.sizes.grid.0 > 1);
        assert_eq!(part.launch_on(null_mut()), 0);
        ok!(cuCtxSynchronize());
        judge(&call, 0, &part);
    }
);

test!(
    /// A library's kernel runs in whatever context is current.
    libraries, [TWO], {
        let image = kolo_softgpu::image();
        let (mut library, mut kernel) = (null_mut(), null_mut());
        ok!(cuInit(0));
        let (none, nothing) = (null_mut(), null_mut());
        let options = null_mut();
        let data = image.as_ptr().cast();
        ok!(cuLibraryLoadData(&mut library, data, options, none, 0, null_mut(), nothing, 0));
        let wrong = code!(cuLibraryGetKernel(&mut kernel, library, c"none".as_ptr()));
        assert_eq!(wrong, NOT_FOUND);
        let name = c"kolo2_Simple_Int32_Sum";
        ok!(cuLibraryGetKernel(&mut kernel, library, name.as_ptr()));
        for device in [1, 0] {
            primary(device);
            let (call, mut part) = super::ring::alone();
            let mut function = null_mut();
            ok!(cuKernelGetFunction(&mut function, kernel));
            part.set_function(function);
            assert_eq!(part.launch_on(null_mut()), 0);
            ok!(cuCtxSynchronize());
            judge(&call, 0, &part);
        }
        ok!(cuLibraryUnload(library));
        let mut function = null_mut();
        assert_eq!(code!(cuKernelGetFunction(&mut function, kernel)), INVALID_HANDLE);
    }
);

/// How often the thread that is the hardware has slept so far.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status"));
    let all = tasks.filter_map(|task| status(task.expect("a thread")).ok());
    let worker = all
        .into_iter()
        .find(|text| text.starts_with("Name:\tsoftgpu\n"));
    let worker = worker.expect("the worker");
    let line = worker
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a count").trim().parse().expect("a number")
}

test!(
    /// With nothing to do the hardware sleeps until somebody calls.
    an_idle_driver_sleeps, [], {
        primary(0);
        let (call, part) = super::ring::alone();
        assert_eq!(part.launch_on(null_mut()), 0);
        ok!(cuCtxSynchronize());
        judge(&call, 0, &part);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let before = sleeps();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(sleeps(), before);
    }
);
