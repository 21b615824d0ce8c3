//! The beginning: versions, devices and their names, errors, functions by name.

use super::alone::{code, ok, test};
use super::world::*;
use cudarc::driver::sys::{
    CUdevice_attribute_enum as Attribute, CUdriverProcAddressQueryResult_enum as Found, CUresult,
    CUuuid,
};
use std::ffi::CStr;
use std::ptr::{null, null_mut};

const FOUR: (&str, &str) = ("KOLO_SOFTGPU_DEVICES", "4");

fn count() -> i32 {
    let mut count = -1;
    ok!(cuDeviceGetCount(&mut count));
    count
}

fn uuid(device: i32) -> [u8; 16] {
    let mut uuid = CUuuid { bytes: [0; 16] };
    ok!(cuDeviceGetUuid_v2(&mut uuid, device));
    uuid.bytes.map(|byte| byte as u8)
}

fn bus_id(device: i32) -> String {
    let mut text = [7; 32];
    ok!(cuDeviceGetPCIBusId(text.as_mut_ptr(), 32, device));
    text_of(text.as_ptr())
}

fn text_of(text: *const std::ffi::c_char) -> String {
    // SAFETY: the driver wrote a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().expect("UTF-8").to_owned()
}

fn attribute(attribute: Attribute, device: i32) -> i32 {
    let mut value = -1;
    ok!(cuDeviceGetAttribute(&mut value, attribute, device));
    value
}

test!(
    /// Nothing works before the beginning, and it may come twice.
    before_and_after_init, [], {
        let (mut count, mut at, mut version) = (0, 0, 0);
        assert_eq!(code!(cuDeviceGetCount(&mut count)), 3);
        assert_eq!(code!(cuMemAlloc_v2(&mut at, 64)), 3);
        ok!(cuDriverGetVersion(&mut version));
        assert_eq!(version, 13_000);
        assert_eq!(code!(cuInit(1)), INVALID_VALUE);
        ok!(cuInit(0));
        ok!(cuInit(0));
        ok!(cuDeviceGetCount(&mut count));
        assert_eq!(count, 1);
        assert_eq!(code!(cuMemAlloc_v2(&mut at, 64)), INVALID_CONTEXT);
        assert_eq!(code!(cuDeviceGetCount(null_mut())), INVALID_VALUE);
        assert_eq!(code!(cuDeviceGet(&mut count, 1)), INVALID_DEVICE);
    }
);

