//! Copies and fills between memory of all kinds.

use super::alone::{code, ok, test};
use super::world::*;
use std::ptr::null_mut;

/// More than one part of a copy, and no multiple of 8.
const BYTES: usize = (600 << 10) + 5;

test!(
    /// Every kind of memory to every other one, at odd offsets.
    between_all_kinds, [("KOLO_SOFTGPU_DEVICES", "2")], {
        primary(1);
        let far = allocate(BYTES + 64);
        primary(0);
        let mut pinned = null_mut();
        ok!(cuMemHostAlloc(&mut pinned, BYTES + 64, 0));
        let mut managed = 0;
        ok!(cuMemAllocManaged(&mut managed, BYTES + 64, 1));
        let mut plain = vec![0u8; BYTES + 64];
        let mut registered = vec![0u8; BYTES + 64];
        ok!(cuMemHostRegister_v2(registered.as_mut_ptr().cast(), BYTES + 64, 0));
        let places = [
            allocate(BYTES + 64),
            mapped(0, PAGE, &[0]),
            far,
            pinned.expose_provenance() as u64,
            managed,
            plain.as_mut_ptr().expose_provenance() as u64,
            registered.as_mut_ptr().expose_provenance() as u64,
        ];
        let stream = stream(1);
        for (f, from) in places.into_iter().enumerate() {
            for (t, to) in places.into_iter().enumerate().filter(|(t, _)| *t != f) {
                let (from, to) = (from + 3, to + 16 + t as u64);
                let salt = (f * 10 + t) as u64;
                let wanted = pattern(salt, BYTES);
                ok!(cuMemcpy(from, wanted.as_ptr().expose_provenance() as u64, BYTES));
                if salt.is_multiple_of(2) {
                    ok!(cuMemcpy(to, from, BYTES));
                } else {
                    ok!(cuMemcpyAsync(to, from, BYTES, stream));
                    ok!(cuStreamSynchronize(stream));
                }
                let mut got = vec![0xee; BYTES];
                ok!(cuMemcpy(got.as_mut_ptr().expose_provenance() as u64, to, BYTES));
                assert!(got == wanted, "kind {f} to kind {t}");
            }
        }
        drop(plain);
    }
);

test!(
    /// Memory that can be paged is read at the call: the caller may change it at once.
    pageable_sources_are_read_at_the_call, [], {
        primary(0);
        let at = allocate(64);
        let stream = stream(1);
        let mut source = [7u8; 64];
        // The stream is held up by a copy of much.
        let much = allocate(64 << 20);
        ok!(cuMemsetD8Async(much, 1, 64 << 20, stream));
        ok!(cuMemcpyHtoDAsync_v2(at, source.as_ptr().cast(), 64, stream));
        source.fill(8);
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read(at, 64), [7; 64]);
        // And written before the call returns.
        let mut target = [0u8; 64];
        ok!(cuMemsetD8Async(much, 2, 64 << 20, stream));
        ok!(cuMemcpyDtoHAsync_v2(target.as_mut_ptr().cast(), at, 64, stream));
        assert_eq!(target, [7; 64]);
    }
);

test!(
    /// Fills of each width write their count, and no more.
    fills, [], {
        primary(0);
        let at = holding(&[0x11; 64]);
        ok!(cuMemsetD8_v2(at + 1, 0x22, 3));
        ok!(cuMemsetD16_v2(at + 6, 0x3344, 2));
        ok!(cuMemsetD32_v2(at + 12, 0x5566_7788, 2));
        let mut wanted = [0x11; 64];
        wanted[1..4].fill(0x22);
        wanted[6..10].copy_from_slice(&[0x44, 0x33, 0x44, 0x33]);
        wanted[12..20].copy_from_slice(&[0x88, 0x77, 0x66, 0x55, 0x88, 0x77, 0x66, 0x55]);
        assert_eq!(read(at, 64), wanted);
        assert_eq!(code!(cuMemsetD32_v2(at + 2, 0, 1)), INVALID_VALUE, "misaligned");
        assert_eq!(code!(cuMemsetD8_v2(at + 60, 0, 5)), INVALID_VALUE, "beyond the end");
    }
);

test!(
    /// A copy beyond an allocation, from freed memory or from mere addresses is refused.
    what_is_not_there_is_refused, [], {
        primary(0);
        let at = holding(&[1; 100]);
        let mut to = [0u8; 200];
        let to = to.as_mut_ptr();
        assert_eq!(code!(cuMemcpyDtoH_v2(to.cast(), at, 101)), INVALID_VALUE);
        assert_eq!(code!(cuMemcpyDtoD_v2(at, to.expose_provenance() as u64, 8)), INVALID_VALUE);
        assert_eq!(code!(cuMemcpyHtoD_v2(0, to.cast(), 8)), INVALID_VALUE);
        ok!(cuMemcpyDtoH_v2(to.cast(), at, 0));
        ok!(cuMemFree_v2(at));
        assert_eq!(code!(cuMemcpyDtoH_v2(to.cast(), at, 8)), INVALID_VALUE);
        assert_eq!(code!(cuMemFree_v2(at)), INVALID_VALUE);
        let reserved = reserve(PAGE);
        assert_eq!(code!(cuMemcpyDtoH_v2(to.cast(), reserved, 8)), INVALID_VALUE);
    }
);

test!(
    /// Memory that goes away under a copy that was submitted is an error that sticks.
    memory_that_goes_away_under_a_copy, [], says "a fill uses 0x", {
        primary(0);
        let stream = stream(1);
        let at = mapped(0, PAGE, &[0]);
        let much = allocate(64 << 20);
        ok!(cuMemsetD8Async(much, 1, 64 << 20, stream));
        ok!(cuMemsetD8Async(at, 1, 64, stream));
        ok!(cuMemUnmap(at, PAGE));
        assert_eq!(code!(cuStreamSynchronize(stream)), ILLEGAL_ADDRESS);
        assert_eq!(code!(cuCtxSynchronize()), ILLEGAL_ADDRESS);
    }
);
