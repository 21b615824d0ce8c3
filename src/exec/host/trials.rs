//! Which kind of store a call writes results with, found out by the calls themselves: direct calls,
//! and those over slots whose results are longer than caches.
//!
//! **Problem.** Results that are written past the cache spare the reading of the lines that they
//! replace, but whoever reads them next fetches them from memory. Which is better depends on the
//! size, on the caches that the ranks share, on how many ranks write at once, and on what the
//! program does between its calls. No table and no probe knows all of that.
//!
//! **Idea.** The first calls of each collective and size try both kinds by turns. The first call of
//! each turn does not count: the buffers lie where the other kind has left them. The kind of the
//! fastest calls stays, and is tried again after many calls. The kind changes no value, so a rank
//! may decide alone. Calls that take long differ less from each other, and a program makes fewer of
//! them: they have two turns and no more, the first one with the kind that was best for calls of
//! about their size.

use crate::plan::Collective;
use std::collections::HashMap;
use std::time::Duration;

/// Calls of one kind in a row while both are tried; the first is not counted.
const TURN: u32 = 2;
/// Turns of a trial, both kinds together.
const TURNS: u32 = 6;
/// Turns of a trial of large calls.
const LARGE_TURNS: u32 = 2;
/// Calls after which both kinds are tried again.
const HOLDS: u32 = 4096;
/// Calls after which both kinds are tried again, if the calls are large.
const LARGE_HOLDS: u32 = 256;
/// Calls with so many bytes are large.
const LARGE: usize = 4 << 20;
/// Before anything is known, data of so many bytes are written past the cache.
const UNTRIED_STREAM_BYTES: usize = 4 << 20;

/// Calls over slots with less data than this write results in the ordinary way.
pub const LEAST_OVER_SLOTS: usize = 2 << 20;

/// Calls that have a trial of their own: direct or not, the collective, the power of two.
type TrialClass = (bool, Collective, u32);

/// The kind of store that a launch was given. The launch hands it back when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTrial {
    class: TrialClass,
    /// Written past the cache.
    pub streams: bool,
    counts: bool,
}

/// Results for one collective and class of sizes.
#[derive(Clone, Copy, Debug)]
struct SizeClass {
    calls: u32,
    /// Turns of a trial, and calls from one trial to the next.
    turns: u32,
    holds: u32,
    /// The kind that is used unless the other one is clearly better.
    first: bool,
    /// The least time of each kind: cached, streamed.
    least: [Duration; 2],
}

/// The trials of one rank.
#[derive(Debug, Default)]
pub struct StoreTrials {
    /// The kind that the settings ask for.
    told: Option<bool>,
    classes: HashMap<TrialClass, SizeClass>,
}

impl StoreTrials {
    /// With the kind that the settings name, if they do: past the cache, or not.
    pub fn new(told: Option<bool>) -> StoreTrials {
        StoreTrials {
            told,
            classes: HashMap::new(),
        }
    }

    /// The kind for a direct call of so many bytes that begins now, in flight with those `beside`.
    pub fn direct(
        &mut self,
        collective: Collective,
        bytes: usize,
        beside: impl Iterator<Item = StoreTrial>,
    ) -> StoreTrial {
        let power = bytes.checked_ilog2().unwrap_or(0);
        self.begin((true, collective, power), bytes, beside)
    }

    /// The kind for a call over slots; none if it is small or has no result.
    pub fn over_slots(
        &mut self,
        collective: Collective,
        bytes: usize,
        beside: impl Iterator<Item = StoreTrial>,
    ) -> Option<StoreTrial> {
        let is_tried = bytes >= LEAST_OVER_SLOTS && collective != Collective::Send;
        let power = bytes.checked_ilog2().unwrap_or(0);
        is_tried.then(|| self.begin((false, collective, power), bytes, beside))
    }

