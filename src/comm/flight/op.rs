//! A call in flight: its launches, their lanes, and whoever waits for it.

use super::completion::Completion;
use super::direct::Card;
use crate::base::Result;
use crate::comm::calling::call::{Call, Checked};
use crate::comm::calling::exact::Exact;
use crate::comm::calling::traced::Pending;
use crate::comm::calling::vector::{Deed, Part};
use crate::comm::owned::Exec;
use crate::dtype::DataType;
use crate::exec::oneshot::Stop;
use crate::exec::wires::End;
use crate::exec::{Kernel, LaneRun, Launch, Progress};
use crate::plan::{Algorithm, Collective, Window};
use crate::tune::Choice;
use std::sync::Arc;

/// Lane runs that an op keeps for the next call.
const SPARE_RUNS: usize = 64;

/// One lane on its way.
struct Run {
    launch: usize,
    lane: LaneRun,
    /// The run before it on the same end, which must end first.
    after: Option<usize>,
    done: bool,
    /// Who waits for this run and not for the whole op.
    watcher: Option<Arc<Completion>>,
}

/// Which run of a bundle was the last on each end, without a search per message.
pub(in crate::comm) struct Latest {
    stamp: u64,
    runs: Vec<(u64, usize)>,
}

impl Latest {
    /// For `ends` connections in each direction.
    pub fn new(ends: usize) -> Latest {
        Latest {
            stamp: 0,
            runs: vec![(0, 0); 2 * ends],
        }
    }

    /// A stamp for another bundle.
    pub fn next(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// The stamp of the bundle that is being made.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Notes that `run` of the op `stamp` is the last on `end`; the one before, if there is one.
    pub fn replace(&mut self, stamp: u64, end: End, run: usize) -> Option<usize> {
        let place = match end {
            End::Send(index, _) => 2 * index,
            End::Recv(index, _) => 2 * index + 1,
            _ => return None,
        };
        let before = std::mem::replace(&mut self.runs[place], (stamp, run));
        (before.0 == stamp).then_some(before.1)
    }
}

/// One call, or a bundle of point-to-point calls, in flight.
pub(in crate::comm) struct Op {
    launches: Vec<Launch>,
    /// The runs of this call, and behind them some of earlier calls, kept for their memory.
    runs: Vec<Run>,
    count: usize,
    pending: usize,
    /// All runs before this one are done.
    first: usize,
    /// Which entries of [`Latest`] are this op's.
    stamp: u64,
    /// Fans were used: an epoch ends with the call.
    eager: bool,
    /// What follows when the launches have ended.
    then: Option<Next>,
    /// The cards of all ranks, and behind them the own one as it is sent.
    cards: Vec<Card>,
    /// Nothing of this op moves before these have ended.
    pub after: Vec<Arc<Completion>>,
    /// It calls a function of the program, which only threads of the program do.
    pub by_program: bool,
    pub completion: Arc<Completion>,
    pub collective: Collective,
    /// Which collective of the communicator it is, counted from 1; none for messages.
    pub number: Option<u64>,
    /// What is told when it ends, where calls are traced.
    pub note: Option<Box<Pending>>,
}

/// What follows the launches of an op.
enum Next {
    /// The call that begins when all cards are there.
    Direct(Box<Then>),
    /// An exact sum has several launches in a row.
    Exact(Box<Exact>),
}

/// A call that waits for the cards of all ranks.
struct Then {
    checked: Checked,
    kernel: Kernel,
    /// What runs if the call cannot be direct.
    otherwise: Choice,
    /// The cards are on their way.
    asked: bool,
}

/// What a pass over an op did.
pub(in crate::comm) enum Step {
    Moved,
    /// The missing local rank.
    Blocked(usize),
    Done,
}

impl From<Progress> for Step {
    fn from(progress: Progress) -> Step {
        match progress {
            Progress::Done => Step::Done,
            Progress::Moved(_) => Step::Moved,
            Progress::Blocked(peer) => Step::Blocked(peer),
        }
    }
}

impl Op {
    /// An op without lanes, which ends at once.
    pub fn new(collective: Collective) -> Op {
        Op {
            launches: Vec::new(),
            runs: Vec::new(),
            count: 0,
            pending: 0,
            first: 0,
            stamp: 0,
            eager: false,
            then: None,
            cards: Vec::new(),
            after: Vec::new(),
            by_program: false,
            completion: Arc::default(),
            collective,
            number: None,
            note: None,
        }
    }

