//! Tests of faults on request.

use super::alone::{code, ok, test};
use super::world::*;
use std::ptr::null_mut;

test!(
    /// The third allocation of either form, and no other.
    no_memory, [("KOLO_SOFTGPU_FAULT", "memory:3")], {
        primary(0);
        allocate(64);
        physical(0, PAGE, false);
        let mut at = 0;
        assert_eq!(code!(cuMemAlloc_v2(&mut at, 64)), OUT_OF_MEMORY);
        allocate(64);
        physical(0, PAGE, false);
    }
);

test!(
    /// The second launch fails on the device, and everything after it.
    a_launch_fails, [("KOLO_SOFTGPU_FAULT", "launch:2")],
    says "a launch fails because KOLO_SOFTGPU_FAULT asks for it", {
        primary(0);
        let (call, part) = super::ring::alone();
        assert_eq!(part.launch_on(null_mut()), 0);
        ok!(cuCtxSynchronize());
        super::ring::judge(&call, 0, &part);
        assert_eq!(part.launch_on(null_mut()), 0);
        assert_eq!(code!(cuCtxSynchronize()), 719);
        assert_eq!(part.launch_on(null_mut()), 719);
    }
);

test!(
    /// From a call on, all devices are gone.
    devices_are_lost, [("KOLO_SOFTGPU_FAULT", "lost:4")], says "all devices are lost", {
        // Two calls need devices here, which count; the version does not.
        primary(0);
        let (mut version, mut count, mut at) = (0, 0, 0);
        ok!(cuDriverGetVersion(&mut version));
        ok!(cuMemAlloc_v2(&mut at, 64));
        ok!(cuDeviceGetCount(&mut count));
        assert_eq!(code!(cuMemAlloc_v2(&mut at, 64)), 719);
        assert_eq!(code!(cuDeviceGetCount(&mut count)), 100);
        assert_eq!(code!(cuCtxSynchronize()), 719);
    }
);

test!(
    /// A fault that there is not is named.
    an_unknown_fault, [("KOLO_SOFTGPU_FAULT", "fire:1")], says "has `fire:1`", {
        assert_eq!(code!(cuInit(0)), INVALID_VALUE);
    }
);
