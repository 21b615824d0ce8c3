//! Short forms: contexts, memory with bytes in it, streams.

use super::alone::{code, ok};
use cudarc::driver::sys::{
    CUcontext, CUdeviceptr, CUevent, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation,
    CUmemLocationType, CUstream,
};
use std::ptr::{null, null_mut};

pub const INVALID_VALUE: i32 = 1;
pub const OUT_OF_MEMORY: i32 = 2;
pub const INVALID_DEVICE: i32 = 101;
pub const INVALID_CONTEXT: i32 = 201;
pub const INVALID_HANDLE: i32 = 400;
pub const NOT_FOUND: i32 = 500;
pub const NOT_READY: i32 = 600;
pub const ILLEGAL_ADDRESS: i32 = 700;

/// The granularity of virtual memory.
pub const PAGE: usize = 2 << 20;

/// A thread's primary context of a device.
pub fn primary(device: i32) -> CUcontext {
    ok!(cuInit(0));
    let mut context = null_mut();
    ok!(cuDevicePrimaryCtxRetain(&mut context, device));
    ok!(cuCtxSetCurrent(context));
    context
}

pub fn allocate(bytes: usize) -> CUdeviceptr {
    let mut at = 0;
    ok!(cuMemAlloc_v2(&mut at, bytes));
    at
}

/// Memory of the current device with these bytes.
pub fn holding(bytes: &[u8]) -> CUdeviceptr {
    let at = allocate(bytes.len().max(1));
    write(at, bytes);
    at
}

pub fn write(at: CUdeviceptr, bytes: &[u8]) {
    ok!(cuMemcpyHtoD_v2(at, bytes.as_ptr().cast(), bytes.len()));
}

pub fn read(at: CUdeviceptr, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0xee; bytes];
    ok!(cuMemcpyDtoH_v2(copy.as_mut_ptr().cast(), at, bytes));
    copy
}

/// Bytes that differ by place and by `salt`.
pub fn pattern(salt: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(salt);
    std::iter::repeat_with(|| random.u8(..))
        .take(bytes)
        .collect()
}

pub fn stream(flags: u32) -> CUstream {
    let mut stream = null_mut();
    ok!(cuStreamCreate(&mut stream, flags));
    stream
}

pub fn event() -> CUevent {
    let mut event = null_mut();
    ok!(cuEventCreate(&mut event, 0));
    event
}

pub fn location(device: i32) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

pub fn prop(device: i32, is_shared: bool) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: match is_shared {
            true => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            false => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        },
        location: location(device),
        win32HandleMetaData: null_mut(),
        // SAFETY: the flags are numbers.
        allocFlags: unsafe { std::mem::zeroed() },
    }
}

pub fn physical(device: i32, bytes: usize, is_shared: bool) -> CUmemGenericAllocationHandle {
    let mut handle = 0;
    ok!(cuMemCreate(&mut handle, bytes, &prop(device, is_shared), 0));
    handle
}

pub fn reserve(bytes: usize) -> CUdeviceptr {
    let mut at = 0;
    ok!(cuMemAddressReserve(&mut at, bytes, 0, 0, 0));
    at
}

pub fn set_access(at: CUdeviceptr, bytes: usize, device: i32, flags: CUmemAccess_flags) -> i32 {
    let description = CUmemAccessDesc {
        location: location(device),
        flags,
    };
    code!(cuMemSetAccess(at, bytes, &description, 1))
}

pub const BOTH_WAYS: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

/// Mapped memory of a device that these devices may use.
pub fn mapped(device: i32, bytes: usize, users: &[i32]) -> CUdeviceptr {
    let handle = physical(device, bytes, false);
    let at = reserve(bytes);
    ok!(cuMemMap(at, bytes, 0, handle, 0));
    ok!(cuMemRelease(handle));
    for user in users {
        assert_eq!(set_access(at, bytes, *user, BOTH_WAYS), 0);
    }
    at
}

/// A kernel of an image that holds kolo's.
pub fn function(name: &str) -> cudarc::driver::sys::CUfunction {
    let (mut module, mut function) = (null_mut(), null_mut());
    let image = kolo_softgpu::image();
    ok!(cuModuleLoadData(&mut module, image.as_ptr().cast()));
    let name = std::ffi::CString::new(name).expect("no zero");
    ok!(cuModuleGetFunction(&mut function, module, name.as_ptr()));
    function
}

/// Launches a kernel with its one structure.
pub fn launch(
    function: cudarc::driver::sys::CUfunction,
    (blocks, threads): (u32, u32),
    stream: CUstream,
    structure: &[u8],
) -> i32 {
    let mut parameters = [structure.as_ptr().cast_mut().cast()];
    let list = parameters.as_mut_ptr();
    let none = null::<u8>().cast_mut().cast();
    code!(cuLaunchKernel(
        function, blocks, 1, 1, threads, 1, 1, 0, stream, list, none
    ))
}
