//! Step by step over sockets: which phases follow which, how new operations are taken over, what a
//! profiler hears and what people see.

use super::*;
use crate::proxy::net::links::QUEUE;
use crate::proxy::net::profile::{Profiler, Span, Step};
use std::collections::HashMap;
use std::sync::Mutex;

/// Reads one token, checks it as [`read`] does, and gives its slots back.
fn take_one(reader: &mut PairReceiver, slice: u32, token: u64) {
    assert!(reader.ready(0), "token {token} is there");
    let arrival = reader.arrival(0);
    assert_eq!(arrival.signature, token ^ 0xabcd);
    let place = reader.place(bytes(token), 0);
    // SAFETY: the token is there, with so many bytes.
    let found = unsafe { std::slice::from_raw_parts(place, bytes(token)) };
    let mut at = 0..;
    assert!(
        found
            .iter()
            .all(|&b| b == content(token, at.next().unwrap()))
    );
    reader.release(slice);
}

/// Phases recorded since the last time, without the taking over.
fn steps_of(links: &Links) -> Vec<(Phase, u64)> {
    let events = live::recorded(links).into_iter();
    events.map(|event| (event.phase, event.count)).collect()
}

/// 64 slots, two a token. First eight slots pass, and eight more wait for them; from then on each
/// token that the reader takes moves exactly one token through every phase: 2 done and 2 posted,
/// then 2 received and published there; 2 transmitted, 2 done, 2 posted here.
#[test]
fn two_are_done_and_two_are_posted_in_every_step() {
    use Phase::{Appended, Done, Flushed, Posted, Received, Transmitted};
    const SLOTS: u64 = 64;
    let (first, second, mut writer, mut reader) = two(2);
    live::record(&first);
    live::record(&second);
    first.expect(0, sent(1, SLOTS));
    second.expect(0, received(0, SLOTS));
    let mut written = write(&mut writer, 2, 0, SLOTS / 2);
    assert_eq!(written, 4, "eight slots have room");
    settle([&first, &second]);
    let (sent, got) = (steps_of(&first), steps_of(&second));
    let posted = [2, 4, 6, 8].map(|count| (Posted, count));
    assert_eq!(sent[0], (Appended, SLOTS));
    assert_eq!(sent[1..5], posted, "posted to 8 before anything else");
    let of = |all: &[(Phase, u64)], phase| {
        let of = all.iter().filter(|step| step.0 == phase);
        of.map(|step| step.1).collect::<Vec<_>>()
    };
    for all in [&sent, &got] {
        assert_eq!(of(all, Transmitted), [2, 4, 6, 8], "transmitted to 8");
    }
    assert_eq!(of(&sent, Done), [2, 4, 6, 8]);
    assert_eq!(of(&sent, Posted), [2, 4, 6, 8, 10, 12, 14, 16]);
    assert_eq!(of(&got, Done), [0_u64; 0], "nobody has read");
    written = write(&mut writer, 2, written, SLOTS / 2);
    settle([&first, &second]);
    assert_eq!(steps_of(&first), [], "eight are with the peer, eight wait");
    for token in 0..SLOTS / 2 {
        take_one(&mut reader, 2, token);
        settle([&first, &second]);
        let (taken, next) = (2 * token + 2, 2 * token + 10);
        let mut here = Vec::new();
        if next <= SLOTS {
            here.extend([(Transmitted, next), (Done, next)]);
            let there = [
                (Done, taken),
                (Posted, next),
                (Received, next),
                (Flushed, next),
                (Transmitted, next),
            ];
            assert_eq!(steps_of(&second), there, "after token {token} was taken");
        }
        if next + 8 <= SLOTS {
            here.push((Posted, next + 8));
        }
        assert_eq!(steps_of(&first), here, "after token {token} was taken");
        written = write(&mut writer, 2, written, SLOTS / 2);
    }
    assert!(!first.is_busy() && !second.is_busy());
}

