//! The state machines beside the hand-over of data, under every interleaving and weak ordering that
//! loom knows: boards, the abort record, readers of other ranks' buffers, who owns a communicator,
//! how a call ended, and where a token is wanted.

use kolo_loom::base::Error;
use kolo_loom::base::sync::{AtomicU32, AtomicU64, Ordering, Shared};
use kolo_loom::completion::Completion;
use kolo_loom::lock::OwnerLock;
use kolo_loom::wanted::Wanted;
use kolo_loom::wire::abort::{Abort, AbortRecord};
use kolo_loom::wire::board::{BOARD_WORDS, Board};
use kolo_loom::wire::reading::{Reading, owner_stops};
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Runs `body` on another thread, with a share of `state`.
fn beside<T: Send + Sync + 'static>(
    state: &Arc<T>,
    body: impl FnOnce(&T) + Send + 'static,
) -> JoinHandle<()> {
    let state = Arc::clone(state);
    thread::spawn(move || body(&state))
}

/// Signature of call number `call`.
fn signature(call: u64) -> u64 {
    100 + call
}

/// Calls that a board of a model remembers.
const HISTORY: u64 = BOARD_WORDS as u64 - 4;

/// Words of a board after `calls` calls, as they are told to other nodes.
fn told(calls: u64) -> [u64; BOARD_WORDS] {
    let mut words = [0; BOARD_WORDS];
    words[0] = calls;
    for call in (calls + 1).saturating_sub(HISTORY).max(1)..=calls {
        words[2 + (call % HISTORY) as usize] = signature(call);
    }
    words
}

fn agrees(board: &Board, calls: std::ops::RangeInclusive<u64>) {
    for call in calls {
        let seen = board.signature(call);
        assert!(
            seen.is_none_or(|seen| seen == signature(call)),
            "{call}: {seen:?}"
        );
    }
}

#[test]
fn a_board_shows_no_signature_of_another_call() {
    model(|| {
        let board = Arc::new(Board::new());
        let writer = beside(&board, |board| {
            (1..=3).for_each(|call| board.begin(call, signature(call)));
        });
        agrees(&board, 1..=2);
        writer.join().unwrap();
        assert_eq!(board.signature(3), Some(signature(3)));
    });
}

#[test]
fn a_board_is_told_whole() {
    model(|| {
        let board = Arc::new(Board::new());
        let writer = beside(&board, |board| {
            (1..=3).for_each(|call| board.begin(call, signature(call)));
        });
        let words = board.copy();
        assert_eq!(words, told(words[0]));
        writer.join().unwrap();
        assert_eq!(board.copy(), told(3));
    });
}

#[test]
fn what_is_told_of_a_board_arrives_whole() {
    // From 2 calls to 5: every word changes at once.
    model(|| {
        let board = Arc::new(Board::new());
        let writer = beside(&board, |board| {
            [2, 5].map(told).iter().for_each(|t| board.put(t))
        });
        agrees(&board, 1..=2);
        agrees(&board, 4..=5);
        writer.join().unwrap();
        assert_eq!(board.signature(5), Some(signature(5)));
    });
}

fn abort(rank: u32) -> Abort {
    Abort {
        code: 10 + rank,
        rank,
        peer: Some(20 + rank),
        text: format!("rank{rank:4}"),
    }
}

#[test]
fn an_abort_is_read_whole_and_stays() {
    model(|| {
        let record = Arc::new(AbortRecord::new());
        let writer = beside(&record, |record| {
            record.claim().publish(&abort(1));
            assert!(record.is_set(), "whoever sets it finds it set");
        });
        record.claim().publish(&abort(2));
        let seen = record.get();
        assert!(seen.as_ref().is_some_and(|seen| *seen == abort(seen.rank)));
        writer.join().unwrap();
        let last = record.get().expect("somebody was first");
        assert!(seen.is_none_or(|seen| seen == last), "the first one stays");
        assert_eq!(last, abort(last.rank));
    });
}

#[test]
fn a_writer_that_is_killed_keeps_no_abort_from_the_others() {
    model(|| {
        let record = Arc::new(AbortRecord::new());
        // It has a place, and is gone.
        let killed = beside(&record, |record| {
            let _ = record.claim();
        });
        record.set(&abort(2));
        assert_eq!(record.get(), Some(abort(2)));
        killed.join().unwrap();
        assert_eq!(record.get(), Some(abort(2)));
    });
}

#[test]
fn an_abort_without_words_gives_way_to_one_with_words() {
    model(|| {
        let record = Arc::new(AbortRecord::new());
        let bare = beside(&record, |record| {
            // The killed one's place and the late one's are all that a model has.
            let _ = record.claim();
            record.set(&abort(2));
            assert!(record.is_set());
        });
        let late = record.claim();
        late.publish(&abort(1));
        let seen = record.get().expect("it was set here");
        assert!(seen.peer.is_none() || seen == abort(seen.rank), "{seen:?}");
        bare.join().unwrap();
        let last = record.get().expect("it stays");
        assert!(last.peer.is_none() || last == abort(last.rank), "{last:?}");
    });
}

