//! Lanes whose stages overlap: a few ranks of a node stand for all.
//!
//! **Problem.** In a hierarchy the core of a rank works on one channel while tokens of another one
//! cross the links, and while those of its mates do. A sum of the stages knows nothing of that, and
//! neither does the time of the busiest place, for both are seldom busy all the time.
//!
//! **Idea.** All ranks do the same, so a few are run through their stages: what one hands over, its
//! partner hands over to it at the same time. Each has a core; memory, ways out of caches and the
//! interface are shared. A few rounds say how long a round takes; the others take as long.

use super::call::Call;
use super::hop::Hop;
use super::shared::{Commons, Flows};
use super::work::Work;
use crate::price::cluster::Level;

/// Most ranks that stand for those of an interface.
const MOST_RANKS: usize = 4;
/// Rounds that are run; more take as long as the second half of these adds.
const ROUNDS: usize = 4;

/// Whose tokens a stage reads: those of a stage before it.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Nobody,
    /// All mates of the node.
    Mates(usize),
    /// The partner on another node.
    Partner(usize),
}

/// Steps of a lane between two waits.
#[derive(Clone, Copy)]
struct LaneStage {
    /// Time of the core.
    work_ns: f64,
    /// Time of memory and of the ways between caches, for all ranks of the node.
    beside_ns: [f64; 3],
    /// Time of the interface for what all ranks of it hand over.
    link_ns: f64,
    from: From,
    /// Until what it hands over is seen.
    latency_ns: f64,
    /// The core of another rank does it.
    is_elsewhere: bool,
}

/// Steps of a stage, which move so many bytes each.
#[derive(Clone, Copy, Default)]
pub(super) struct StageWork {
    /// Work of the core; `sends` are publications.
    pub work: Work,
    /// Slots that are written.
    pub copies: f64,
    pub bytes: f64,
    /// Tokens that it reads or shows lie in buffers.
    pub is_shown: bool,
}

/// The stages of a round of one channel.
pub(super) struct StagedLane<'c, 'a> {
    call: &'c Call<'a>,
    /// Part of the ranks that have bytes to hand over: of a few, not all have some.
    pub at_work: f64,
    stages: Vec<LaneStage>,
}

impl<'c, 'a> StagedLane<'c, 'a> {
    /// Stages of a call in which such a part of the ranks have bytes for other nodes.
    pub fn new(call: &'c Call<'a>, at_work: f64) -> StagedLane<'c, 'a> {
        StagedLane {
            call,
            at_work,
            stages: Vec::new(),
        }
    }

    /// Adds what the mates hand over to each other, or take: so many parts at each level. Returns
    /// its number.
    pub fn near(&mut self, parts: [f64; 4], what: StageWork, from: Option<usize>) -> usize {
        let call = self.call;
        let (costs, machine) = (&call.site.costs, &call.site.machine);
        let (mut core_ns, mut byte_ns) = (what.work.steps * costs.step_ns, 0.0);
        let mut latency_ns: f64 = 0.0;
        for level in Level::ALL {
            let (part, cost) = (parts[level as usize], costs.level(level));
            if part > 0.0 {
                core_ns += part * (what.work.reads + what.work.sends) * cost.overhead_ns;
                byte_ns += part * what.work.reads * cost.fetch_ns(costs.read_ns);
                latency_ns = latency_ns.max(cost.latency_ns);
            }
        }
        let mut shared = call.on(call.site);
        if what.is_shown {
            shared.cached.tokens = call.cached.buffers;
        }
        let flows = Flows::Spread(f64::from(machine.per_node));
        let beside = Commons::of(&shared, parts, what.work, flows);
        self.add(LaneStage {
            work_ns: core_ns + what.bytes * (byte_ns + self.own(&what)),
            beside_ns: beside.each(1.0, what.bytes),
            link_ns: 0.0,
            from: from.map_or(From::Nobody, From::Mates),
            latency_ns,
            is_elsewhere: false,
        })
    }