    /// Whether all that must end before it has ended.
    pub fn may_begin(&self) -> bool {
        self.after.iter().all(|earlier| earlier.result().is_some())
    }

    /// Makes a finished op, which nobody waits for, ready for another call.
    pub fn recycle(&mut self, collective: Collective) {
        self.launches.clear();
        self.runs.truncate(SPARE_RUNS);
        self.count = 0;
        self.pending = 0;
        self.first = 0;
        self.stamp = 0;
        self.eager = false;
        self.then = None;
        self.by_program = false;
        self.collective = collective;
    }

    fn push(&mut self, launch: usize, lane: usize, window: Window, after: Option<usize>) {
        self.pending += 1;
        self.count += 1;
        if let Some(run) = self.runs.get_mut(self.count - 1) {
            run.lane.restart(lane, window);
            (run.launch, run.after, run.done) = (launch, after, false);
            run.watcher = None;
            return;
        }
        self.runs.push(Run {
            launch,
            lane: LaneRun::new(lane, window),
            after,
            done: false,
            watcher: None,
        });
    }

    /// Adds a collective (or its check) whose lanes all run at once.
    pub fn collective(
        &mut self,
        exec: &mut Exec,
        checked: &Checked,
        kernel: Kernel,
        choice: Choice,
    ) -> Result<()> {
        let launch = exec.launch(checked, kernel, choice)?;
        self.eager = launch.plan.has_fans;
        self.add(exec, checked, launch);
        Ok(())
    }

    fn add(&mut self, exec: &mut Exec, checked: &Checked, launch: Launch) {
        let collective = checked.call.collective;
        let blocks = (
            collective.input_blocks(exec.members.nranks),
            collective.output_blocks(exec.members.nranks),
        );
        for lane in 0..launch.plan.lanes.len() {
            let window = launch.window(lane, checked.call.count, blocks);
            exec.counts.steps_planned += launch.plan.lane_steps_per_round(lane) * window.rounds();
            self.push(self.launches.len(), lane, window, None);
        }
        self.launches.push(launch);
    }

    /// Makes this a collective that is direct if the buffers of all ranks allow it. Whether it asks
    /// for them is decided when it begins: by then all earlier calls have ended, on every rank.
    pub fn direct(&mut self, checked: &Checked, kernel: Kernel, otherwise: Choice) {
        self.then = Some(Next::Direct(Box::new(Then {
            checked: checked.clone(),
            kernel,
            otherwise,
            asked: false,
        })));
    }

    /// An exact sum, whose launches are made one by one.
    pub fn exact(exact: Exact) -> Op {
        let mut op = Op::new(exact.collective());
        op.then = Some(Next::Exact(Box::new(exact)));
        op
    }

