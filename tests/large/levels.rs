//! Every collective on every machine: level by level, and as the tuner would have it there.

use super::calls::{Row, rows};
use super::cases::{Case, Known};
use super::drawn;
use super::machines::{self, Dealing, Described, Spot};
use super::support::{AbortOnPanic, ranks_of};
use super::within::within;
use kolo::algo;
use kolo::comm::{Communicator, Inspect, RedOp};
use kolo::dtype::known::Data;
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::{Algorithm, Collective, Nodes, Shape};
use kolo::price::parts;
use std::sync::atomic::{AtomicU64, Ordering};

/// A way of choosing algorithms: a word of the setting `algo`.
type Way = &'static str;
const WAYS: [Way; 3] = ["leader", "hier", "auto"];

/// Ranks on their cores.
struct Arrangement {
    machine: Described,
    dealing: Dealing,
    way: Way,
}

/// All machines, each dealt and called in all ways.
fn arrangements(random: &mut fastrand::Rng) -> Vec<Arrangement> {
    let mut all = Vec::new();
    for way in WAYS {
        for number in 0..machines::all().len() {
            for dealing in [
                Dealing::InOrder,
                Dealing::ToSockets,
                Dealing::ToCaches,
                Dealing::Spread,
                Dealing::Drawn(random.u64(..)),
            ] {
                let machine = machines::all().swap_remove(number);
                all.push(Arrangement {
                    machine,
                    dealing,
                    way,
                });
            }
        }
    }
    random.shuffle(&mut all);
    all
}

/// The calls that went level by level, and the steps in which their plans differ from those of one
/// cache.
#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    steps: AtomicU64,
}

impl Arrangement {
    /// Makes the calls on a communicator that is made for them.
    fn run(&self, n: u32, rows: &[Row], random: &mut fastrand::Rng) {
        let direct = ["on", "off"][random.usize(..2)];
        let settings = [("algo", self.way), ("direct", direct), ("buffsize", "64K")];
        let what = format!(
            "{n} ranks, {}, {:?}, {settings:?}",
            self.machine.name, self.dealing
        );
        println!("{what}: {} calls", rows.len());
        let spots = self.machine.dealt(self.dealing, n);
        let nodes = machines::nodes(&spots);
        let counts = Counts::default();
        ranks_of(&self.machine.made(&spots, &settings), |comm| {
            what_is_shared_is_known(comm, &nodes, &what);
            counts.of(comm, &nodes, &what);
            rows.iter().for_each(|row| row.run(comm, &what));
        });
        let found = (counts.calls.into_inner(), counts.steps.into_inner());
        // Where there is nothing to share, or little, flat plans are as good.
        let has_levels = !nodes.parts().levels().is_empty();
        let is_sure = self.way == "leader" || (self.way == "auto" && self.is_plain(n));
        if has_levels && is_sure {
            assert!(
                found.0 > 0 && found.1 > 0,
                "{what}: no levels in plans, {found:?}"
            );
        }
    }

    /// Whether the tuner cannot but go level by level.
    fn is_plain(&self, n: u32) -> bool {
        n >= 128 && self.machine.sockets.len() == 2 && self.dealing == Dealing::ToSockets
    }
}

/// The communicator knows of the machine's parts as much as the machine's description.
fn what_is_shared_is_known(comm: &Communicator, nodes: &Nodes, what: &str) {
    let table = comm.tuner().expect("alive");
    let seen = parts::names(&table.inputs().setting.machine);
    let seen = Nodes::one(comm.nranks()).with_parts(&seen);
    assert_eq!(seen.parts(), nodes.parts(), "{what}");
}

impl Counts {
    /// Makes calls whose plans have levels: their steps are those of the plans on the machine that
    /// is described.
    fn of(&self, comm: &Communicator, nodes: &Nodes, what: &str) {
        use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        let table = comm.tuner().expect("alive");
        let n = comm.nranks();
        for collective in [AllReduce, Broadcast, Reduce, AllGather, ReduceScatter] {
            let choice = table.choose(collective, 8);
            if ![Algorithm::Leader, Algorithm::Hierarchical].contains(&choice.algorithm) {
                continue;
            }
            let op = collective.reduces().then_some(ReduceOp::Sum);
            let case = Case {
                collective,
                data: Data {
                    dtype: DataType::Int64,
                    op,
                    nranks: n,
                    repetition: 7,
                },
                count: 1,
                root: n / 2,
                in_place: false,
            };
            let shape = Shape {
                collective,
                algorithm: choice.algorithm,
                rank: comm.rank(),
                nranks: n,
                root: case.root,
                channels: choice.channels,
            };
            let steps = |nodes| algo::plan(&shape, nodes).expect("chosen").steps_per_round();
            let (wanted, flat) = (steps(nodes), steps(&Nodes::one(n)));
            let before = comm.step_counts().expect("alive").0;
            let wrong = case.run(comm, RedOp::SUM, &Known::of(n)).expect("runs");
            let made = comm.step_counts().expect("alive").0 - before;
            assert_eq!((wrong, made), (0, wanted), "{what}: {choice:?}, {case:?}");
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.steps
                .fetch_add(wanted.abs_diff(flat), Ordering::Relaxed);
        }
    }
}

