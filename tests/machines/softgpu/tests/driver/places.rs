//! Places and links of devices from a file: what the driver says of them, and who reaches whom.

use super::alone::{code, ok, test};
use super::world::*;
use cudarc::driver::sys::{
    CUdevice_P2PAttribute as Peer, CUdevice_attribute_enum as Attribute, CUmemAccess_flags,
    CUmemAccessDesc,
};
use std::ptr::null_mut;

/// Two sockets with four GPUs each; each GPU has links to four others, one of them in the other
/// socket.
const FILE: (&str, &str) = (
    "KOLO_SOFTGPU_TOPOLOGY",
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../topologies/dgx1_v100.xml"
    ),
);
const EIGHT: (&str, &str) = ("KOLO_SOFTGPU_DEVICES", "8");

/// The bus of each GPU in the file, and the NUMA node.
const PLACES: [(i32, i32); 8] = [
    (0x06, 0),
    (0x07, 0),
    (0x0a, 0),
    (0x0b, 0),
    (0x85, 1),
    (0x86, 1),
    (0x89, 1),
    (0x8a, 1),
];

/// The partner of each GPU in the other socket.
fn is_linked(one: i32, other: i32) -> bool {
    one / 4 == other / 4 || one % 4 == other % 4
}

fn attribute(attribute: Attribute, device: i32) -> i32 {
    let mut value = -7;
    ok!(cuDeviceGetAttribute(&mut value, attribute, device));
    value
}

fn peer(attribute: Peer, one: i32, other: i32) -> i32 {
    let mut value = -7;
    ok!(cuDeviceGetP2PAttribute(&mut value, attribute, one, other));
    value
}

fn can_reach(one: i32, other: i32) -> bool {
    let mut can = -7;
    ok!(cuDeviceCanAccessPeer(&mut can, one, other));
    can == 1
}

test!(
    /// Addresses and NUMA nodes are the file's.
    devices_are_where_the_file_says, [FILE, EIGHT], {
        ok!(cuInit(0));
        for (device, (bus, numa)) in (0..).zip(PLACES) {
            assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device), bus);
            assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device), 0);
            assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device), 0);
            assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device), numa);
            let (mut found, mut text) = (-1, [7; 32]);
            ok!(cuDeviceGetPCIBusId(text.as_mut_ptr(), 32, device));
            ok!(cuDeviceGetByPCIBusId(&mut found, text.as_ptr()));
            assert_eq!(found, device);
        }
    }
);

test!(
    /// Links decide who is near, and sockets who is out of reach.
    links_decide_who_reaches_whom, [FILE, EIGHT], {
        ok!(cuInit(0));
        for one in 0..8 {
            for other in (0..8).filter(|other| *other != one) {
                let linked = is_linked(one, other);
                let is = |which, value: bool| {
                    assert_eq!(peer(which, one, other), i32::from(value), "{one} {other}");
                };
                assert_eq!(can_reach(one, other), linked, "{one} {other}");
                is(Peer::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, linked);
                is(Peer::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, !linked);
                is(Peer::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, linked);
            }
        }
        let contexts = [0, 5, 4].map(primary);
        ok!(cuCtxSetCurrent(contexts[0]));
        assert_eq!(code!(cuCtxEnablePeerAccess(contexts[1], 0)), 217);
        ok!(cuCtxEnablePeerAccess(contexts[2], 0));
        let handle = physical(5, PAGE, false);
        let at = reserve(PAGE);
        ok!(cuMemMap(at, PAGE, 0, handle, 0));
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        assert_eq!(set_access(at, PAGE, 0, flags), INVALID_DEVICE, "no link, another socket");
        assert_eq!(set_access(at, PAGE, 1, flags), 0, "a link");
        let mut pool = null_mut();
        ok!(cuDeviceGetDefaultMemPool(&mut pool, 5));
        let access = |device| CUmemAccessDesc { location: location(device), flags };
        assert_eq!(code!(cuMemPoolSetAccess(pool, &access(0), 1)), INVALID_DEVICE);
        ok!(cuMemPoolSetAccess(pool, &access(1), 1));
    }
);

test!(
    /// Devices of one socket without a link reach each other by the bus, from farther away.
    a_bus_is_no_link, [
        (FILE.0, concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/pcie_4gpu.xml")),
        ("KOLO_SOFTGPU_DEVICES", "4"),
    ], {
        ok!(cuInit(0));
        let numa = |device| attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
        let mut near = 0;
        for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            let together = numa(one) == numa(other);
            near += i32::from(together);
            assert_eq!(can_reach(one, other), together, "{one} {other}");
            assert_eq!(peer(Peer::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, one, other), 1);
            assert_eq!(peer(Peer::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, one, other), 0);
        }
        assert!((1..6).contains(&near), "{near}");
    }
);

test!(
    /// `CUDA_VISIBLE_DEVICES` chooses of the file's devices, and peers can be off beside it.
    the_file_counts_devices_of_the_machine, [
        FILE, EIGHT, ("CUDA_VISIBLE_DEVICES", "7,3"), ("KOLO_SOFTGPU_PEERS", "0"),
    ], {
        ok!(cuInit(0));
        assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0), PLACES[7].0);
        assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1), PLACES[3].0);
        assert!(!can_reach(0, 1) && is_linked(7, 3));
        assert_eq!(peer(Peer::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1), 0);
        let mut context = null_mut();
        ok!(cuDevicePrimaryCtxRetain(&mut context, 1));
    }
);

test!(
    /// A file with too few devices is named.
    too_few_in_the_file, [
        (FILE.0, concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/pcie_4gpu.xml")),
        ("KOLO_SOFTGPU_DEVICES", "5"),
    ], says "pcie_4gpu.xml: it has 4 GPUs for 5 devices", {
        assert_eq!(code!(cuInit(0)), INVALID_VALUE);
    }
);

test!(
    /// One that is not there is named.
    a_file_that_is_not_there, [(FILE.0, "/nonexistent/box.xml")],
    says "KOLO_SOFTGPU_TOPOLOGY=/nonexistent/box.xml: No such file", {
        assert_eq!(code!(cuInit(0)), INVALID_VALUE);
    }
);
