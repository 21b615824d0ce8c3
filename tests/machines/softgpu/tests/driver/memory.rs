//! Kinds of memory, and what the driver tells of addresses.

use super::alone::{child, code, ok, test};
use super::world::*;
use cudarc::driver::sys::CUpointer_attribute_enum as Attribute;
use std::ptr::null_mut;

fn number(at: u64, attribute: Attribute) -> Result<u64, i32> {
    let mut value = 0u64;
    match code!(cuPointerGetAttribute(
        (&raw mut value).cast(),
        attribute,
        at
    )) {
        0 => Ok(value),
        code => Err(code),
    }
}

const TYPE: Attribute = Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
const HOST: Attribute = Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER;
const MANAGED: Attribute = Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED;
const DEVICE: Attribute = Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
const BUFFER: Attribute = Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID;
const POOL: Attribute = Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
const LEGACY_IPC: Attribute = Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
const HANDLES: Attribute = Attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
const START: Attribute = Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
const SIZE: Attribute = Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE;
const CONTEXT: Attribute = Attribute::CU_POINTER_ATTRIBUTE_CONTEXT;

test!(
    /// Each kind of memory says what it is.
    kinds_tell_what_they_are, [("KOLO_SOFTGPU_DEVICES", "2")], {
        let context = primary(1).expose_provenance() as u64;
        let mut pinned = null_mut();
        ok!(cuMemAllocHost_v2(&mut pinned, 4096));
        let pinned = pinned.expose_provenance() as u64;
        let mut registered = vec![0u8; 4096];
        ok!(cuMemHostRegister_v2(registered.as_mut_ptr().cast(), 4096, 0));
        let registered = registered.as_mut_ptr().expose_provenance() as u64;
        let (mut managed, mut pooled, mut pool) = (0, 0, null_mut());
        ok!(cuMemAllocManaged(&mut managed, 4096, 1));
        ok!(cuDeviceGetDefaultMemPool(&mut pool, 1));
        ok!(cuMemAllocAsync(&mut pooled, 4096, null_mut()));
        let shared = reserve(PAGE);
        let handle = physical(1, PAGE, true);
        ok!(cuMemMap(shared, PAGE, 0, handle, 0));
        let device = allocate(4096);
        let pool = pool.expose_provenance() as u64;
        // Address, type, host's pointer, managed, pool, IPC, handles, context.
        let kinds = [
            (device, 2, false, 0, 0, 1, 0, context),
            (mapped(1, PAGE, &[1]), 2, false, 0, 0, 0, 0, 0),
            (shared, 2, false, 0, 0, 0, 1, 0),
            (pooled, 2, false, 0, pool, 0, 0, 0),
            (managed, 2, true, 1, 0, 0, 0, context),
            (pinned, 1, true, 0, 0, 0, 0, context),
            (registered, 1, true, 0, 0, 0, 0, context),
        ];
        let mut buffers = Vec::new();
        for (base, kind, is_host, is_managed, pool, ipc, handles, context) in kinds {
            let at = base + 100;
            assert_eq!(number(at, TYPE), Ok(kind), "{base:#x}");
            assert_eq!(number(at, HOST), if is_host { Ok(at) } else { Err(INVALID_VALUE) });
            assert_eq!(number(at, MANAGED), Ok(is_managed));
            assert_eq!(number(at, POOL), Ok(pool));
            assert_eq!(number(at, LEGACY_IPC), Ok(ipc));
            assert_eq!(number(at, HANDLES), Ok(handles));
            assert_eq!(number(at, CONTEXT), Ok(context));
            assert_eq!(number(at, DEVICE), Ok(1));
            assert_eq!(number(at, START), Ok(base));
            let is_mapped = !is_host && context + pool == 0;
            let bytes = if is_mapped { PAGE } else { 4096 };
            assert_eq!(number(at, SIZE), Ok(bytes as u64));
            let (mut start, mut length) = (0, 0);
            ok!(cuMemGetAddressRange_v2(&mut start, &mut length, at));
            assert_eq!((start, length), (base, bytes));
            buffers.push(number(at, BUFFER).expect("a number"));
        }
        buffers.sort_unstable();
        buffers.dedup();
        assert_eq!(buffers.len(), kinds.len());
        ok!(cuMemFree_v2(device));
        let renewed = allocate(4096);
        assert!(!buffers.contains(&number(renewed, BUFFER).expect("a number")));
    }
);

test!(
    /// Of an address that the driver does not know, one question fails, a list gives nothing.
    unknown_addresses, [], {
        primary(0);
        let plain = [0u8; 64];
        let at = plain.as_ptr().expose_provenance() as u64;
        assert_eq!(number(at, TYPE), Err(INVALID_VALUE));
        let (mut kind, mut device, mut start) = (9u32, 9i32, 9u64);
        let mut attributes = [TYPE, DEVICE, START];
        let mut places = [
            (&raw mut kind).cast(),
            (&raw mut device).cast(),
            (&raw mut start).cast(),
        ];
        let (list, to) = (attributes.as_mut_ptr(), places.as_mut_ptr());
        ok!(cuPointerGetAttributes(3, list, to, at));
        assert_eq!((kind, device, start), (0, -2, 0));
        let known = allocate(64);
        ok!(cuPointerGetAttributes(3, list, to, known + 1));
        assert_eq!((kind, device, start), (2, 0, known));
        let (mut base, mut bytes) = (0, 0);
        assert_eq!(code!(cuMemGetAddressRange_v2(&mut base, &mut bytes, at)), NOT_FOUND);
    }
);

