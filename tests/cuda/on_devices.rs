//! Tests that run in a process with the software GPU. Each module is for a driver of its own.

use crate::world::{World, kernels_file};
use kolo::base::Code;
use kolo::cuda::{
    Context, DeviceAttribute, DeviceEvent, DeviceKernels, DeviceMemory, Driver, HostMapping,
    OwnStream, PinnedMemory, PointerKind, StreamId, copy_async, copy_from_device, copy_to_device,
    exchange_capture_mode_relaxed, fill_async, is_pinned, kind_of,
};
use libloading::os::unix::Library;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

/// A function of the driver, as the program itself would call it.
fn of_the_driver<F: Copy>(name: &str) -> F {
    let path = std::env::var_os("KOLO_CUDA_LIBRARY").expect("it is set");
    // SAFETY: the library is loaded already, and stays.
    let library = unsafe { Library::new(path) }.expect("the software GPU");
    // SAFETY: whoever asks gives the type that CUDA gives the function.
    let function = *unsafe { library.get::<F>(name.as_bytes()) }.expect(name);
    std::mem::forget(library);
    function
}

/// Bytes that differ by place and seed.
fn content(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at * 7 + at / 251 + seed * 31) as u8)
        .collect()
}

mod usual {
    use super::*;

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn contexts_are_of_devices_and_are_left_as_they_were() {
        let driver = Driver::get().unwrap();
        assert_eq!(driver.devices().unwrap(), 4);
        let contexts: Vec<_> = (0..4).map(|device| Context::of(device).unwrap()).collect();
        for (number, context) in (0..).zip(&contexts) {
            assert_eq!(context.device(), number);
            assert!(Arc::ptr_eq(context, &Context::of(number).unwrap()));
            assert!(context.name().contains("software GPU"), "{context:?}");
            assert_eq!(context.multiprocessors(), 16);
            let warp = context.attribute(DeviceAttribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE);
            assert_eq!(warp.unwrap(), 32);
            let (free, all) = context.memory().unwrap();
            assert!(0 < free && free <= all, "{free} of {all}");
            let pci = context.pci();
            assert!(pci.len() == 12 && pci.matches(':').count() == 2, "{pci}");
            for other in &contexts[..number as usize] {
                assert!(other.uuid() != context.uuid() && other.pci() != pci);
                assert!(context.reaches(other).unwrap());
            }
        }
        let error = Context::of(4).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(
            error
                .what
                .contains("no device 4: this process sees 4, counted"),
            "{error}"
        );
        let current: unsafe extern "C" fn(*mut usize) -> i32 = of_the_driver("cuCtxGetCurrent");
        let now = || {
            let mut context = 0;
            // SAFETY: the driver writes one address.
            assert_eq!(unsafe { current(&raw mut context) }, 0);
            context
        };
        assert_eq!(now(), 0);
        let outer = contexts[1].enter().unwrap();
        let there = now();
        OwnStream::new(&contexts[2]).unwrap().synchronize().unwrap();
        assert!(there != 0 && now() == there);
        drop(contexts[3].enter().unwrap());
        assert_eq!(now(), there);
        drop(outer);
        assert_eq!(now(), 0);
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn memory_is_shared_device_by_device_and_by_descriptor() {
        let [first, second] = [0, 1].map(|device| Context::of(device).unwrap());
        let [here, there] = [&first, &second].map(|context| OwnStream::new(context).unwrap());
        let bytes = (1 << 21) + 5;
        let memory = DeviceMemory::new(&first, "a test", bytes, &[]).unwrap();
        assert_eq!(memory.bytes(), bytes);
        let wanted = content(bytes, 1);
        let mut got = vec![0xa5; bytes];
        // SAFETY: the memory has that many bytes, and nobody else uses them.
        unsafe {
            copy_to_device(&first, memory.address(), &wanted, here.id()).unwrap();
            copy_from_device(&first, &mut got, memory.address(), here.id()).unwrap();
        }
        assert!(got == wanted);
        // To memory of another device, and back from there.
        memory.grant(&second).unwrap();
        let other =
            DeviceMemory::new(&second, "a test", bytes, std::slice::from_ref(&first)).unwrap();
        got.fill(0xa5);
        let part = bytes - 1000;
        // SAFETY: both have that many bytes, and nobody else uses them.
        unsafe {
            fill_async(&second, other.address(), 0x5a, bytes, there.id()).unwrap();
            copy_async(&second, other.address(), memory.address(), part, there.id()).unwrap();
            copy_from_device(&second, &mut got, other.address(), there.id()).unwrap();
        }
        assert!(got[..part] == wanted[..part] && got[part..].iter().all(|byte| *byte == 0x5a));
        // What arrives as a descriptor is the same memory at another address, and outlives it.
        let fd = memory.export().unwrap();
        let imported = DeviceMemory::import(&second, fd.as_fd(), bytes).unwrap();
        drop(fd);
        assert_ne!(imported.address(), memory.address());
        let again = content(bytes, 2);
        // SAFETY: as above.
        unsafe { copy_to_device(&first, memory.address(), &again, here.id()) }.unwrap();
        drop(memory);
        // SAFETY: as above.
        unsafe { copy_from_device(&second, &mut got, imported.address(), there.id()) }.unwrap();
        assert!(got == again);
        let error = DeviceMemory::import(&second, std::io::stdin().as_fd(), bytes);
        let error = error.err().expect("no memory").to_string();
        assert!(error.contains("cuMemImportFromShareableHandle"), "{error}");
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn pinned_memory_is_zero_and_used_again() {
        let memory = PinnedMemory::new(10_000).unwrap();
        let (place, address) = (memory.as_ptr(), memory.address());
        assert_eq!(kind_of(address).unwrap(), PointerKind::Pinned);
        // SAFETY: the memory has these bytes.
        let bytes = || unsafe { std::slice::from_raw_parts(place, 10_000) };
        assert!(bytes().iter().all(|byte| *byte == 0));
        // SAFETY: as above.
        unsafe { place.write_bytes(7, 10_000) };
        let more = PinnedMemory::new(10_000).unwrap();
        assert_ne!(more.as_ptr(), place);
        drop(memory);
        assert_eq!(kind_of(address).unwrap(), PointerKind::Pinned);
        // A much smaller one does not take it; one of about the size does.
        let small = PinnedMemory::new(100).unwrap();
        assert_ne!(small.as_ptr(), place);
        let again = PinnedMemory::new(9_000).unwrap();
        assert_eq!((again.as_ptr(), again.bytes()), (place, 9_000));
        assert!(bytes().iter().all(|byte| *byte == 0));
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn memory_of_the_program_is_registered_once() {
        let context = Context::of(0).unwrap();
        let stream = OwnStream::new(&context).unwrap();
        let mut buffer = vec![0u8; 8 * 4096];
        let page = buffer.as_ptr().align_offset(4096);
        let place = buffer[page..].as_mut_ptr();
        assert_eq!(kind_of(place as u64).unwrap(), PointerKind::Pageable);
        // SAFETY: the buffer outlives the mappings.
        let map = |from: usize, bytes: usize| unsafe { HostMapping::of(place.add(from), bytes) };
        let mapping = map(4096 + 10, 3 * 4096).unwrap();
        let inside = map(2 * 4096, 100).unwrap();
        let at = place.wrapping_add(2 * 4096 + 50);
        assert_eq!(
            mapping.address_of(at).unwrap(),
            inside.address_of(at).unwrap()
        );
        assert!(mapping.address_of(place).is_err(), "a page before it");
        let error = map(0, 2 * 4096).err().expect("a part is registered");
        assert!(error.what.contains("only in part"), "{error}");
        drop(mapping);
        assert_eq!(kind_of(at as u64).unwrap(), PointerKind::Pinned);
        assert!(Driver::is_open(), "the driver is used, so it is open");
        assert!(is_pinned(at as usize) && !is_pinned(place as usize));
        let memory = DeviceMemory::new(&context, "a test", 100, &[]).unwrap();
        let wanted = content(100, 3);
        // SAFETY: both have 100 bytes, and the stream is waited for.
        unsafe {
            copy_to_device(&context, memory.address(), &wanted, stream.id()).unwrap();
            let to = inside.address_of(at).unwrap();
            copy_async(&context, to, memory.address(), 100, stream.id()).unwrap();
        }
        stream.synchronize().unwrap();
        // SAFETY: the bytes are inside of the buffer.
        assert_eq!(unsafe { std::slice::from_raw_parts(at, 100) }, wanted);
        drop(inside);
        assert_eq!(kind_of(at as u64).unwrap(), PointerKind::Pageable);
        // All of it is free to be registered otherwise.
        drop(map(0, 4 * 4096).unwrap());
    }

    /// A program that has closed its standard input can be given any number.
    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn memory_arrives_by_a_descriptor_of_any_number() {
        let context = Context::of(0).unwrap();
        let stream = OwnStream::new(&context).unwrap();
        let memory = DeviceMemory::new(&context, "a test", 5000, &[]).unwrap();
        let wanted = content(5000, 4);
        // SAFETY: the memory has these bytes.
        unsafe { copy_to_device(&context, memory.address(), &wanted, stream.id()) }.unwrap();
        let exported = memory.export().unwrap();
        let input = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        for number in [0, 700] {
            // SAFETY: nobody reads standard input here, and nobody has the other number.
            let at = unsafe { libc::dup2(exported.as_fd().as_raw_fd(), number) };
            assert_eq!(at, number);
            // SAFETY: it is open until the end of this process.
            let at = unsafe { BorrowedFd::borrow_raw(at) };
            let imported = DeviceMemory::import(&context, at, 5000).unwrap();
            let mut got = vec![0xa5; 5000];
            // SAFETY: the memory has these bytes.
            unsafe { copy_from_device(&context, &mut got, imported.address(), stream.id()) }
                .unwrap();
            assert!(got == wanted, "number {number}");
        }
        // SAFETY: gives standard input its number back.
        assert_eq!(unsafe { libc::dup2(input.as_raw_fd(), 0) }, 0);
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn addresses_are_known_by_their_kind() {
        let context = Context::of(2).unwrap();
        let memory = DeviceMemory::new(&context, "a test", 1 << 20, &[]).unwrap();
        let kind = kind_of(memory.address() + 1000).unwrap();
        assert_eq!(kind, PointerKind::Device(2));
        let local = 0u8;
        let kind = kind_of(&raw const local as u64).unwrap();
        assert_eq!(kind, PointerKind::Pageable);
        let managed: unsafe extern "C" fn(*mut u64, usize, u32) -> i32 =
            of_the_driver("cuMemAllocManaged");
        let _current = context.enter().unwrap();
        let mut address = 0;
        // SAFETY: the driver writes one address.
        assert_eq!(unsafe { managed(&raw mut address, 4096, 1) }, 0);
        assert_eq!(kind_of(address).unwrap(), PointerKind::Managed);
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn streams_wait_for_marks_and_belong_to_contexts() {
        let [first, second] = [0, 1].map(|device| Context::of(device).unwrap());
        let [here, there] = [&first, &second].map(|context| OwnStream::new(context).unwrap());
        let event = DeviceEvent::new(&first).unwrap();
        assert!(event.is_over().unwrap(), "nothing was recorded");
        let bytes = 1 << 20;
        let all = [first.clone(), second.clone()];
        let source = DeviceMemory::new(&first, "a test", bytes, &all).unwrap();
        let target = DeviceMemory::new(&second, "a test", bytes, &all).unwrap();
        let mut got = vec![0; bytes];
        for round in 1..20u8 {
            // SAFETY: both have these bytes; the copy waits for the fill.
            unsafe {
                fill_async(&first, source.address(), round, bytes, here.id()).unwrap();
                event.record(here.id()).unwrap();
                event.wait_on(&second, there.id()).unwrap();
                let to = target.address();
                copy_async(&second, to, source.address(), bytes, there.id()).unwrap();
                copy_from_device(&second, &mut got, to, there.id()).unwrap();
            }
            assert!(got.iter().all(|byte| *byte == round), "round {round}");
            assert!(event.is_over().unwrap() && here.id().is_over(&first).unwrap());
        }
        // A mark behind a kernel that waits for another one, which is not launched yet.
        let mut world = World::new(2);
        let call = world.sum(100);
        world.launch(&call, 0);
        event.record(world.ranks[0].stream.id()).unwrap();
        event.wait_on(&second, there.id()).unwrap();
        // SAFETY: the memory has these bytes.
        unsafe { fill_async(&second, target.address(), 99, bytes, there.id()) }.unwrap();
        for _ in 0..50 {
            here.synchronize().unwrap();
            assert!(!event.is_over().unwrap() && !there.id().is_over(&second).unwrap());
        }
        world.launch(&call, 1);
        there.synchronize().unwrap();
        assert!(event.is_over().unwrap());
        world.check(&call);
        let device = |stream: StreamId| stream.context(3).unwrap().device();
        assert_eq!((device(here.id()), device(there.id())), (0, 1));
        assert_eq!(device(StreamId(0)), 3, "no context is current");
        let _current = second.enter().unwrap();
        assert_eq!((device(StreamId(1)), device(StreamId(2))), (1, 1));
        assert!(!here.id().is_capturing(&first).unwrap());
        drop(exchange_capture_mode_relaxed().unwrap());
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn kernels_sum_over_four_devices() {
        let mut world = World::new(4);
        for count in [1, 1000, 5000] {
            let call = world.sum(count);
            (0..4).for_each(|rank| world.launch(&call, rank));
            world.check(&call);
        }
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn nothing_waits_for_a_kernel_that_waits() {
        drop(PinnedMemory::new(50_000).unwrap());
        let mut world = World::new(2);
        let call = world.sum(3000);
        let both = [0, 1].map(|rank: usize| world.ranks[rank].context.clone());
        let context = both[0].clone();
        let kept = DeviceMemory::new(&context, "a test", 1 << 20, &[]).unwrap();
        world
            .ranks
            .iter()
            .for_each(|rank| rank.stream.synchronize().unwrap());
        world.launch(&call, 1);
        world.launch(&call, 0);
        world.check(&call);
        let call = world.sum(3000);
        // Rank 0 waits for what rank 1 will send.
        world.launch(&call, 0);
        for round in 0..10 {
            let stream = OwnStream::new(&context).unwrap();
            let memory = DeviceMemory::new(&context, "a test", 3 << 20, &both).unwrap();
            let mut got = vec![0; 5000];
            let wanted = content(5000, round);
            // SAFETY: the memory has these bytes.
            unsafe {
                copy_to_device(&context, memory.address(), &wanted, stream.id()).unwrap();
                copy_from_device(&context, &mut got, memory.address(), stream.id()).unwrap();
            }
            assert_eq!(got, wanted);
            let imported = memory.export().unwrap();
            drop(DeviceMemory::import(&context, imported.as_fd(), 3 << 20).unwrap());
            let event = DeviceEvent::new(&context).unwrap();
            event.record(stream.id()).unwrap();
            drop(PinnedMemory::new(50_000).unwrap());
            drop(memory);
        }
        drop(kept);
        let name = kolo::exec::cuda::names::kernel(
            kolo::plan::Protocol::Simple,
            kolo::dtype::DataType::Float32,
            None,
        );
        let names = [name.unwrap()];
        DeviceKernels::load(&context, &kernels_file(), &names).unwrap();
        let first = &world.ranks[0];
        assert!(!first.stream.id().is_over(&first.context).unwrap());
        world.launch(&call, 1);
        world.check(&call);
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn files_without_our_kernels_are_refused() {
        let context = Context::of(0).unwrap();
        let name = ["kolo2_Simple_Float_Sum".to_owned()];
        let load = |file: &str, names: &[String]| {
            let loaded = DeviceKernels::load(&context, file.as_ref(), names);
            loaded.err().expect("no kernels").to_string()
        };
        let error = load("/nonexistent/kernels", &name);
        assert!(
            error.contains("cannot be read from /nonexistent"),
            "{error}"
        );
        assert!(error.contains("`make kernels`"), "{error}");
        let error = load("/proc/self/cmdline", &name);
        assert!(
            error.contains("cuModuleLoadData of /proc/self/cmdline on device 0: CUDA_ERROR_NO_BIN"),
            "{error}"
        );
        let file = kernels_file();
        let error = load(
            file.to_str().unwrap(),
            &["kolo2_Simple_Quad_Sum".to_owned()],
        );
        assert!(error.contains("has no kernel kolo2_Simple_Quad"), "{error}");
        let kernels = DeviceKernels::load(&context, &file, &name).unwrap();
        assert_eq!(kernels.resident_blocks(640).unwrap(), 16);
        assert!(kernels.get("kolo2_Simple_Float_Max").is_err());
    }

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn a_forked_child_is_refused() {
        let context = Context::of(0).unwrap();
        let memory = DeviceMemory::new(&context, "a test", 100, &[]).unwrap();
        // SAFETY: the child makes calls that refuse it, drops, and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let says = |error: kolo::Error| error.what.contains("was forked from one");
            let refused = Driver::get().err().is_some_and(says)
                && context.enter().err().is_some_and(says)
                && Context::of(0).err().is_some_and(says);
            drop(memory);
            // SAFETY: leaves without running destructors or exit handlers.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: `status` is a live integer; `child` is this process's child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        let kind = kind_of(memory.address()).unwrap();
        assert_eq!(kind, PointerKind::Device(0));
    }
}

mod apart {
    use super::*;

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn memory_is_granted_to_nobody_else() {
        let [first, second] = [0, 1].map(|device| Context::of(device).unwrap());
        assert!(!first.reaches(&second).unwrap());
        assert!(first.reaches(&first).unwrap());
        assert!(first.reach(&second).is_err());
        let memory = DeviceMemory::new(&first, "slots", 100, &[]).unwrap();
        let error = memory.grant(&second).unwrap_err().to_string();
        assert!(
            error.contains("cuMemSetAccess of slots to device 1 on device 0: CUDA_ERROR_"),
            "{error}"
        );
        assert!(DeviceMemory::new(&first, "slots", 100, &[second]).is_err());
    }
}

mod old {
    use super::*;

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn an_old_driver_is_one_sentence() {
        let error = Driver::get().err().expect("too old").to_string();
        assert!(error.contains("is that of CUDA 11.3. Remedy: install a driver with CUDA 11.4"));
        assert_eq!(Context::of(0).unwrap_err().to_string(), error);
    }
}

mod short {
    use super::*;

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn too_little_memory_is_one_sentence() {
        let context = Context::of(1).unwrap();
        let make = || DeviceMemory::new(&context, "slots", 3 << 20, &[]);
        let first = make().unwrap();
        let error = make().err().expect("the second one fails");
        assert_eq!(error.code, Code::UnhandledCudaError);
        assert!(
            error.what.starts_with(
                "cuMemCreate of 4194304 bytes for slots on device 1: CUDA_ERROR_OUT_OF_MEMORY (2)"
            ),
            "{error}"
        );
        assert!(error.remedy.contains("KOLO_BUFFSIZE"), "{error}");
        drop(make().unwrap());
        drop(first);
    }
}

mod failing {
    use super::*;

    #[test]
    #[ignore = "started by the tests of cuda.rs, with a driver"]
    fn a_failure_stays_and_is_named_by_every_call() {
        let mut world = World::new(2);
        let call = world.sum(10);
        world.launch(&call, 0);
        let first = &world.ranks[0];
        let error = first.stream.synchronize().unwrap_err().to_string();
        assert!(
            error.contains("cuStreamSynchronize on device 0: CUDA_ERROR_LAUNCH_FAILED (719)"),
            "{error}"
        );
        assert!(error.contains("compute-sanitizer"), "{error}");
        let error = first.stream.id().is_over(&first.context).unwrap_err();
        assert!(error.what.contains("719"), "{error}");
        assert!(OwnStream::new(&first.context).is_err());
    }
}