    /// Calls that are in flight together, such as the messages of a group, end together: those
    /// that are alike have one kind, and one of them counts.
    fn begin(
        &mut self,
        class: TrialClass,
        bytes: usize,
        mut beside: impl Iterator<Item = StoreTrial>,
    ) -> StoreTrial {
        if let Some(alike) = beside.find(|one| one.class == class) {
            return StoreTrial {
                counts: false,
                ..alike
            };
        }
        if let Some(streams) = self.told {
            return StoreTrial {
                class,
                streams,
                counts: false,
            };
        }
        let known = match self.classes.get_mut(&class) {
            Some(known) => known,
            None => {
                let first = match bytes < LARGE {
                    true => None,
                    false => self.of_others(class),
                };
                let new = SizeClass::new(first.unwrap_or(bytes >= UNTRIED_STREAM_BYTES), bytes);
                self.classes.entry(class).or_insert(new)
            }
        };
        let number = known.calls;
        known.calls += 1;
        if number < TURN * known.turns {
            let turn = number / TURN;
            return StoreTrial {
                class,
                streams: known.first ^ (turn % 2 == 1),
                counts: !number.is_multiple_of(TURN),
            };
        }
        let streams = known.best();
        if known.calls >= known.holds {
            *known = SizeClass {
                calls: 0,
                first: streams,
                least: [Duration::MAX; 2],
                ..*known
            };
        }
        StoreTrial {
            class,
            streams,
            counts: false,
        }
    }

    /// The kind that was best in most trials of other collectives with half to twice the bytes.
    fn of_others(&self, (is_direct, _, power): TrialClass) -> Option<bool> {
        let near = |&(&(direct, _, other), known): &(&TrialClass, &SizeClass)| {
            direct == is_direct && other.abs_diff(power) <= 1 && known.is_tried()
        };
        let votes = self.classes.iter().filter(near);
        let sum: i32 = votes
            .map(|(_, known)| if known.best() { 1 } else { -1 })
            .sum();
        (sum != 0).then_some(sum > 0)
    }

    /// A call has ended after so long.
    pub fn ended(&mut self, trial: StoreTrial, took: Duration) {
        if trial.counts
            && let Some(known) = self.classes.get_mut(&trial.class)
        {
            let least = &mut known.least[usize::from(trial.streams)];
            *least = took.min(*least);
        }
    }
}

impl SizeClass {
    fn new(first: bool, bytes: usize) -> SizeClass {
        let (turns, holds) = match bytes < LARGE {
            true => (TURNS, HOLDS),
            false => (LARGE_TURNS, LARGE_HOLDS),
        };
        SizeClass {
            calls: 0,
            turns,
            holds,
            first,
            least: [Duration::MAX; 2],
        }
    }

    /// Whether a call of each kind has counted.
    fn is_tried(&self) -> bool {
        self.least.iter().all(|&least| least < Duration::MAX)
    }

