//! Virtual memory: reserving, mapping, access, sharing by descriptors.

use super::alone::{code, ok, test};
use super::world::*;
use cudarc::driver::sys::{
    CUmemAccess_flags_enum as Flags, CUmemAllocationGranularity_flags_enum as Granularity,
    CUmemAllocationHandleType_enum as HandleType,
};

const TWO: (&str, &str) = ("KOLO_SOFTGPU_DEVICES", "2");
const FD: HandleType = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

test!(
    /// Sizes and places that cannot be are refused; the rest does what it says.
    reserving_and_mapping, [], {
        primary(0);
        let mut granularity = 0;
        let least = Granularity::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        ok!(cuMemGetAllocationGranularity(&mut granularity, &prop(0, false), least));
        assert_eq!(granularity, PAGE);
        let (mut at, mut handle) = (0, 0);
        assert_eq!(code!(cuMemAddressReserve(&mut at, PAGE + 1, 0, 0, 0)), INVALID_VALUE);
        assert_eq!(code!(cuMemCreate(&mut handle, PAGE / 2, &prop(0, false), 0)), INVALID_VALUE);
        assert_eq!(code!(cuMemCreate(&mut handle, PAGE, &prop(1, false), 0)), INVALID_DEVICE);
        let (at, handle) = (reserve(3 * PAGE), physical(0, 2 * PAGE, false));
        assert_eq!(at % PAGE as u64, 0);
        let page = PAGE as u64;
        assert_eq!(code!(cuMemMap(at + 2 * page, 2 * PAGE, 0, handle, 0)), INVALID_VALUE);
        assert_eq!(code!(cuMemMap(at, 2 * PAGE, PAGE, handle, 0)), INVALID_VALUE);
        ok!(cuMemMap(at + page, 2 * PAGE, 0, handle, 0));
        assert_eq!(code!(cuMemMap(at, 2 * PAGE, 0, handle, 0)), INVALID_VALUE, "taken");
        // The second half once more, at another place.
        ok!(cuMemMap(at, PAGE, PAGE, handle, 0));
        for (place, bytes) in [(at, PAGE), (at + page, 2 * PAGE)] {
            assert_eq!(set_access(place, bytes, 0, BOTH_WAYS), 0);
        }
        assert_eq!(set_access(at + page, PAGE, 0, BOTH_WAYS), INVALID_VALUE, "half a mapping");
        assert_eq!(code!(cuMemAddressFree(at, 3 * PAGE)), INVALID_VALUE, "mapped");
        let bytes = pattern(1, PAGE);
        write(at, &bytes);
        assert!(read(at + 2 * page, PAGE) == bytes, "two places of one memory");
        // What is released stays while it is mapped.
        ok!(cuMemRelease(handle));
        assert_eq!(code!(cuMemRelease(handle)), INVALID_VALUE);
        ok!(cuMemUnmap(at, PAGE));
        assert!(read(at + 2 * page, PAGE) == bytes);
        ok!(cuMemUnmap(at + page, 2 * PAGE));
        ok!(cuMemAddressFree(at, 3 * PAGE));
        assert_eq!(code!(cuMemUnmap(at, PAGE)), INVALID_VALUE);
    }
);

test!(
    /// Access is of each device, and can be taken away.
    access_of_devices, [TWO], {
        primary(0);
        let at = mapped(0, PAGE, &[0]);
        let access = |device| {
            let mut flags = 7;
            ok!(cuMemGetAccess(&mut flags, &location(device), at));
            flags
        };
        assert_eq!((access(0), access(1)), (3, 0));
        assert_eq!(set_access(at, PAGE, 1, Flags::CU_MEM_ACCESS_FLAGS_PROT_READ), 0);
        assert_eq!(set_access(at, PAGE, 0, Flags::CU_MEM_ACCESS_FLAGS_PROT_NONE), 0);
        assert_eq!((access(0), access(1)), (0, 1));
    }
);

test!(
    /// Physical memory is counted, and given back when nothing holds it.
    memory_is_counted, [("KOLO_SOFTGPU_MEMORY", "8388608")], {
        primary(0);
        let free = || {
            let (mut free, mut total) = (0, 0);
            ok!(cuMemGetInfo_v2(&mut free, &mut total));
            assert_eq!(total, 4 * PAGE);
            free
        };
        let at = mapped(0, 2 * PAGE, &[0]);
        assert_eq!(free(), 2 * PAGE);
        let other = allocate(PAGE + 1);
        assert_eq!(free(), PAGE - 256);
        let (mut handle, mut more) = (0, 0);
        assert_eq!(code!(cuMemCreate(&mut handle, PAGE, &prop(0, false), 0)), OUT_OF_MEMORY);
        assert_eq!(code!(cuMemAlloc_v2(&mut more, PAGE)), OUT_OF_MEMORY);
        ok!(cuMemUnmap(at, 2 * PAGE));
        ok!(cuMemFree_v2(other));
        assert_eq!(free(), 4 * PAGE);
        allocate(4 * PAGE);
    }
);