fn appended(links: &Links) -> usize {
    let events = live::recorded(links).into_iter();
    events
        .filter(|event| event.phase == Phase::Appended)
        .count()
}

/// One operation more than the pool holds makes its caller drive the engine until there is room; an
/// engine that has ended takes none, and holds nobody up.
#[test]
fn a_full_pool_makes_its_caller_drive() {
    let (first, _second, _writer, _reader) = two(1);
    live::record(&first);
    let fill = |launches: std::ops::Range<usize>| {
        for launch in launches {
            first.expect(launch as u64, sent(1, 1));
        }
    };
    fill(0..QUEUE);
    assert_eq!(appended(&first), 0, "there is room, and nobody drives");
    fill(QUEUE..QUEUE + 1);
    assert_eq!(appended(&first), Taking::default().batch);
    first.close(true);
    fill(QUEUE + 1..3 * QUEUE);
}

/// Passes are counted, from one look at what was posted to the next.
#[test]
fn new_operations_are_looked_for_every_so_many_passes() {
    for every in [1, 3, 8, 20] {
        let taking = Taking { every, batch: 16 };
        let (first, _second, _writer, _reader) = two_taking(1, taking);
        live::record(&first);
        first.expect(0, sent(1, 4));
        first.pass();
        assert_eq!(
            appended(&first),
            1,
            "with nothing else to do it always looks"
        );
        for launch in 1..4 {
            first.expect(launch, sent(1, 4));
            let passes = (1..100).find(|_| {
                first.pass();
                appended(&first) == 1
            });
            assert_eq!(passes, Some(every), "launch {launch}");
        }
    }
}

#[test]
fn so_many_operations_are_taken_over_at_once() {
    for batch in [1, 5, 16, 100] {
        let taking = Taking { every: 1, batch };
        let (first, _second, _writer, _reader) = two_taking(1, taking);
        live::record(&first);
        for launch in 0..40 {
            first.expect(launch, sent(1, 4));
        }
        let mut left = 40;
        while left > 0 {
            first.pass();
            assert_eq!(appended(&first), batch.min(left), "{left} were left");
            left -= batch.min(left);
        }
        assert_eq!(live::picture(&first).taken, [40, 0]);
    }
}

/// A span, what its begin gave where this is its end, and the number of this word.
type Word = (Span, Option<u64>, u64);

/// Begins and ends, in order, with the number that each begin gave.
#[derive(Default)]
struct Heard(Mutex<Vec<(Step, Word)>>);

impl Profiler for Heard {
    fn begin(&self, step: &Step, span: Span) -> u64 {
        let mut heard = self.0.lock().unwrap();
        let number = heard.len() as u64 + 1;
        heard.push((*step, (span, None, number)));
        number
    }

    fn end(&self, step: &Step, span: Span, begun: u64) {
        let mut heard = self.0.lock().unwrap();
        let number = heard.len() as u64 + 1;
        heard.push((*step, (span, Some(begun), number)));
    }
}

