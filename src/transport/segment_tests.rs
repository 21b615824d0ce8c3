//! Tests of segments.

use super::*;
use crate::base::sync::Ordering;
use std::os::fd::AsRawFd;

impl Segment {
    /// Where another process would find it.
    fn pool_place(&self) -> PoolPlace {
        let (pool, region) = self.region().expect("a pool");
        pool.place(region)
    }
}

#[test]
fn user_offset_covers_the_lines() {
    assert_eq!(Segment::user_offset(1), 4096);
    assert_eq!(Segment::user_offset(64), 4096);
    assert_eq!(Segment::user_offset(65), 8192);
}

#[test]
fn two_mappings_see_each_other_and_the_size_is_sealed() {
    let length = 3 * 4096 + 100;
    let (first, fd) = Segment::create((length, length), 4096, 1).unwrap();
    let place = first.pool_place();
    let second = Segment::open(Arc::clone(&fd), &place, (length, length)).unwrap();
    assert_ne!(first.as_ptr(), second.as_ptr());
    assert!(first.between_processes());
    assert_eq!(second.word(8192).load(Ordering::Acquire), 0);
    first.word(8192).store(42, Ordering::Release);
    assert_eq!(second.word(8192).load(Ordering::Acquire), 42);
    for size in [0, 4096, length as libc::off_t - 1] {
        // SAFETY: a refused change of a file's size.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }, -1);
    }
    assert!(Segment::open(fd, &place, (length + 1, length + 1)).is_err());
    first.word(0).store(7, Ordering::Release);
    assert_eq!(second.word(0).load(Ordering::Acquire), 7);
}

#[test]
fn unsealed_memory_is_refused() {
    let fd = room::memory_file(c"kolo").unwrap();
    // SAFETY: `fd` is open.
    assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 4096) }, 0);
    let place = PoolPlace {
        name: PoolName::draw().unwrap(),
        span: 4096,
        region: 0,
        tag: 1,
    };
    let error = Segment::open(Arc::new(fd), &place, (4096, 4096)).unwrap_err();
    assert!(error.what.contains("sealed"), "{error}");
}

#[test]
fn memory_is_sparse() {
    let (segment, fd) = Segment::create((1 << 30, 1 << 30), 4096, 1).unwrap();
    segment.word(1 << 29).store(1, Ordering::Relaxed);
    // SAFETY: all-zero bytes are a valid `stat`, and the call fills it.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(fd.as_raw_fd(), &raw mut stat), 0);
        stat
    };
    // Blocks of 512 bytes; a huge page may stand behind the touched word.
    assert!(stat.st_blocks * 512 <= 8 << 20, "{}", stat.st_blocks);
}

#[test]
fn parts_are_mapped_when_they_are_used_and_the_file_grows() {
    let span = 1 << 40;
    let (first, file) = Segment::create((4096, span), 0, 1).unwrap();
    let place = first.pool_place();
    let second = Segment::open(Arc::clone(&file), &place, (4096, span)).unwrap();
    let control = pool::CONTROL_BYTES as u64;
    let bytes = || room::size(&file).unwrap() - control;
    assert_eq!((first.mapped(), bytes()), ((0, 4096), 4096));
    let place = (1 << 39, 1 << 20);
    let here = first.part(place, 4096, None, "a test").unwrap();
    assert_eq!(first.part(place, 4096, None, "a test").unwrap(), here);
    let there = second.part(place, 4096, None, "a test").unwrap();
    // SAFETY: both mappings are live and hold the byte; nobody else has them.
    unsafe {
        *here.add(500_000) = 42;
        assert_eq!(*there.add(500_000), 42);
    }
    assert_eq!(first.mapped(), (1, 4096 + (1 << 20)));
    assert_eq!(bytes(), (1 << 39) + (1 << 20));
    let error = first.part((span, 4096), 0, None, "a test").unwrap_err();
    assert!(error.what.contains("of shared memory of"), "{error}");
    let threads = Segment::in_process(4096, span).unwrap();
    let one = threads.part(place, 4096, None, "a test").unwrap();
    assert_eq!(threads.part(place, 4096, None, "a test").unwrap(), one);
    assert_eq!(
        threads.part((0, 4096), 0, None, "the head").unwrap(),
        threads.as_ptr()
    );
}

#[test]
fn impossible_lengths_are_sentences() {
    assert!(Segment::anonymous(0).is_err());
    assert!(Segment::create((usize::MAX, usize::MAX), 0, 1).is_err());
    let error = Segment::anonymous(1 << 60).unwrap_err();
    assert!(
        error.what.contains("bytes") && error.remedy.contains("memory"),
        "{error}"
    );
}

#[test]
fn every_refusal_has_a_remedy_of_its_own() {
    let texts: Vec<String> = [libc::EMFILE, libc::ENOMEM, libc::ENOSPC, libc::EPERM]
        .iter()
        .map(|&number| {
            let source = std::io::Error::from_raw_os_error(number);
            create_error("memory", 1, &source).remedy.to_string()
        })
        .collect();
    assert!(texts[0].contains("ulimit -n") && texts[1].contains("ulimit -v"));
    assert!(texts[2].contains("--shm-size") && texts[3].contains("seccomp"));
}

#[test]
fn keys_differ_by_node() {
    assert_ne!(Key::new(Nonce(1), Rank(0)), Key::new(Nonce(1), Rank(1)));
    assert_eq!(format!("{:?}", Nonce(1)), "Nonce(..)");
}