    /// The first pass of such a call: the cards, unless the last ones were in vain.
    fn ask(&mut self, exec: &mut Exec, mut then: Box<Then>) -> Result<()> {
        if !exec.direct.asks(&then.checked) {
            return self.collective(exec, &then.checked, then.kernel, then.otherwise);
        }
        then.asked = true;
        let checked = then.checked.clone();
        let ranks = exec.members.nranks as usize;
        let bytes = checked.buffer_bytes(exec.members.rank, exec.members.nranks);
        self.cards.clear();
        self.cards.resize(ranks + 1, Card::default());
        self.cards[ranks] = exec.direct.card(&checked, bytes)?;
        let (all, own) = self.cards.split_at_mut(ranks);
        let gather = Call {
            collective: Collective::AllGather,
            send: own.as_ptr().cast(),
            recv: all.as_mut_ptr().cast(),
            count: size_of::<Card>(),
            dtype: DataType::Uint8,
            ..checked.call
        };
        let shown = Checked {
            call: gather,
            bytes: gather.count,
            // The signature of the call itself: ranks that disagree hear of it now.
            ..checked
        };
        let choice = Choice::plain(Collective::AllGather, Algorithm::OneShot, 1);
        let copy = exec.kernels.get(DataType::Uint8, None).clone();
        self.collective(exec, &shown, copy, choice)?;
        self.then = Some(Next::Direct(then));
        Ok(())
    }

    /// Whether peers may be reading the buffers of this op.
    pub fn is_direct(&self) -> bool {
        self.launches.iter().any(|launch| launch.direct.is_some())
    }

    /// The launches so far have ended: what follows, if anything does.
    fn go_on(&mut self, exec: &mut Exec) -> Result<Step> {
        let Some(next) = self.then.take() else {
            return Ok(Step::Done);
        };
        self.launches.clear();
        (self.count, self.first) = (0, 0);
        match next {
            Next::Direct(then) => self.begin_direct(exec, *then)?,
            Next::Exact(mut exact) => {
                // SAFETY: the buffers belong to the call until it completes, and no launch is left.
                let Some((checked, kernel)) = (unsafe { exact.next(exec) }) else {
                    return Ok(Step::Done);
                };
                let mut choice = exec.table.choose(checked.call.collective, checked.bytes);
                if choice.composed {
                    choice = exec
                        .table
                        .choose_large(checked.call.collective, checked.bytes);
                }
                self.collective(exec, &checked, kernel, choice)?;
                self.then = Some(Next::Exact(exact));
            }
        }
        Ok(Step::Moved)
    }

    /// All cards are there: the call itself.
    fn begin_direct(&mut self, exec: &mut Exec, then: Then) -> Result<()> {
        let checked = &then.checked;
        let cards = &self.cards[..exec.members.nranks as usize];
        let Some(bases) = exec.direct.bases(cards, checked)? else {
            return self.collective(exec, checked, then.kernel, then.otherwise);
        };
        let launch = exec.direct_launch(checked, then.kernel, bases)?;
        self.add(exec, checked, launch);
        Ok(())
    }

    /// Adds one message of a point-to-point bundle; messages with the same end follow each other.
    pub fn message(&mut self, exec: &mut Exec, checked: &Checked, kernel: Kernel) -> Result<()> {
        let choice = Choice::plain(self.collective, Algorithm::Bundle, 1);
        if self.stamp == 0 {
            self.stamp = exec.scratch.latest.next();
        }
        let launch = exec.launch(checked, kernel, choice)?;
        let window = launch.window(0, checked.call.count, (1, 1));
        exec.counts.steps_planned += launch.plan.lane_steps_per_round(0) * window.rounds();
        let run = self.count;
        let end = launch.plan.ends.first();
        let after = end.and_then(|&end| exec.scratch.latest.replace(self.stamp, end, run));
        self.push(self.launches.len(), 0, window, after);
        self.launches.push(launch);
        Ok(())
    }