/// A rank that reads the buffer of another one.
struct Direct<B> {
    mark: Reading,
    abort: AbortRecord,
    buffer: B,
}

impl<B> Direct<B> {
    fn new(buffer: B) -> Arc<Direct<B>> {
        Arc::new(Direct {
            mark: Reading::new(),
            abort: AbortRecord::new(),
            buffer,
        })
    }
}

#[test]
fn no_thread_reads_what_its_owner_has_freed() {
    model(|| {
        let direct = Direct::new(Shared::new(1_u32));
        let reader = beside(&direct, |direct| {
            if let Ok(reader) = direct.mark.begin(&direct.abort) {
                // SAFETY: the mark is set; loom checks that the owner does not write.
                assert_eq!(direct.buffer.read(|value| unsafe { *value }), 1);
                let _ = reader.end();
            }
        });
        direct.abort.set(&abort(1));
        owner_stops();
        while !direct.mark.is_over() {
            thread::yield_now();
        }
        // SAFETY: nobody reads any more; loom checks it.
        direct.buffer.write(|value| unsafe { *value = 2 });
        reader.join().unwrap();
    });
}

#[test]
fn what_a_late_process_reads_does_not_count() {
    model(|| {
        let direct = Direct::new(AtomicU32::new(1));
        let reader = beside(&direct, |direct| {
            if let Ok(reader) = direct.mark.begin(&direct.abort) {
                let read = direct.buffer.load(Ordering::Relaxed);
                if reader.end().is_ok() {
                    assert_eq!(read, 1, "the owner has not stopped");
                }
            }
        });
        direct.abort.set(&abort(1));
        owner_stops();
        // The owner does not wait.
        direct.buffer.store(2, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn a_user_waits_for_a_driver_and_no_driver_for_a_user() {
    model(|| {
        let lock = Arc::new(OwnerLock::new(0));
        let driver = beside(&lock, |lock| {
            for _ in 0..2 {
                if let Some(mut value) = lock.driver() {
                    *value += 1;
                }
            }
        });
        *lock.user().expect("no other user") += 1;
        driver.join().unwrap();
        assert!((1..=3).contains(&*lock.user().unwrap()));
    });
}

#[test]
fn drivers_wait_for_each_other() {
    model(|| {
        let lock = Arc::new(OwnerLock::new(0));
        let other = beside(&lock, |lock| {
            *lock.driver_or_wait().expect("no user") += 1;
        });
        *lock.driver_or_wait().expect("no user") += 1;
        other.join().unwrap();
        assert_eq!(*lock.user().unwrap(), 2);
    });
}

#[test]
fn two_users_never_share_a_communicator() {
    model(|| {
        let lock = Arc::new(OwnerLock::new(0));
        let other = beside(&lock, |lock| {
            if let Ok(mut value) = lock.user() {
                *value += 1;
            }
        });
        let mine = lock.user().map(|mut value| *value += 1);
        other.join().unwrap();
        let sum = *lock.user().expect("nobody is inside");
        assert!(sum == 2 || sum == 1, "{mine:?}");
    });
}

#[test]
fn a_call_ends_once_and_with_its_reason() {
    model(|| {
        let completion = Arc::new(Completion::default());
        let broken = || Error::usage("it broke", "mend it");
        let fails = beside(&completion, move |c| c.finish(Err(broken())));
        let ends = beside(&completion, |c| c.finish(Ok(())));
        let seen = completion.result();
        fails.join().unwrap();
        ends.join().unwrap();
        let last = completion.result().expect("it has ended");
        assert!(last == Ok(()) || last == Err(broken()));
        assert!(seen.is_none_or(|seen| seen == last), "an end never changes");
    });
}

#[test]
fn a_wish_is_found_whole_or_not_at_all() {
    struct Connection {
        wanted: Wanted,
        published: AtomicU64,
    }
    let place = |position: u64| (position as usize * 64) as *mut u8;
    model(move || {
        let connection = Arc::new(Connection {
            wanted: Wanted::new(),
            published: AtomicU64::new(0),
        });
        let engine = beside(&connection, move |connection| {
            for position in 0..2 {
                let wish = connection.wanted.at(position);
                let right = (place(position + 1), position as usize + 1);
                assert!(
                    wish.is_none_or(|wish| wish == right),
                    "{position}: {wish:?}"
                );
                connection.published.store(position + 1, Ordering::Release);
            }
        });
        for position in 0..2 {
            let wish = (place(position + 1), position as usize + 1);
            connection.wanted.want(position, wish);
            while connection.published.load(Ordering::Acquire) <= position {
                thread::yield_now();
            }
        }
        engine.join().unwrap();
    });
}