test!(
    /// Registered memory is registered once, whole, and until it is taken back.
    registering, [], {
        primary(0);
        let mut memory = vec![0u8; 8192];
        let at = memory.as_mut_ptr();
        let part = at.wrapping_add(4000).cast();
        ok!(cuMemHostRegister_v2(at.cast(), 4096, 0));
        assert_eq!(code!(cuMemHostRegister_v2(part, 4096, 0)), 712);
        let mut there = 0;
        ok!(cuMemHostGetDevicePointer_v2(&mut there, part, 0));
        assert_eq!(there, part.expose_provenance() as u64);
        assert_eq!(code!(cuMemHostUnregister(part)), 713);
        assert_eq!(code!(cuMemFreeHost(at.cast())), INVALID_VALUE);
        ok!(cuMemHostUnregister(at.cast()));
        assert_eq!(code!(cuMemHostGetDevicePointer_v2(&mut there, part, 0)), INVALID_VALUE);
        ok!(cuMemHostRegister_v2(part, 4096, 0));
        let mut flags = 0;
        ok!(cuMemHostGetFlags(&mut flags, part));
        assert_eq!(flags, 2);
    }
);

test!(
    /// The CPU cannot use an address of a device.
    the_cpu_cannot_use_addresses_of_devices, [], {
        let (ended, said) = child("memory::a_read_of_a_device_address_dies", &[("READ", "1")]);
        assert!(!ended && said.contains("reads 0x"), "{said}");
        assert!(!said.contains("read it"), "{said}");
    }
);

test!(
    /// Dies where `READ` is set.
    a_read_of_a_device_address_dies, [], {
        primary(0);
        let at = holding(&[42; 8]);
        if std::env::var_os("READ").is_some() {
            println!("reads {at:#x}");
            let pointer: *const u8 = std::ptr::with_exposed_provenance(at as usize);
            // SAFETY: none; the process is meant to die here.
            let byte = unsafe { pointer.read_volatile() };
            println!("read it: {byte}");
        }
    }
);

test!(
    /// Addresses are not used again soon, and memory that is given back is free for others.
    addresses_are_new, [("KOLO_SOFTGPU_MEMORY", "4194304")], {
        primary(0);
        let mut seen = Vec::new();
        for _ in 0..20 {
            let at = allocate(3 << 20);
            assert_eq!(at % 256, 0);
            assert!(!seen.contains(&at));
            seen.push(at);
            ok!(cuMemFree_v2(at));
        }
        let mut at = 0;
        assert_eq!(code!(cuMemAlloc_v2(&mut at, 0)), INVALID_VALUE);
    }
);

test!(
    /// Memory of a pool is freed in the order of its stream.
    pools_follow_streams, [("KOLO_SOFTGPU_DEVICES", "2")], {
        primary(0);
        let stream = stream(1);
        let (mut at, mut pool) = (0, null_mut());
        ok!(cuMemAllocAsync(&mut at, 1 << 20, stream));
        ok!(cuMemsetD8Async(at, 5, 1 << 20, stream));
        let kept = allocate(1 << 20);
        ok!(cuMemcpyDtoDAsync_v2(kept, at, 1 << 20, stream));
        ok!(cuMemFreeAsync(at, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read(kept, 1 << 20), vec![5; 1 << 20]);
        assert_eq!(code!(cuMemFreeAsync(at, stream)), INVALID_VALUE);
        assert_eq!(code!(cuMemFreeAsync(kept, stream)), INVALID_VALUE);
        ok!(cuDeviceGetMemPool(&mut pool, 0));
        use cudarc::driver::sys::CUmemPool_attribute_enum as OfPool;
        let attribute = OfPool::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
        let mut used = 7u64;
        ok!(cuMemPoolGetAttribute(pool, attribute, (&raw mut used).cast()));
        assert_eq!(used, 0);
        assert_eq!(code!(cuMemPoolDestroy(pool)), INVALID_VALUE);
    }
);

test!(
    /// A pool's memory is its device's until another one is let in.
    pools_let_devices_in, [("KOLO_SOFTGPU_DEVICES", "2")], {
        use cudarc::driver::sys::{CUmemAccess_flags, CUmemAccessDesc, CUmemPoolProps};
        primary(1);
        let mut props = CUmemPoolProps {
            allocType: prop(1, false).type_,
            handleTypes: prop(1, false).requestedHandleTypes,
            location: location(1),
            win32SecurityAttributes: null_mut(),
            maxSize: 0,
            reserved: [0; 56],
        };
        let (mut pool, mut at) = (null_mut(), 0);
        ok!(cuMemPoolCreate(&mut pool, &props));
        ok!(cuMemAllocFromPoolAsync(&mut at, 4096, pool, null_mut()));
        let access = |at| number(at, Attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);
        assert_eq!(access(at), Ok(3));
        let of = |device| {
            let mut flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
            let mut place = location(device);
            ok!(cuMemPoolGetAccess(&mut flags, pool, &mut place));
            flags as u32
        };
        assert_eq!([of(0), of(1)], [0, 3]);
        let let_in = CUmemAccessDesc { location: location(0), flags: BOTH_WAYS };
        ok!(cuMemPoolSetAccess(pool, &let_in, 1));
        assert_eq!([of(0), of(1)], [3, 3]);
        ok!(cuDeviceSetMemPool(1, pool));
        assert_eq!(code!(cuDeviceSetMemPool(0, pool)), INVALID_VALUE);
        ok!(cuMemAllocAsync(&mut at, 4096, null_mut()));
        assert_eq!(number(at, POOL), Ok(pool.expose_provenance() as u64));
        ok!(cuMemPoolDestroy(pool));
        props.location = location(2);
        assert_eq!(code!(cuMemPoolCreate(&mut pool, &props)), INVALID_DEVICE);
    }
);