    /// Adds what each rank hands over to another node, or takes from there.
    pub fn far(&mut self, what: StageWork, from: Option<usize>) -> usize {
        let call = self.call;
        let (costs, machine) = (&call.site.costs, &call.site.machine);
        let cost = costs.level(Level::Network);
        let flows = f64::from(machine.per_node);
        let beside = Commons::of(call, [0.0; 4], what.work, Flows::Spread(flows));
        let tokens = what.work.reads + what.work.sends;
        let core_ns = what.work.steps * costs.step_ns + tokens * cost.overhead_ns;
        let read_ns = if what.is_shown { 0.0 } else { costs.read_ns };
        let byte_ns = what.work.reads * (read_ns + cost.carry_ns) + what.work.sends * cost.carry_ns;
        let hop = Hop::at(call, Level::Network, what.work, flows);
        let link_ns = if what.work.sends > 0.0 {
            hop.way(what.bytes * self.at_work)
        } else {
            0.0
        };
        self.add(LaneStage {
            work_ns: core_ns + what.bytes * (byte_ns + self.own(&what)),
            beside_ns: beside.each(1.0, what.bytes),
            link_ns,
            from: from.map_or(From::Nobody, From::Partner),
            latency_ns: cost.latency_ns,
            is_elsewhere: false,
        })
    }

    /// Notes that the last stage is that of a guest, and not of a rank that stands for all.
    pub fn elsewhere(&mut self) {
        if let Some(last) = self.stages.last_mut() {
            last.is_elsewhere = true;
        }
    }

    /// Time of the core for a byte of the own buffers, and of slots.
    fn own(&self, what: &StageWork) -> f64 {
        let costs = &self.call.site.costs;
        what.work.locals * costs.read_ns
            + (what.work.writes + what.copies) * costs.write_ns
            + what.work.folds * costs.fold_ns
    }

    fn add(&mut self, stage: LaneStage) -> usize {
        self.stages.push(stage);
        self.stages.len() - 1
    }

    /// The time of so many rounds of all channels.
    pub fn time_ns(&self, rounds: f64) -> f64 {
        let most = ROUNDS as f64;
        let time = Rehearsal::new(self, rounds.min(most) as usize).time_ns();
        if rounds <= most {
            return time;
        }
        let half = Rehearsal::new(self, ROUNDS / 2).time_ns();
        time + (rounds - most) * (time - half) / (most / 2.0)
    }
}

/// The lanes of a rank.
struct Standing {
    /// The end of the last work of its core, and whose it was.
    free: f64,
    held: usize,
    /// Stages that each lane has done, and when.
    done: Vec<usize>,
    ended: Vec<f64>,
    /// When the next one may begin; infinite until that is known.
    ready: Vec<f64>,
    /// When what each stage of each lane hands over is there.
    seen: Vec<f64>,
}

/// Ranks that run a few rounds.
struct Rehearsal<'r, 'c, 'a> {
    lane: &'r StagedLane<'c, 'a>,
    rounds: usize,
    lanes: usize,
    ranks: Vec<Standing>,
    /// Ranks of a core, and the time of turning to another one.
    crowd: f64,
    switch_ns: f64,
    beside: [f64; 3],
    link: f64,
}

