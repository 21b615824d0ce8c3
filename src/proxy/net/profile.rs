//! Events of each step of an operation, for profilers: what happens to it, when it begins and ends.
//!
//! **Problem.** Whether a network, its peer or the program holds a transfer up shows only in how
//! long each of its steps spends where.
//!
//! **Idea.** A step is a slot that passes (several slots where a token has more). Its life has
//! three spans, which follow each other without a gap; [`Span`] says which. A sub keeps a place for
//! each of the 8 steps that may be on their way: there lies what the profiler gave at the begin of
//! a span, until its end. The engine compares the counts of a connection with those that it saw at
//! its last look, so the phases themselves know nothing of profilers, and an engine without one
//! pays for one branch a look.

use super::counts::{Counts, SLOTS};
use crate::base::Rank;
use crate::plan::Direction;

/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// Its slot is free for whoever fills it: until the program has (sending), or until the message
    /// has arrived (receiving).
    Post,
    /// It is full: until the network has taken it, for which the peer must have posted (sending),
    /// or until it was flushed and published to the program (receiving).
    Transmit,
    /// It is on its way: until the network needs the slot no more (sending), or until the program
    /// has given it back (receiving).
    Done,
}

/// Which step of which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Number of the launch.
    pub launch: u64,
    /// Which way.
    pub direction: Direction,
    /// The other rank.
    pub peer: Rank,
    /// The channel.
    pub channel: u16,
    /// Slots of the operation up to the end of this step.
    pub slot: u64,
    /// Slots of the operation.
    pub slots: u64,
}

/// Hears of every span of every step. Called under the lock of the engine, by whichever thread
/// drives it: it must not wait.
pub trait Profiler: Send + Sync {
    /// A span begins. What this gives is handed back at its end.
    fn begin(&self, step: &Step, span: Span) -> u64;

    /// A span ends.
    fn end(&self, step: &Step, span: Span, begun: u64);
}

/// Steps of a sub that a profiler hears of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    start: u64,
    /// At the last look.
    seen: Counts,
    /// Values that the profiler gave when a span began, for each step that may be on its way.
    begun: [u64; SLOTS as usize],
}

impl Steps {
    /// Of a sub whose slots follow the first `start` of its connection.
    pub fn from(start: u64) -> Steps {
        Steps {
            start,
            seen: Counts::default(),
            begun: [0; SLOTS as usize],
        }
    }

    /// The connection has come to `now`: tells the profiler what is new. The sub has slots up to
    /// `end`, `slice` of them a step.
    pub fn look(&mut self, now: Counts, (end, slice): (u64, u64), of: Step, to: &dyn Profiler) {
        let now = now.within(self.start, end);
        let before = std::mem::replace(&mut self.seen, now);
        let mut slot = before.done + slice;
        // From the oldest step on: its place is free when the one behind it comes around.
        while slot <= now.posted {
            let step = Step { slot, ..of };
            let place = &mut self.begun[(slot / slice % SLOTS) as usize];
            let passes = |before: u64, now: u64| before < slot && slot <= now;
            if passes(before.posted, now.posted) {
                *place = to.begin(&step, Span::Post);
            }
            if passes(before.full, now.full) {
                to.end(&step, Span::Post, *place);
                *place = to.begin(&step, Span::Transmit);
            }
            if passes(before.transmitted, now.transmitted) {
                to.end(&step, Span::Transmit, *place);
                *place = to.begin(&step, Span::Done);
            }
            if passes(before.done, now.done) {
                to.end(&step, Span::Done, *place);
            }
            slot += slice;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    type Said = (bool, Span, u64, u64);

    /// Gives numbers, and writes down what it hears.
    #[derive(Default)]
    struct Scribe(Mutex<(u64, Vec<Said>)>);

    impl Profiler for Scribe {
        fn begin(&self, step: &Step, span: Span) -> u64 {
            let mut said = self.0.lock().unwrap();
            said.0 += 1;
            let number = said.0;
            said.1.push((true, span, step.slot, number));
            number
        }

        fn end(&self, step: &Step, span: Span, begun: u64) {
            let mut said = self.0.lock().unwrap();
            said.1.push((false, span, step.slot, begun));
        }
    }

    /// However far the engine gets between two looks, and though a buffer is posted before the
    /// operation is known, each step has its three spans, each with what its own begin gave.
    #[test]
    fn every_step_has_three_spans_each_with_its_own_number() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..50 {
            let (start, slots) = (random.u64(..100), random.u64(1..40));
            let end = start + slots;
            let mut steps = Steps::from(start);
            let scribe = Scribe::default();
            let of = Step {
                launch: 1,
                direction: Direction::Recv,
                peer: Rank(3),
                channel: 0,
                slot: 0,
                slots,
            };
            // The connection has posted ahead, and may serve operations before and behind this one.
            let mut now = Counts::default();
            while now.done < end {
                now.posted = random.u64(now.posted..=now.done + SLOTS);
                now.full = random.u64(now.full..=now.posted);
                now.transmitted = random.u64(now.transmitted..=now.full);
                now.done = random.u64(now.done..=now.transmitted);
                if random.bool() {
                    steps.look(now, (end, 1), of, &scribe);
                }
            }
            steps.look(now, (end, 1), of, &scribe);
            let said = scribe.0.into_inner().unwrap().1;
            let case = format!("seed {seed}, round {round}");
            assert_eq!(said.len() as u64, 6 * slots, "{case}");
            for slot in 1..=slots {
                let of_step: Vec<&Said> = said.iter().filter(|said| said.2 == slot).collect();
                let spans = [Span::Post, Span::Transmit, Span::Done];
                for (pair, span) in of_step.chunks(2).zip(spans) {
                    assert_eq!((pair[0].0, pair[0].1), (true, span), "{case}");
                    assert_eq!((pair[1].0, pair[1].1), (false, span), "{case}");
                    assert_eq!(pair[0].3, pair[1].3, "{case}: the number of its begin");
                }
            }
        }
    }
}
