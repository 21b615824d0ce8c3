//! Jobs that are drawn, with a culprit that is known.

use super::culprit::JobVerdict;
use super::gather::JobSeen;
use super::seen::{BoardSeen, FaultSeen, ProcessSeen, RankSeen, StartSeen, ThreadSeen, WaitSeen};
use super::table::JobTable;
use super::verdict::verdict;
use crate::topo::place_name;
use fastrand::Rng;

/// Ranks of one process each, all in communicators `world` and `rows`, which all wait in `world`.
struct Drawn {
    random: Rng,
    job: JobSeen,
    n: u32,
    calls: u64,
}

impl Drawn {
    fn new(seed: u64) -> Drawn {
        let mut random = Rng::with_seed(seed);
        let (n, calls) = (random.u32(2..80), random.u64(1..100_000));
        let mut drawn = Drawn {
            job: JobSeen::default(),
            n,
            calls,
            random,
        };
        drawn.job.processes = (0..n).map(|rank| drawn.process(rank)).collect();
        drawn
    }

    fn process(&mut self, rank: u32) -> ProcessSeen {
        let pid = 1000 + rank;
        let thread = ThreadSeen {
            id: pid,
            state: "S".into(),
            busy: false,
            within: Some("waiting for a lock or another thread, in futex()".into()),
        };
        let world = RankSeen {
            calls: self.calls,
            last: Some("AllReduce of 8 float64, sum".into()),
            waits: vec![self.wait(pid)],
            ..self.rank("world", rank)
        };
        ProcessSeen {
            host: format!("n{}", rank % 3),
            pid,
            threads: vec![thread],
            ranks: vec![self.rank("rows", rank), world],
            ..ProcessSeen::default()
        }
    }

    fn rank(&self, name: &str, rank: u32) -> RankSeen {
        RankSeen {
            comm: name.to_owned(),
            name: name.to_owned(),
            rank,
            nranks: self.n,
            ..RankSeen::default()
        }
    }

    /// Of some rank for any other: whom a wait is for says little where a rank is late.
    fn wait(&mut self, thread: u32) -> WaitSeen {
        WaitSeen {
            call: "AllReduce".into(),
            number: Some(self.calls),
            peer: Some(self.random.u32(..self.n)),
            seconds: 2.0 + self.random.f64() * 100.0,
            thread,
            sends: None,
        }
    }

    fn draw(&mut self) -> u32 {
        self.random.u32(..self.n)
    }

    fn of(&mut self, rank: u32) -> &mut ProcessSeen {
        &mut self.job.processes[rank as usize]
    }

    /// All wait for this rank.
    fn all_wait_for(&mut self, rank: u32) {
        for other in 0..self.n {
            self.of(other).ranks[1].waits[0].peer = Some(rank);
        }
    }

    /// All that is known of a rank is its board.
    fn only_board(&mut self, rank: u32, place: String, calls: u64) {
        self.of(rank).ranks.clear();
        let board = BoardSeen {
            rank,
            place,
            calls,
            last: None,
            over: None,
        };
        self.job.boards.insert("world".into(), vec![board]);
    }

    /// It has not made the call, and does not wait.
    fn late(&mut self, rank: u32) -> &mut ProcessSeen {
        let calls = self.calls - 1;
        let process = self.of(rank);
        process.ranks[1].waits.clear();
        process.ranks[1].calls = calls;
        process
    }

    fn verdict(&self) -> (JobTable, JobVerdict) {
        let table = JobTable::of(self.job.clone());
        let verdict = verdict(&table);
        (table, verdict)
    }
}