test!(
    /// Each device has a count of its own.
    devices_are_counted_by_themselves, [TWO, ("KOLO_SOFTGPU_MEMORY", "8388608")], {
        let free = |device| {
            primary(device);
            let (mut free, mut total) = (0, 0);
            ok!(cuMemGetInfo_v2(&mut free, &mut total));
            free
        };
        primary(1);
        allocate(3 * PAGE);
        assert_eq!([free(0), free(1)], [4 * PAGE, PAGE]);
        physical(0, 4 * PAGE, false);
        assert_eq!([free(0), free(1)], [0, PAGE]);
    }
);

test!(
    /// A descriptor carries memory: what is imported is the same memory at another address.
    descriptors_carry_memory, [TWO], {
        primary(1);
        let handle = physical(1, PAGE, true);
        let first = reserve(PAGE);
        ok!(cuMemMap(first, PAGE, 0, handle, 0));
        assert_eq!(set_access(first, PAGE, 1, BOTH_WAYS), 0);
        let mut file = -1i32;
        ok!(cuMemExportToShareableHandle((&raw mut file).cast(), handle, FD, 0));
        let mut imported = 0;
        let os_handle = std::ptr::without_provenance_mut(file as usize);
        ok!(cuMemImportFromShareableHandle(&mut imported, os_handle, FD));
        assert_ne!(imported, handle);
        // SAFETY: the descriptor is this test's, and used no more.
        unsafe { libc::close(file) };
        let mut props = prop(0, false);
        ok!(cuMemGetAllocationPropertiesFromHandle(&mut props, imported));
        assert_eq!(props.location.id, 1);
        let second = reserve(PAGE);
        ok!(cuMemMap(second, PAGE, 0, imported, 0));
        assert_eq!(set_access(second, PAGE, 1, BOTH_WAYS), 0);
        let bytes = pattern(2, PAGE);
        write(first, &bytes);
        assert!(read(second, PAGE) == bytes);
        // Number 0 travels as the null pointer, which is no handle.
        let again = {
            let mut again = -1i32;
            ok!(cuMemExportToShareableHandle((&raw mut again).cast(), handle, FD, 0));
            again
        };
        // SAFETY: nobody reads standard input in this process.
        assert_eq!(unsafe { libc::dup2(again, 0) }, 0);
        let nothing = std::ptr::null_mut();
        assert_eq!(code!(cuMemImportFromShareableHandle(&mut imported, nothing, FD)), 1);
        // Only what was made to be shared is.
        let lonely = physical(0, PAGE, false);
        let code = code!(cuMemExportToShareableHandle((&raw mut file).cast(), lonely, FD, 0));
        assert_eq!(code, INVALID_VALUE);
        // Another file is no memory of a device.
        let other = std::fs::File::open("/proc/self/exe").expect("this program");
        use std::os::fd::AsRawFd;
        let os_handle = std::ptr::without_provenance_mut(other.as_raw_fd() as usize);
        assert_eq!(code!(cuMemImportFromShareableHandle(&mut imported, os_handle, FD)), 1);
        // Nor is one of the right size.
        // SAFETY: the name ends with a zero.
        let plain = unsafe { libc::memfd_create(c"plain".as_ptr(), 0) };
        // SAFETY: the descriptor was just made.
        assert_eq!(unsafe { libc::ftruncate(plain, PAGE as i64 + 4096) }, 0);
        let os_handle = std::ptr::without_provenance_mut(plain as usize);
        assert_eq!(code!(cuMemImportFromShareableHandle(&mut imported, os_handle, FD)), 1);
    }
);

test!(
    /// An address leads back to the handle.
    handles_are_retained, [], {
        primary(0);
        let (at, handle) = (reserve(PAGE), physical(0, PAGE, true));
        ok!(cuMemMap(at, PAGE, 0, handle, 0));
        let mut again = 0;
        let inside = std::ptr::without_provenance_mut(at as usize + 77);
        ok!(cuMemRetainAllocationHandle(&mut again, inside));
        assert_eq!(again, handle);
        ok!(cuMemRelease(handle));
        ok!(cuMemRelease(handle));
        assert_eq!(code!(cuMemRelease(handle)), INVALID_VALUE);
        ok!(cuMemRetainAllocationHandle(&mut again, inside));
        ok!(cuMemRelease(again));
        let nothing = std::ptr::without_provenance_mut(allocate(64) as usize);
        assert_eq!(code!(cuMemRetainAllocationHandle(&mut again, nothing)), INVALID_VALUE);
    }
);