    /// The kind that was faster; the first one, unless the other takes a twentieth less.
    fn best(&self) -> bool {
        let other = self.least[usize::from(!self.first)];
        let wins = other < Duration::MAX && other * 20 < self.least[usize::from(self.first)] * 19;
        self.first ^ wins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::empty;

    const BYTES: usize = 1 << 20;

    /// Calls that take so long with either kind; the kinds that they had.
    fn calls(trials: &mut StoreTrials, count: u32, nanoseconds: [u64; 2]) -> Vec<bool> {
        let one = |_| {
            let trial = trials.direct(Collective::AllReduce, BYTES, empty());
            let took = nanoseconds[usize::from(trial.streams)];
            // The call after a change of kind is slow, whichever kind it has.
            let slow = if trial.counts { 0 } else { 1_000_000 };
            trials.ended(trial, Duration::from_nanos(took + slow));
            trial.streams
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_faster_kind_stays() {
        for (times, wanted) in [([50, 30], true), ([30, 50], false), ([100, 97], false)] {
            let mut trials = StoreTrials::new(None);
            let tried = calls(&mut trials, TURN * TURNS, times);
            let streamed = tried.iter().filter(|&&streams| streams).count();
            assert_eq!(streamed as u32, TURN * TURNS / 2);
            assert_eq!(calls(&mut trials, 5, times), [wanted; 5], "{times:?}");
        }
    }

    #[test]
    fn both_are_tried_again_after_many_calls() {
        let mut trials = StoreTrials::new(None);
        calls(&mut trials, HOLDS, [50, 30]);
        let again = calls(&mut trials, TURN * TURNS, [20, 30]);
        assert!(
            again.contains(&false) && again[0],
            "what was best comes first"
        );
        assert_eq!(calls(&mut trials, 3, [20, 30]), [false; 3]);
    }

    #[test]
    fn sizes_and_collectives_have_trials_of_their_own() {
        let mut trials = StoreTrials::new(None);
        calls(&mut trials, TURN * TURNS, [50, 30]);
        assert!(trials.direct(Collective::AllReduce, BYTES, empty()).streams);
        assert!(
            !trials
                .direct(Collective::AllReduce, 2 * BYTES, empty())
                .streams
        );
        assert!(!trials.direct(Collective::AllGather, BYTES, empty()).streams);
        assert!(
            trials
                .direct(Collective::AllGather, UNTRIED_STREAM_BYTES, empty())
                .streams
        );
    }

    /// A trial of large calls has as few calls as can be.
    #[test]
    fn large_calls_are_tried_twice_with_each_kind() {
        let mut trials = StoreTrials::new(None);
        let mut kinds = Vec::new();
        for _ in 0..6 {
            let trial = trials.direct(Collective::AllReduce, LARGE, empty());
            let took = if trial.streams { 900 } else { 500 };
            trials.ended(trial, Duration::from_micros(took));
            kinds.push((trial.streams, trial.counts));
        }
        let tried = [(true, false), (true, true), (false, false), (false, true)];
        assert_eq!(kinds[..4], tried);
        assert_eq!(kinds[4..], [(false, false); 2]);
    }

    #[test]
    fn what_was_best_for_others_comes_first() {
        let mut trials = StoreTrials::new(None);
        let tried = |trials: &mut StoreTrials, collective, bytes, is_better: bool| {
            for _ in 0..TURN * LARGE_TURNS {
                let trial = trials.direct(collective, bytes, empty());
                let took = if trial.streams == is_better { 500 } else { 900 };
                trials.ended(trial, Duration::from_micros(took));
            }
        };
        tried(&mut trials, Collective::AllReduce, 4 * LARGE, false);
        let mut first = |bytes| trials.direct(Collective::Gather, bytes, empty()).streams;
        assert_eq!(
            [2, 4, 8, 16, 32].map(|n| first(n * LARGE)),
            [false, false, false, true, true]
        );
        let over_slots = trials.over_slots(Collective::Gather, 4 * LARGE, empty());
        assert!(over_slots.expect("large").streams, "a trial of its own");
        // Equal votes say nothing.
        tried(&mut trials, Collective::AllGather, 4 * LARGE, true);
        let first = trials.direct(Collective::Scatter, 4 * LARGE, empty());
        assert!(first.streams);
    }

    #[test]
    fn over_slots_only_large_results_are_tried() {
        let mut trials = StoreTrials::new(None);
        let mut begin = |bytes| trials.over_slots(Collective::AllGather, bytes, empty());
        assert_eq!(begin(LEAST_OVER_SLOTS - 1), None);
        let over_slots = begin(LEAST_OVER_SLOTS).expect("large");
        let direct = trials.direct(Collective::AllGather, LEAST_OVER_SLOTS, empty());
        assert_ne!(over_slots.class, direct.class);
        let sent = trials.over_slots(Collective::Send, LEAST_OVER_SLOTS, empty());
        assert_eq!(sent, None);
    }

    #[test]
    fn messages_of_a_group_are_tried_together() {
        let mut trials = StoreTrials::new(None);
        let mut kinds = Vec::new();
        for _ in 0..TURN * TURNS {
            let bytes = LEAST_OVER_SLOTS;
            let mut begin = |beside: Option<StoreTrial>| {
                let trial = trials.over_slots(Collective::Recv, bytes, beside.into_iter());
                trial.expect("large")
            };
            let first = begin(None);
            let second = begin(Some(first));
            assert_eq!(second.streams, first.streams);
            assert!(!second.counts);
            kinds.push((first.streams, first.counts));
        }
        for kind in [false, true] {
            assert!(kinds.contains(&(kind, true)), "{kinds:?}");
        }
    }

    #[test]
    fn what_the_settings_say_is_done() {
        for told in [false, true] {
            let mut trials = StoreTrials::new(Some(told));
            assert!(
                calls(&mut trials, 20, [50, 30])
                    .iter()
                    .all(|&kind| kind == told)
            );
        }
    }
}