    /// Adds one part of a call of blocks of different sizes.
    pub fn part(
        &mut self,
        exec: &mut Exec,
        whole: &Checked,
        kernel: &Kernel,
        part: &Part,
    ) -> Result<()> {
        let collective = match part.deed {
            Deed::Send => Collective::Send,
            Deed::Recv => Collective::Recv,
            Deed::Copy => Collective::AllGather,
            Deed::Fold => Collective::ReduceScatterV,
        };
        let checked = Checked {
            call: Call {
                collective,
                send: part.send,
                recv: part.recv,
                count: part.count,
                peer: part.peer,
                ..whole.call
            },
            bytes: part.count * kernel.element_bytes,
            signature: part.signature ^ whole.past,
            past: whole.past,
            number: whole.number,
            op: whole.op,
            made: whole.made.clone(),
            parts: None,
        };
        let algorithm = match part.deed {
            Deed::Send | Deed::Recv => return self.message(exec, &checked, kernel.clone()),
            Deed::Copy => Algorithm::Local,
            Deed::Fold if fold_keeps_order(kernel, exec.members.nranks) => Algorithm::Ordered,
            Deed::Fold => Algorithm::Bundle,
        };
        let choice = Choice::plain(whole.call.collective, algorithm, 1);
        let launch = exec.launch(&checked, kernel.clone(), choice)?;
        let window = launch.window(0, part.count, (1, 1));
        exec.counts.steps_planned += launch.plan.lane_steps_per_round(0) * window.rounds();
        self.push(self.launches.len(), 0, window, None);
        self.launches.push(launch);
        Ok(())
    }

    /// A completion of the run that was added last.
    pub fn watch_last(&mut self) -> Arc<Completion> {
        let watcher = Arc::<Completion>::default();
        match self.runs[..self.count].last_mut() {
            Some(run) => run.watcher = Some(Arc::clone(&watcher)),
            None => watcher.finish(Ok(())),
        }
        watcher
    }

    /// Tells all who wait how it ended.
    pub fn finish(&mut self, result: &Result<()>) {
        if let Some(note) = self.note.take() {
            note.ended(result);
        }
        for run in &self.runs[..self.count] {
            if let Some(watcher) = &run.watcher {
                watcher.finish(result.clone());
            }
        }
        self.completion.finish(result.clone());
    }

    /// Moves what can move.
    ///
    /// # Errors
    /// A rank that called something else, or memory of a peer that cannot be mapped.
    pub fn pass(&mut self, exec: &mut Exec) -> std::result::Result<Step, Stop> {
        exec.may_panic("pass");
        let to_ask = |next: &mut Next| matches!(next, Next::Direct(then) if !then.asked);
        if let Some(Next::Direct(then)) = self.then.take_if(to_ask) {
            self.ask(exec, then)?;
        }
        let mut moved = false;
        let mut missing = None;
        let runs = &mut self.runs[..self.count];
        while runs.get(self.first).is_some_and(|run| run.done) {
            self.first += 1;
        }
        for index in self.first..runs.len() {
            let (before, rest) = runs.split_at_mut(index);
            let run = &mut rest[0];
            if run.done || run.after.is_some_and(|after| !before[after].done) {
                continue;
            }
            let launch = &self.launches[run.launch];
            // SAFETY: the buffers belong to the call until it completes, and the owner lock
            // makes us the only driver.
            match unsafe { run.lane.progress(launch, &mut exec.wires, &mut ())? } {
                Progress::Done => {
                    moved = true;
                    run.done = true;
                    self.pending -= 1;
                    if let Some(watcher) = run.watcher.take() {
                        watcher.finish(Ok(()));
                    }
                }
                Progress::Moved(_) => moved = true,
                Progress::Blocked(peer) => {
                    missing.get_or_insert(peer);
                }
            }
        }
        if self.pending == 0 {
            if self.eager {
                exec.wires.complete_eager();
                self.eager = false;
            }
            return Ok(self.go_on(exec)?);
        }
        Ok(match (moved, missing) {
            (false, Some(peer)) => Step::Blocked(peer),
            _ => Step::Moved,
        })
    }
}

/// Whether arrived blocks are folded in the order of ranks. Only the first 64 sources of a fold can
/// be scaled: with more ranks the own one, which is, comes first.
fn fold_keeps_order(kernel: &Kernel, nranks: u32) -> bool {
    !kernel.pre_scaled || nranks <= 64
}