test!(
    /// Each device has a place, a number and attributes.
    devices_are_told_apart, [FOUR, ("KOLO_SOFTGPU_BLOCKS", "5")], {
        ok!(cuInit(0));
        assert_eq!(count(), 4);
        let mut name = [0; 64];
        ok!(cuDeviceGetName(name.as_mut_ptr(), 64, 2));
        assert_eq!(text_of(name.as_ptr()), "kolo software GPU");
        ok!(cuDeviceGetName(name.as_mut_ptr(), 5, 2));
        assert_eq!(text_of(name.as_ptr()), "kolo");
        let mut seen: Vec<[u8; 16]> = (0..4).map(uuid).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4);
        for device in 0..4 {
            let (id, mut found) = (std::ffi::CString::new(bus_id(device)).expect("text"), -1);
            ok!(cuDeviceGetByPCIBusId(&mut found, id.as_ptr()));
            assert_eq!(found, device);
        }
        let is = |which, value| assert_eq!(attribute(which, 3), value, "{which:?}");
        is(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
        is(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
        is(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 5);
        is(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
        is(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 640);
        is(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
        is(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0x13);
        is(Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0);
        is(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0);
        is(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED, 0);
    }
);

test!(
    /// The list of visible devices picks and orders; a device is told by its bus and its UUID.
    visible_devices, [FOUR, ("CUDA_VISIBLE_DEVICES", "3,1,9,0")], {
        ok!(cuInit(0));
        assert_eq!(count(), 2, "what follows a wrong number is not seen");
        assert_eq!([bus_id(0), bus_id(1)], ["0000:13:00.0", "0000:11:00.0"]);
        // The same device by its UUID, in another process.
        let hex: String = uuid(1).iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        let name = format!("GPU-{}", parts.join("-"));
        let list = format!("{},{}", name, "2");
        let variables = [FOUR, ("CUDA_VISIBLE_DEVICES", list.as_str())];
        let (ended, said) = super::alone::child("beginning::the_first_bus", &variables);
        assert!(ended && said.contains("first bus 0000:11:00.0 of 2"), "{said}");
    }
);

test!(
    /// The first thing that a process sees of its devices.
    the_first_bus, [FOUR], says "first bus 0000:10:00.0 of 4", {
        ok!(cuInit(0));
        println!("first bus {} of {}", bus_id(0), count());
    }
);

test!(
    /// An empty list hides all devices.
    no_device_is_visible, [FOUR, ("CUDA_VISIBLE_DEVICES", "")], {
        assert_eq!(code!(cuInit(0)), 100);
        let mut count = 0;
        assert_eq!(code!(cuDeviceGetCount(&mut count)), 3);
    }
);

test!(
    /// A variable that cannot be is named.
    a_wrong_variable_is_named, [("KOLO_SOFTGPU_DEVICES", "33")],
    says "KOLO_SOFTGPU_DEVICES=33 is no number from 1 to 32", {
        assert_eq!(code!(cuInit(0)), INVALID_VALUE);
    }
);

test!(
    /// Every code has a name and a sentence, before the beginning, too.
    errors_have_texts, [], {
        let mut text = null();
        for (result, name, sentence) in [
            (CUresult::CUDA_SUCCESS, "CUDA_SUCCESS", "no error"),
            (
                CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                "CUDA_ERROR_ILLEGAL_ADDRESS",
                "an illegal memory access was encountered",
            ),
            (
                CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
                "CUDA_ERROR_NO_BINARY_FOR_GPU",
                "no kernel image is available for execution on the device",
            ),
        ] {
            ok!(cuGetErrorName(result, &mut text));
            assert_eq!(text_of(text), name);
            ok!(cuGetErrorString(result, &mut text));
            assert_eq!(text_of(text), sentence);
        }
        assert_eq!(code!(cuGetErrorName(CUresult::CUDA_ERROR_TIMEOUT, &mut text)), INVALID_VALUE);
        assert!(text.is_null());
    }
);

/// How a function is found by name.
fn find(name: &CStr, version: i32) -> (bool, Found) {
    let mut at = null_mut();
    let mut found = Found::CU_GET_PROC_ADDRESS_SUCCESS;
    ok!(cuGetProcAddress_v2(
        name.as_ptr(),
        &mut at,
        version,
        0,
        &mut found
    ));
    (!at.is_null(), found)
}

test!(
    /// Functions are found by name and version; some were asked to be missing.
    functions_by_name, [("KOLO_SOFTGPU_FAULT", "missing:cuMemCreate,missing:cuMemFree")], {
        let there = (true, Found::CU_GET_PROC_ADDRESS_SUCCESS);
        let unknown = (false, Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        let newer = (false, Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
        assert_eq!(find(c"cuMemMap", 13_000), there);
        assert_eq!(find(c"cuMemAlloc", 12_000), there);
        assert_eq!(find(c"cuMemCreate", 13_000), unknown);
        assert_eq!(find(c"cuMemFree", 13_000), unknown, "no form of it");
        assert_eq!(find(c"cuTexRefCreate", 13_000), unknown);
        assert_eq!(find(c"cuLibraryLoadData", 11_080), newer);
        // What is found is the function.
        let (mut at, mut found) = (null_mut(), Found::CU_GET_PROC_ADDRESS_SUCCESS);
        let name = c"cuDriverGetVersion";
        ok!(cuGetProcAddress_v2(name.as_ptr(), &mut at, 13_000, 0, &mut found));
        // SAFETY: the driver's function of this name has this type.
        let version = unsafe {
            let function: extern "C" fn(*mut i32) -> i32 = std::mem::transmute(at);
            let mut version = 0;
            assert_eq!(function(&mut version), 0);
            version
        };
        assert_eq!(version, 13_000);
    }
);

test!(
    /// An old driver lacks what came later, by name and by call.
    an_old_driver, [("KOLO_SOFTGPU_DRIVER", "11010")], {
        let mut version = 0;
        ok!(cuDriverGetVersion(&mut version));
        assert_eq!(version, 11_010);
        primary(0);
        let pools = Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        assert_eq!(attribute(pools, 0), 0);
        let (mut at, mut found) = (0, null_mut());
        assert_eq!(code!(cuMemAllocAsync(&mut at, 64, null_mut())), 801);
        let status = null_mut();
        let name = c"cuMemMap".as_ptr();
        assert_eq!(code!(cuGetProcAddress_v2(name, &mut found, 12_000, 0, status)), 801);
        holding(&[1]);
        mapped(0, PAGE, &[0]);
    }
);