/// No test takes longer, even where all grids are run.
const LIMIT: [u64; 2] = [240, 850];

/// Runs a test that a wrong plan would let wait for ever.
fn limited(body: impl FnOnce() + Send + 'static) {
    within(LIMIT[usize::from(drawn::is_full())], body);
}

/// Some calls on a machine for each way; or all calls, dealt out to all machines in all ways.
fn ranks(n: u32, some: usize) {
    let mut random = drawn::random(&format!("{n} ranks"));
    let mut all = arrangements(&mut random);
    if drawn::is_full() {
        let mut rows = rows(n, None, &mut random);
        let of_each = rows.len().div_ceil(all.len());
        for arrangement in all {
            let mine = rows.split_off(rows.len().saturating_sub(of_each));
            arrangement.run(n, &mine, &mut random);
        }
        assert!(rows.is_empty());
        return;
    }
    for way in WAYS {
        let at = all.iter().position(|it| {
            let is_wanted = way != "auto" || n < 192 || it.is_plain(n);
            it.way == way && is_wanted
        });
        let arrangement = all.swap_remove(at.expect("some"));
        arrangement.run(n, &rows(n, Some(some), &mut random), &mut random);
    }
}

/// Members of a split: a rank's number there, in which rows are called and who they are.
struct Part {
    members: Vec<u32>,
    rows: Vec<Row>,
    nodes: Nodes,
}

/// Splits of a communicator, whose members come in any order: each knows what is left of the parts.
fn splits(n: u32) {
    let mut random = drawn::random(&format!("splits of {n} ranks"));
    for Arrangement {
        machine,
        dealing,
        way,
    } in arrangements(&mut random).into_iter().take(3)
    {
        let settings = [("algo", way), ("buffsize", "64K")];
        let what = format!("a split of {n} ranks, {}, {dealing:?}, {way}", machine.name);
        println!("{what}");
        let spots = machine.dealt(dealing, n);
        let colors: Vec<usize> = match random.u8(..3) {
            0 => spots.iter().map(|spot| spot.socket as usize).collect(),
            1 => (0..n as usize).map(|rank| rank % 2).collect(),
            _ => (0..n).map(|_| random.usize(..3)).collect(),
        };
        let mut keys: Vec<u32> = (0..n).collect();
        if random.bool() {
            random.shuffle(&mut keys);
        }
        let part = |color: usize| {
            let mut members: Vec<u32> = (0..n).collect();
            members.retain(|&rank| colors[rank as usize] == color);
            members.sort_by_key(|&rank| keys[rank as usize]);
            let seats: Vec<Spot> = members.iter().map(|&rank| spots[rank as usize]).collect();
            let many = members.len() as u32;
            Part {
                rows: rows(many, Some(1), &mut random),
                nodes: machines::nodes(&seats),
                members,
            }
        };
        let used = (0..3).filter(|color| colors.contains(color));
        let parts: Vec<Part> = used.map(part).collect();
        let (config, counts) = (machine.config(&settings), Counts::default());
        ranks_of(&machine.made(&spots, &settings), |comm| {
            let rank = comm.rank();
            let mine = parts.iter().find(|part| part.members.contains(&rank));
            let mine = mine.expect("every rank has a color");
            let (color, key) = (colors[rank as usize] as u32, keys[rank as usize] as i32);
            let child = comm.split(Some(color), key, &config).expect("split");
            let child = child.expect("a color");
            let _guard = AbortOnPanic(&child);
            assert_eq!(mine.members[child.rank() as usize], rank, "{what}");
            what_is_shared_is_known(&child, &mine.nodes, &what);
            counts.of(&child, &mine.nodes, &what);
            mine.rows.iter().for_each(|row| row.run(&child, &what));
            child.destroy().expect("destroy");
        });
    }
}

#[test]
fn splits_of_some_ranks() {
    limited(|| {
        splits(7);
        splits(64);
    });
}

#[test]
fn few_ranks() {
    limited(|| [2, 3, 7].into_iter().for_each(|n| ranks(n, 4)));
}

#[test]
fn ranks_of_64() {
    limited(|| ranks(64, 2));
}

#[test]
fn ranks_of_128() {
    limited(|| ranks(128, 1));
}

#[test]
fn ranks_of_192() {
    limited(|| ranks(192, 1));
}