/// Two operations after each other on one connection, of 32 and 8 slots, two a step.
#[test]
fn a_profiler_hears_begin_and_end_of_every_span_of_every_step() {
    let (first, second, mut writer, mut reader) = two(2);
    let heard = [Arc::new(Heard::default()), Arc::new(Heard::default())];
    live::profile(&first, heard[0].clone());
    live::profile(&second, heard[1].clone());
    for (launch, slots) in [(5, 32), (6, 8)] {
        first.expect(launch, sent(1, slots));
        second.expect(launch, received(0, slots));
    }
    let (mut written, mut taken) = (0, 0);
    while taken < 20 {
        written = write(&mut writer, 2, written, 20);
        settle([&first, &second]);
        taken = read(&mut reader, 2, taken);
    }
    settle([&first, &second]);
    let ways = [(Direction::Send, Rank(1)), (Direction::Recv, Rank(0))];
    for (heard, (direction, peer)) in heard.iter().zip(ways) {
        let heard = heard.0.lock().unwrap();
        assert_eq!(
            heard.len(),
            20 * 6,
            "three spans of 20 steps, begin and end"
        );
        let mut of_step: HashMap<(u64, u64), Vec<Word>> = HashMap::new();
        for (step, word) in heard.iter() {
            assert_eq!(
                (step.direction, step.peer, step.channel),
                (direction, peer, 0)
            );
            assert_eq!(step.slots, if step.launch == 5 { 32 } else { 8 });
            let steps = of_step.entry((step.launch, step.slot)).or_default();
            steps.push(*word);
        }
        let steps = [(5, 16), (6, 4)];
        let expected = steps.map(|(launch, steps)| (1..=steps).map(move |s| (launch, 2 * s)));
        for key in expected.into_iter().flatten() {
            let spans = &of_step[&key];
            let [post, posted, transmit, transmitted, done, end] = spans[..] else {
                panic!("{key:?}: {spans:?}");
            };
            let names = [post.0, transmit.0, done.0];
            assert_eq!(names, [Span::Post, Span::Transmit, Span::Done]);
            for (begin, end) in [(post, posted), (transmit, transmitted), (done, end)] {
                let pair = (begin.1, end.0, end.1);
                assert_eq!(pair, (None, begin.0, Some(begin.2)), "{key:?}");
            }
        }
        assert_eq!(of_step.len(), 20);
    }
}

/// A job that hangs, because nobody reads or nobody writes, shows where its operations are.
#[test]
fn a_picture_shows_where_operations_are() {
    let (first, second, mut writer, mut reader) = two(2);
    first.expect(0, sent(1, 32));
    first.expect(1, sent(1, 4));
    let waiting = live::picture(&first);
    assert_eq!((waiting.waiting, waiting.live.len()), (2, 0));
    first.pass();
    let line = "launch 0: send to rank 1 on channel 0, 32 slots of up to 4096 bytes: not connected";
    let seen = live::picture(&first).to_string();
    assert!(seen.contains(line), "{seen}");
    second.expect(0, received(0, 32));
    let mut written = write(&mut writer, 2, 0, 16);
    settle([&first, &second]);
    written = write(&mut writer, 2, written, 16);
    assert_eq!(written, 8);
    let seen = live::picture(&first).to_string();
    let slots = |count| format!("on channel 0, {count} slots of up to 4096 bytes");
    let expected = format!(
        "rank 0 over socket: 2 operations under way, 0 wait; 2 to send and 0 to receive since the \
         beginning\n  launch 0: send to rank 1 {}: 16 posted, 16 filled, 8 transmitted, 8 done\n  \
         launch 1: send to rank 1 {}: 0 posted, 0 filled, 0 transmitted, 0 done",
        slots(32),
        slots(4),
    );
    assert_eq!(seen, expected);
    let seen = live::picture(&second).to_string();
    let expected = format!(
        "rank 1 over socket: 1 operations under way, 0 wait; 0 to send and 1 to receive since the \
         beginning\n  launch 0: receive from rank 0 {}: 8 posted, 8 received, 8 transmitted, 0 \
         done",
        slots(32),
    );
    assert_eq!(seen, expected);
    // The reader goes on, and the writer stops.
    let mut taken = read(&mut reader, 2, 0);
    settle([&first, &second]);
    taken = read(&mut reader, 2, taken);
    assert_eq!(taken, 8);
    settle([&first, &second]);
    let seen = live::picture(&first).to_string();
    let line = "24 posted, 16 filled, 16 transmitted, 16 done";
    assert!(seen.contains(line), "{seen}");
    let seen = live::picture(&second).to_string();
    let line = "24 posted, 16 received, 16 transmitted, 16 done";
    assert!(seen.contains(line), "{seen}");
    first.close(true);
    assert_eq!(live::picture(&first).live.len(), 0);
}