fn each(mut check: impl FnMut(&mut Drawn)) {
    for seed in 0..200 {
        let mut drawn = Drawn::new(seed);
        let told = std::panic::AssertUnwindSafe(|| check(&mut drawn));
        let told = std::panic::catch_unwind(told);
        assert!(told.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_late_rank_is_named_with_what_it_does() {
    each(|drawn| {
        let rank = drawn.draw();
        let busy = drawn.random.bool();
        let process = drawn.late(rank);
        process.threads[0].busy = busy;
        let place = place_name(&process.host, process.pid);
        let (_, told) = drawn.verdict();
        assert_eq!(told.ranks, [("world".to_owned(), rank)]);
        let begin = format!("rank {rank} on {place} has made ");
        assert!(told.sentence.starts_with(&begin), "{}", told.sentence);
        let doing = if busy { "running" } else { "in futex()" };
        assert!(told.sentence.contains(doing), "{}", told.sentence);
    });
}

#[test]
fn one_of_several_late_ranks_is_named() {
    each(|drawn| {
        let (a, b) = (drawn.draw(), drawn.draw());
        drawn.late(a);
        drawn.late(b);
        if drawn.n < 3 && a != b {
            return;
        }
        let (_, told) = drawn.verdict();
        assert_eq!(told.ranks, [("world".to_owned(), a.min(b))]);
        assert_eq!(told.sentence.contains("one more"), a != b);
    });
}

/// Boards are all that is known of a process that does not answer.
#[test]
fn a_stopped_process_is_named_wherever_it_was() {
    each(|drawn| {
        let rank = drawn.draw();
        let is_late = drawn.random.bool();
        let calls = drawn.calls - u64::from(is_late);
        drawn.all_wait_for(rank);
        let process = drawn.of(rank);
        process.silent = true;
        process.threads[0].state = "T".into();
        let place = place_name(&process.host, process.pid);
        drawn.only_board(rank, place, calls);
        let (_, told) = drawn.verdict();
        assert_eq!(told.ranks, [("world".to_owned(), rank)]);
        assert!(told.sentence.contains("is stopped"), "{}", told.sentence);
        let advice = told.advice.unwrap_or_default();
        assert!(
            advice.contains(&format!("kill -CONT {}", 1000 + rank)),
            "{advice}"
        );
    });
}

#[test]
fn a_rank_of_which_nothing_is_heard_is_named_with_its_node() {
    each(|drawn| {
        let rank = drawn.draw();
        let calls = drawn.calls - 1;
        drawn.of(rank).pid = 1;
        drawn.only_board(rank, "n77 (pid 5)".into(), calls);
        let (_, told) = drawn.verdict();
        assert_eq!(told.ranks, [("world".to_owned(), rank)]);
        assert!(
            told.sentence
                .contains("nothing is heard from its process on n77")
        );
    });
}

#[test]
fn other_order_on_two_communicators_is_a_circle() {
    each(|drawn| {
        let rank = drawn.draw();
        let process = drawn.late(rank);
        let thread = process.pid;
        process.ranks[0].calls = 1;
        process.ranks[0].waits = vec![WaitSeen {
            call: "Barrier".into(),
            number: Some(1),
            seconds: 3.0,
            thread,
            ..WaitSeen::default()
        }];
        let (_, told) = drawn.verdict();
        assert!(
            told.sentence.contains("in different order"),
            "{}",
            told.sentence
        );
        assert!(
            told.ranks.contains(&("rows".to_owned(), rank)),
            "{:?}",
            told.ranks
        );
    });
}

#[test]
fn messages_that_all_send_first_are_a_circle() {
    each(|drawn| {
        let n = drawn.n;
        for rank in 0..n {
            let wait = &mut drawn.of(rank).ranks[1].waits[0];
            (wait.number, wait.call) = (None, "Send".into());
            wait.peer = Some((rank + 1) % n);
            wait.sends = Some(((rank + 1) % n, 800));
        }
        let (_, told) = drawn.verdict();
        assert!(told.sentence.contains("sends first"), "{}", told.sentence);
        assert_eq!(told.ranks.len(), n as usize);
    });
}

#[test]
fn all_in_the_call_is_the_network() {
    each(|drawn| {
        let n = drawn.n;
        for rank in 0..n {
            drawn.of(rank).ranks[1].waits[0].peer = Some((rank + 1) % n);
        }
        let (_, told) = drawn.verdict();
        assert!(
            told.sentence.contains("data do not arrive"),
            "{}",
            told.sentence
        );
        assert_eq!(told.ranks.len(), n as usize);
    });
}

#[test]
fn a_rank_inside_an_operation_is_named() {
    each(|drawn| {
        let rank = drawn.draw();
        drawn.all_wait_for(rank);
        drawn.of(rank).ranks[1].waits.clear();
        let (_, told) = drawn.verdict();
        assert_eq!(told.ranks, [("world".to_owned(), rank)]);
        assert!(
            told.sentence.contains("does not wait in it"),
            "{}",
            told.sentence
        );
    });
}

#[test]
fn whoever_has_not_come_to_a_start_is_named() {
    each(|drawn| {
        let (n, rank) = (drawn.n, drawn.draw());
        for other in (0..n).filter(|other| *other != rank) {
            drawn.of(other).ranks.clear();
            drawn.of(other).starts = vec![StartSeen {
                rank: other,
                nranks: n,
                phase: "meeting".into(),
                seconds: 3.0,
            }];
        }
        let process = drawn.of(rank);
        process.ranks[1].waits.clear();
        let place = place_name(&process.host, process.pid);
        let (_, told) = drawn.verdict();
        let begin = format!("rank {rank} has not come, the");
        assert!(told.sentence.contains(&begin), "{}", told.sentence);
        assert!(told.sentence.contains(&place), "{}", told.sentence);
        assert_eq!(told.ranks, [(String::new(), rank)]);
        // On another node it may have come.
        let elsewhere = drawn.job.processes.remove(rank as usize);
        let (_, told) = drawn.verdict();
        assert!(
            told.sentence.contains("on other nodes"),
            "{}",
            told.sentence
        );
        assert!(told.ranks.is_empty(), "{:?}", told.ranks);
        drawn.job.processes.insert(rank as usize, elsewhere);
    });
}

fn fault(what: &str) -> Option<FaultSeen> {
    Some(FaultSeen {
        what: what.into(),
        remedy: "mend it".into(),
    })
}

#[test]
fn what_has_stopped_or_disagrees_comes_first() {
    each(|drawn| {
        let rank = drawn.draw();
        drawn.late(rank).ranks[1].odd = fault("ranks disagree in collective 7");
        assert_eq!(drawn.verdict().1.sentence, "ranks disagree in collective 7");
        drawn.of(rank).ranks[1].stopped = fault("rank 3 died");
        let told = drawn.verdict().1.sentence;
        assert_eq!(told, "communicator world works no more: rank 3 died");
        assert_eq!(drawn.verdict().1.advice.as_deref(), Some("mend it"));
        // A program that goes on without it may hang elsewhere.
        drawn.of(rank).ranks[1].stopped = None;
        drawn.of(rank).ranks[1].odd = None;
        drawn.of(rank).ranks[0].stopped = fault("rank 3 died");
        let told = drawn.verdict().1;
        assert_eq!(
            told.ranks,
            [("world".to_owned(), rank)],
            "{}",
            told.sentence
        );
    });
}

#[test]
fn short_waits_are_no_hang() {
    each(|drawn| {
        let (n, rank) = (drawn.n, drawn.draw());
        drawn.late(rank);
        for other in (0..n).filter(|other| *other != rank) {
            drawn.of(other).ranks[1].waits[0].seconds = 0.4;
        }
        let told = drawn.verdict().1;
        assert!(told.ranks.is_empty(), "{}", told.sentence);
        assert!(
            told.sentence.starts_with("the job goes on"),
            "{}",
            told.sentence
        );
    });
}

#[test]
fn nobody_is_blamed_where_nobody_waits() {
    each(|drawn| {
        let n = drawn.n;
        for rank in 0..n {
            drawn.of(rank).ranks[1].waits.clear();
        }
        let (table, told) = drawn.verdict();
        assert!(told.ranks.is_empty() && told.sentence.contains("no rank waits"));
        let text = super::words::whole(&table, &told, false);
        // Ranks that do the same are one line, in each communicator.
        assert_eq!(
            text.lines()
                .filter(|line| line.contains("outside of kolo"))
                .count(),
            2,
            "{text}"
        );
        let text = super::words::whole(&table, &told, true);
        assert_eq!(text.matches("outside of kolo:").count(), 2 * n as usize);
    });
}
