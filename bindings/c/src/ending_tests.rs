//! Calls of a thread whose own memory is gone: in a destructor of a thread's key, as in `atexit`
//! and in the end of a static object of C++, all values that Rust keeps for a thread are destroyed.

#[path = "../../../tests/drawn/mod.rs"]
mod drawn;

use crate::collective::{koloAllReduce, koloBroadcast, koloIAllReduce};
use crate::comm::{koloCommDestroy, koloCommInitAll, koloCommUserRank};
use crate::error::koloGetLastError;
use crate::group::{koloGroupEnd, koloGroupStart};
use crate::message::{koloRecv, koloSend};
use crate::request::koloWait;
use crate::stream::{koloStreamCreate, koloStreamDestroy, koloStreamSynchronize};
use crate::types::{koloComm_t, koloDataType_t, koloRedOp_t, koloResult_t};
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Uses a communicator in one way, as a rank.
type Use = fn(koloComm_t, i32);

/// Uses of a communicator of two ranks, each by both at once.
const USES: [(&str, Use); 6] = [
    ("a group", group),
    ("an open group that runs nothing", empty_group),
    ("a call", blocking),
    ("a stream", stream),
    ("a request", request),
    ("a failure", failure),
];

fn ok(result: koloResult_t) {
    let sentence = || {
        // SAFETY: never null, and valid until this thread asks again.
        let text = unsafe { CStr::from_ptr(koloGetLastError(null_mut())) };
        text.to_string_lossy().into_owned()
    };
    assert_eq!(result as i32, 0, "{}", sentence());
}

/// Inputs of the ranks, and the sum that must come of them.
fn summed(call: impl FnOnce(*const c_void, *mut c_void)) {
    let (mine, mut sum) = (5_i32, 0_i32);
    call((&raw const mine).cast(), (&raw mut sum).cast());
    assert_eq!(sum, 10);
}

const INT: i32 = koloDataType_t::koloInt32 as i32;
const SUM: i32 = koloRedOp_t::koloSum as i32;

fn group(comm: koloComm_t, rank: i32) {
    let (mine, mut theirs) = (rank, -1_i32);
    ok(koloGroupStart());
    // SAFETY: the buffers live until the end of the group.
    unsafe {
        ok(koloSend(
            (&raw const mine).cast(),
            1,
            INT,
            1 - rank,
            comm,
            null_mut(),
        ));
        ok(koloRecv(
            (&raw mut theirs).cast(),
            1,
            INT,
            1 - rank,
            comm,
            null_mut(),
        ));
    }
    ok(koloGroupEnd());
    assert_eq!(theirs, 1 - rank);
}

fn empty_group(_: koloComm_t, _: i32) {
    ok(koloGroupStart());
    ok(koloGroupEnd());
}

fn blocking(comm: koloComm_t, _: i32) {
    // SAFETY: both are one element.
    summed(|mine, sum| unsafe { ok(koloAllReduce(mine, sum, 1, INT, SUM, comm, null_mut())) });
}

fn stream(comm: koloComm_t, _: i32) {
    let mut stream = null_mut();
    // SAFETY: a place for a handle; the buffers live until the stream is idle.
    summed(|mine, sum| unsafe {
        ok(koloStreamCreate(&raw mut stream));
        ok(koloAllReduce(mine, sum, 1, INT, SUM, comm, stream));
        ok(koloStreamSynchronize(stream));
        ok(koloStreamDestroy(stream));
    });
}

fn request(comm: koloComm_t, _: i32) {
    let mut request = null_mut();
    // SAFETY: a place for a request; the buffers live until it has ended.
    summed(|mine, sum| unsafe {
        ok(koloIAllReduce(
            mine,
            sum,
            1,
            INT,
            SUM,
            comm,
            &raw mut request,
        ));
        ok(koloWait(&raw mut request));
    });
}

fn failure(comm: koloComm_t, _: i32) {
    // SAFETY: refused before anything is touched.
    let code = unsafe { koloBroadcast(null(), null_mut(), 1, INT, 9, comm, null_mut()) };
    assert_eq!(code as i32, koloResult_t::koloInvalidArgument as i32);
    for whose in [null_mut(), comm] {
        // SAFETY: never null, and valid until this thread asks again.
        let text = unsafe { CStr::from_ptr(koloGetLastError(whose)) };
        let text = text.to_str().expect("kolo's words are UTF-8");
        assert!(text.contains("root"), "{text}");
    }
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_BEHIND: Cell<bool> = const { Cell::new(false) };
}

/// Work of a thread behind its own end, and who hears how that went.
struct Last {
    comm: usize,
    uses: Vec<usize>,
    tell: Sender<Result<(), String>>,
}

/// Of a key of the thread: runs when all values that Rust keeps for it are gone.
unsafe extern "C" fn at_end(last: *mut c_void) {
    // SAFETY: the box that was put there.
    let last = unsafe { Box::from_raw(last.cast::<Last>()) };
    IS_BEHIND.set(true);
    let outcome = std::panic::catch_unwind(|| {
        let comm = last.comm as koloComm_t;
        let mut rank = -1;
        // SAFETY: a place for a number.
        ok(unsafe { koloCommUserRank(comm, &raw mut rank) });
        last.uses.iter().for_each(|&at| USES[at].1(comm, rank));
        // SAFETY: a live handle, used by no other thread.
        ok(unsafe { koloCommDestroy(comm) });
    });
    let why = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast::<String>().map(|text| *text);
        text.unwrap_or_else(|_| "a panic".into())
    };
    let _ = last.tell.send(outcome.map_err(why));
}

/// Counts panics of threads behind their end, caught ones too: each would be lines on stderr.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IS_BEHIND.get() {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            others(info);
        }));
    });
}

/// Two ranks do `before` in their threads, and `behind` where these have ended.
fn run(before: &[usize], behind: &[usize]) -> Vec<Result<(), String>> {
    let mut comms = [null_mut(); 2];
    // SAFETY: places for two handles, no list of devices.
    ok(unsafe { koloCommInitAll(comms.as_mut_ptr(), 2, null()) });
    let (tell, heard) = channel();
    for (rank, comm) in (0..).zip(comms.map(|comm| comm as usize)) {
        let (before, uses, tell) = (before.to_vec(), behind.to_vec(), tell.clone());
        std::thread::spawn(move || {
            before
                .iter()
                .for_each(|&at| USES[at].1(comm as koloComm_t, rank));
            let mut key = 0;
            let last = Box::new(Last { comm, uses, tell });
            // SAFETY: a key of its own for each thread, whose destructor takes the box.
            unsafe {
                assert_eq!(libc::pthread_key_create(&raw mut key, Some(at_end)), 0);
                libc::pthread_setspecific(key, Box::into_raw(last).cast());
            }
        });
    }
    drop(tell);
    heard.iter().collect()
}

#[test]
fn whatever_a_thread_has_done_calls_behind_its_end_work() {
    count_panics();
    let all = || 0..USES.len();
    let group = |one: usize| {
        let rest = all().flat_map(|a| all().flat_map(move |b| all().map(move |c| [a, b, c])));
        rest.map(|[a, b, c]| ([one, a], [b, c])).collect::<Vec<_>>()
    };
    let cases = drawn::of_each("calls behind the end of a thread", all().map(group), 6);
    for (before, behind) in cases {
        let names = |uses: [usize; 2]| uses.map(|at| USES[at].0);
        let outcomes = run(&before, &behind);
        assert_eq!(
            outcomes,
            [Ok(()), Ok(())],
            "{:?}, and behind the end {:?}",
            names(before),
            names(behind)
        );
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}