impl<'r, 'c, 'a> Rehearsal<'r, 'c, 'a> {
    fn new(lane: &'r StagedLane<'c, 'a>, rounds: usize) -> Rehearsal<'r, 'c, 'a> {
        let (costs, machine) = (&lane.call.site.costs, &lane.call.site.machine);
        let of_interface = machine.per_node.div_ceil(machine.nics.max(1)) as usize;
        let lanes = lane.call.channels as usize;
        let crowd = if machine.crowded() {
            f64::from(machine.per_node) / f64::from(machine.cores)
        } else {
            1.0
        };
        let standing = || Standing {
            free: 0.0,
            held: 0,
            done: vec![0; lanes],
            ended: vec![0.0; lanes],
            ready: vec![0.0; lanes],
            seen: vec![f64::INFINITY; lanes * rounds * lane.stages.len()],
        };
        Rehearsal {
            lane,
            rounds,
            lanes,
            ranks: (0..of_interface.clamp(1, MOST_RANKS))
                .map(|_| standing())
                .collect(),
            crowd,
            switch_ns: if crowd > 1.0 { costs.switch_ns } else { 0.0 },
            beside: [0.0; 3],
            link: 0.0,
        }
    }

    /// The time of all.
    fn time_ns(mut self) -> f64 {
        let mut last = 0.0f64;
        for _ in 0..self.ranks.len() * self.lanes * self.rounds * self.lane.stages.len() {
            let Some((rank, lane, start)) = self.next() else {
                break;
            };
            let end = self.pass(rank, lane, start);
            last = last.max(end);
            self.ranks[rank].done[lane] += 1;
            self.ranks[rank].ended[lane] = end;
            for other in 0..self.ranks.len() {
                self.wake(other, lane);
            }
        }
        last
    }

    /// Who works next: rank, lane and time.
    fn next(&self) -> Option<(usize, usize, f64)> {
        let mut found: Option<(usize, usize, f64)> = None;
        for (number, rank) in self.ranks.iter().enumerate() {
            let first = rank.ready.iter().copied().fold(f64::INFINITY, f64::min);
            let start = first.max(rank.free);
            if start.is_infinite() || found.is_some_and(|(_, _, other)| other <= start) {
                continue;
            }
            let waits = |&lane: &usize| rank.ready[lane] <= start;
            let lane = if rank.ready[rank.held] <= rank.free {
                rank.held
            } else {
                // What travels is handed over first, and then who has waited longest.
                let before = |&a: &usize, &b: &usize| {
                    let key = |lane: usize| (!self.crosses(rank, lane), rank.ready[lane]);
                    let ((a_near, a), (b_near, b)) = (key(a), key(b));
                    a_near.cmp(&b_near).then(a.total_cmp(&b))
                };
                let waiting = (0..self.lanes).filter(waits);
                waiting.min_by(before).unwrap_or(0)
            };
            found = Some((number, lane, start));
        }
        found
    }

    fn crosses(&self, rank: &Standing, lane: usize) -> bool {
        let stage = &self.lane.stages[rank.done[lane] % self.lane.stages.len()];
        stage.link_ns > 0.0 || matches!(stage.from, From::Partner(_))
    }

    /// The next stage of a lane: returns its end.
    fn pass(&mut self, rank: usize, lane: usize, start: f64) -> f64 {
        let stages = self.lane.stages.len();
        let standing = &mut self.ranks[rank];
        let number = standing.done[lane];
        let stage = &self.lane.stages[number % stages];
        let part = 1.0 / self.ranks.len() as f64;
        // Of lanes that wait some follow others of their rank: so many as simulations have.
        let switch_ns = match stage.from {
            From::Nobody => 0.0,
            _ => self.switch_ns * 0.3 * (1.0 + 1.0 / self.lanes as f64),
        };
        let one = stage.work_ns + switch_ns;
        let mut end = start + one * self.crowd;
        for (free, taken) in self.beside.iter_mut().zip(stage.beside_ns) {
            *free = free.max(start) + taken * part;
            if taken > 0.0 {
                end = end.max(*free);
            }
        }
        let standing = &mut self.ranks[rank];
        if !stage.is_elsewhere {
            (standing.free, standing.held) = (end, lane);
        }
        let mut there = end;
        if stage.link_ns > 0.0 {
            self.link = self.link.max(start + one) + stage.link_ns * part;
            there = self.link;
        }
        standing.seen[lane * self.rounds * stages + number] = there + stage.latency_ns;
        end
    }

    /// Finds when a lane may go on.
    fn wake(&mut self, rank: usize, lane: usize) {
        let (stages, all) = (self.lane.stages.len(), self.rounds * self.lane.stages.len());
        let number = self.ranks[rank].done[lane];
        if number >= all {
            self.ranks[rank].ready[lane] = f64::INFINITY;
            return;
        }
        let of_round = lane * all + number / stages * stages;
        let there = match self.lane.stages[number % stages].from {
            From::Nobody => 0.0,
            From::Partner(stage) => self.ranks[rank].seen[of_round + stage],
            From::Mates(stage) => {
                let seen = self.ranks.iter().map(|other| other.seen[of_round + stage]);
                seen.fold(0.0, f64::max)
            }
        };
        let standing = &mut self.ranks[rank];
        standing.ready[lane] = standing.ended[lane].max(there);
    }
}
